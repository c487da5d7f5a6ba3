/*
 * stray_context.c - `stray-context`: this process has a context on a device that it does not work
 * on. The current device is per thread and begins as device 0, so whatever asks CUDA for anything
 * before the device is set makes one there, in every rank.
 *
 * Needs: NVML's figure for the process (device_use), or recorded calls that make a context. Cost:
 * the context's bytes, where NVML told them. Main thread only; not for signal handlers.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../query.h"
#include "../room.h"
#include "detect.h"
#include "thresholds.h"

#define DEVICES 256

/* What the trace says of this process on one device. */
struct place {
    int64_t own;     /* NVML's last word; -1: none */
    int64_t context; /* of that, beside what was allocated; -1: not known */
    int64_t held;    /* the most that one moment's lifetimes could have held: their sum */
    int64_t allocations, copies, launches;
    int64_t last_ns;  /* of those */
    int64_t maker;    /* call.id that made the context, as far as recorded; 0: none */
    bool maker_known; /* it is a function that does nothing else */
};

struct places {
    struct place at[DEVICES];
    int main;  /* the device with the most work; -1: none has any */
    bool told; /* NVML told of this process, or contexts' own calls are recorded */
};

/* ---- reading ---- */

static struct place *place_of(struct places *p, int device) {
    return device >= 0 && device < DEVICES ? &p->at[device] : NULL;
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql) {
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return NULL;
    return stmt;
}

static void read_own(struct places *p, sqlite3 *db) {
    /* The last one with anything: the very last may be of a process that is going. */
    sqlite3_stmt *stmt = prepare(db, "SELECT device, own_process, own_process - tracked,"
                                     " MAX(CASE WHEN own_process > 0 THEN ts_ns ELSE -1 END)"
                                     " FROM device_use WHERE own_process NOT NULL GROUP BY device");
    while (stmt && sqlite3_step(stmt) == SQLITE_ROW) {
        struct place *at = place_of(p, sqlite3_column_int(stmt, 0));
        if (!at)
            continue;
        at->own = sqlite3_column_int64(stmt, 1);
        at->context =
            sqlite3_column_type(stmt, 2) == SQLITE_NULL ? at->own : sqlite3_column_int64(stmt, 2);
        p->told = true;
    }
    sqlite3_finalize(stmt);
}

static void read_allocations(struct places *p, sqlite3 *db) {
    sqlite3_stmt *stmt =
        prepare(db, "SELECT device, COUNT(*), SUM(size), MAX(start_ns) FROM allocation"
                    " WHERE " LS_ON_DEVICE_SQL " GROUP BY device");
    while (stmt && sqlite3_step(stmt) == SQLITE_ROW) {
        struct place *at = place_of(p, sqlite3_column_int(stmt, 0));
        if (!at)
            continue;
        at->allocations = sqlite3_column_int64(stmt, 1);
        at->held = sqlite3_column_int64(stmt, 2);
        if (sqlite3_column_int64(stmt, 3) > at->last_ns)
            at->last_ns = sqlite3_column_int64(stmt, 3);
    }
    sqlite3_finalize(stmt);
}

/* Calls on each device by class; a context is made by whatever needs one. */
static void read_calls(struct places *p, sqlite3 *db) {
    sqlite3_stmt *stmt = prepare(
        db, "SELECT device, (SELECT class FROM api WHERE api.id = c.api) AS class, COUNT(*),"
            " MAX(start_ns), MIN(id) FROM call AS c WHERE status = 0 AND device NOT NULL"
            " GROUP BY device, api");
    static const char *const needs[] = {
        "device_alloc", "async_alloc", "managed_alloc", "pinned_alloc", "array_alloc", "register",
        "copy",         "memset",      "launch",        "graph",        "stream",      "event",
        "sync",         "mem_info",    "library_call",  "library",      "free"};
    while (stmt && sqlite3_step(stmt) == SQLITE_ROW) {
        struct place *at = place_of(p, sqlite3_column_int(stmt, 0));
        const char *class = (const char *)sqlite3_column_text(stmt, 1);
        int64_t count = sqlite3_column_int64(stmt, 2), first = sqlite3_column_int64(stmt, 4);
        if (!at || !class)
            continue;
        bool copies = strcmp(class, "copy") == 0 || strcmp(class, "memset") == 0;
        bool works = strcmp(class, "launch") == 0 || strcmp(class, "graph") == 0 ||
                     strcmp(class, "library_call") == 0;
        at->copies += copies ? count : 0;
        at->launches += works ? count : 0;
        if ((copies || works) && sqlite3_column_int64(stmt, 3) > at->last_ns)
            at->last_ns = sqlite3_column_int64(stmt, 3);
        for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++)
            if (strcmp(class, needs[i]) == 0 && (!at->maker || first < at->maker))
                at->maker = first;
    }
    sqlite3_finalize(stmt);
}

/* Those whose very purpose it is; the device is in a field of the call. */
static void read_makers(struct places *p, sqlite3 *db) {
    sqlite3_stmt *apis =
        prepare(db, "SELECT id, (SELECT key FROM json_each(fields) WHERE value LIKE"
                    " '%\"device\"%') AS place FROM api WHERE class = 'context' AND place NOT NULL"
                    " AND (name LIKE '%Retain%' OR name LIKE '%Create%')");
    while (apis && sqlite3_step(apis) == SQLITE_ROW) {
        char *sql = sqlite3_mprintf("SELECT f%d, MIN(id) FROM call WHERE api = %lld AND status = 0"
                                    " GROUP BY 1",
                                    sqlite3_column_int(apis, 1), sqlite3_column_int64(apis, 0));
        sqlite3_stmt *stmt = sql ? prepare(db, sql) : NULL;
        while (stmt && sqlite3_step(stmt) == SQLITE_ROW) {
            struct place *at = place_of(p, sqlite3_column_int(stmt, 0));
            int64_t id = sqlite3_column_int64(stmt, 1);
            p->told = true;
            if (!at || (at->maker_known && at->maker < id))
                continue;
            at->maker = id;
            at->maker_known = true;
        }
        sqlite3_finalize(stmt);
        sqlite3_free(sql);
    }
    sqlite3_finalize(apis);
}

/* The one that the process launches on; with none, that it holds most on. */
static void find_main(struct places *p) {
    p->main = -1;
    for (int i = 0; i < DEVICES; i++) {
        const struct place *at = &p->at[i], *best = p->main < 0 ? NULL : &p->at[p->main];
        if (at->launches + at->allocations == 0)
            continue;
        if (!best || at->launches > best->launches ||
            (at->launches == best->launches && at->held > best->held))
            p->main = i;
    }
}

/* All that follows is about several devices, or NVML's word: one pass over all calls less. */
static bool worth_reading(const struct ls_detect *d, const struct places *p) {
    for (int i = 0; i < DEVICES; i++)
        if (p->at[i].own > 0)
            return true;
    return p->told || d->several_devices;
}

/* ---- judging ---- */

enum stray { NOT, CONTEXT_ONLY, WITH_TENSORS, IDLE_PROCESS };

static enum stray judge(const struct ls_detect *d, const struct places *p, int device) {
    const struct place *at = &p->at[device];
    int64_t early = d->begin_ns + (int64_t)(LS_LOAD_FRACTION * (double)d->run_ns);
    bool there = at->own > 0 || (at->own < 0 && at->maker > 0);
    if (!there || device == p->main || at->context > LS_CONTEXT_MOST)
        return NOT;
    if (at->allocations == 0 && at->copies == 0 && at->launches == 0)
        return p->main >= 0 ? CONTEXT_ONLY : at->own > 0 ? IDLE_PROCESS : NOT;
    if (p->main >= 0 && p->at[p->main].launches > 0 && at->launches == 0 && at->last_ns < early)
        return WITH_TENSORS;
    return NOT;
}

/* What a context takes where NVML did not say it of this one: as much as that of another device. */
static int64_t like_others(const struct ls_detect *d) {
    return ls_query_int(d->db, 0,
                        "SELECT MIN(context) FROM device_use WHERE own_process > 0"
                        " AND tracked > 0 AND context > 0");
}

/* ---- the finding ---- */

/* Who made it: the site, the function and the thread's name. */
static void put_maker(const struct ls_detect *d, struct ls_finding *f, const struct place *at) {
    char *sql = sqlite3_mprintf(
        "SELECT (SELECT name FROM api WHERE api.id = c.api),"
        " (SELECT site FROM stack_site WHERE stack_site.id = c.stack),"
        " (SELECT name FROM thread WHERE thread.id = c.thread), c.start_ns,"
        " (SELECT tid FROM thread WHERE thread.id = c.thread) ="
        " (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'pid') FROM call AS c"
        " WHERE c.id = %lld",
        (long long)at->maker);
    sqlite3_stmt *stmt = sql && at->maker ? prepare(d->db, sql) : NULL;
    const char *site = NULL;
    if (stmt && sqlite3_step(stmt) == SQLITE_ROW) {
        const char *api = (const char *)sqlite3_column_text(stmt, 0);
        const char *thread = (const char *)sqlite3_column_text(stmt, 2);
        site = (const char *)sqlite3_column_text(stmt, 1);
        json_object_update_new(f->evidence,
                               json_pack("{s:o, s:I, s:o, s:b, s:b}", "made_by",
                                         ls_json_text(api ? api : "unknown"), "made_ns",
                                         (json_int_t)sqlite3_column_int64(stmt, 3), "thread",
                                         ls_json_text(thread ? thread : ""), "main_thread",
                                         sqlite3_column_int(stmt, 4), "certain", at->maker_known));
    }
    f->site = ls_format("%s", site ? site : LS_SITE_UNKNOWN);
    sqlite3_finalize(stmt);
    sqlite3_free(sql);
}

static char *title_of(const struct places *p, int device, enum stray stray, int64_t bytes,
                      bool measured) {
    struct ls_human human, held;
    char size[80] = "";
    if (bytes > 0)
        snprintf(size, sizeof size, " of %s%s", measured ? "" : "about ",
                 ls_human_bytes(&human, bytes));
    if (stray == IDLE_PROCESS)
        return ls_format("This process has a context%s on device %d and does nothing on any device",
                         size, device);
    if (stray == WITH_TENSORS)
        return ls_format("A context%s on device %d, with %s that was put there early and never "
                         "worked on: the work is on device %d",
                         size, device, ls_human_bytes(&held, p->at[device].held), p->main);
    return ls_format("A context%s on device %d, where this process does nothing: it works on "
                     "device %d",
                     size, device, p->main);
}

static char *advice_of(const struct place *at, enum stray stray, int main) {
    if (stray == WITH_TENSORS)
        return ls_format("Load where it is needed: torch.load(..., map_location=\"cpu\"), or of "
                         "device %d; a checkpoint's tensors otherwise go back to the device that "
                         "they were saved from. Where nothing is wanted there at all, "
                         "CUDA_VISIBLE_DEVICES for each rank.",
                         main);
    return ls_format(
        "Set the device before anything else asks CUDA, in each thread that does: "
        "torch.cuda.set_device(rank), or cudaSetDevice, first of all. %sOr give each rank its own "
        "CUDA_VISIBLE_DEVICES: what is not visible cannot get a context.",
        at->maker ? "Threads that load or pin (DataLoader's pin_memory, helpers of C++) begin with "
                    "device 0, whatever the main thread has set. "
                  : "Usual causes: torch.load without map_location, a thread that pins memory, a "
                    "library that looks at every device. ");
}

static void add(struct ls_detect *d, const struct ls_detector *self, const struct places *p,
                int device, enum stray stray) {
    const struct place *at = &p->at[device];
    bool measured = at->own > 0;
    int64_t bytes = measured ? (at->context > 0 ? at->context : 0) : like_others(d);
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->severity = stray == IDLE_PROCESS ? LS_INFO : LS_WARNING;
    f->count = 1;
    f->bytes = f->gain_bytes = bytes;
    put_maker(d, f, at);
    f->title = title_of(p, device, stray, bytes, measured);
    f->advice = advice_of(at, stray, p->main);
    json_object_set_new(
        f->evidence, "why",
        json_string("A context takes some hundred MB of its device, for each process that has one: "
                    "with eight ranks on a machine, seven of them on device 0."));
    json_object_set_new(f->evidence, "confidence",
                        json_string(measured          ? "seen"
                                    : at->maker_known ? "linked"
                                                      : "estimated"));
    json_object_update_new(f->evidence,
                           json_pack("{s:i, s:i, s:s, s:o, s:o, s:I, s:I, s:I}", "device", device,
                                     "works_on", p->main, "shape",
                                     stray == CONTEXT_ONLY   ? "context only"
                                     : stray == WITH_TENSORS ? "context and tensors"
                                                             : "idle process",
                                     "own_process", measured ? json_integer(at->own) : json_null(),
                                     "context", bytes > 0 ? json_integer(bytes) : json_null(),
                                     "allocations", (json_int_t)at->allocations, "copies",
                                     (json_int_t)at->copies, "launches", (json_int_t)at->launches));
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct places *p = ls_new(1, sizeof *p);
    for (int i = 0; i < DEVICES; i++)
        p->at[i].own = p->at[i].context = -1;
    read_own(p, d->db);
    read_makers(p, d->db);
    if (worth_reading(d, p)) {
        read_allocations(p, d->db);
        read_calls(p, d->db);
        find_main(p);
        for (int i = 0; i < DEVICES; i++) {
            enum stray stray = judge(d, p, i);
            if (stray != NOT)
                add(d, self, p, i, stray);
        }
    }
    if (!p->told)
        ls_detect_skip(
            d, self->kind,
            "neither NVML's figures for this process nor calls that make contexts are in "
            "this trace: those that no recorded call needed would not be seen");
    free(p);
    return SQLITE_OK;
}

const struct ls_detector ls_detect_stray_context = {"stray-context", run};
