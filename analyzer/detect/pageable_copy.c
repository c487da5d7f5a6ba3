/*
 * pageable_copy.c - `pageable-copy`: copies between the device and host memory that is not
 * page-locked, by site, direction and function.
 *
 * Needs: the copies. Cost: the host's time inside the calls, never the bytes alone: a small copy
 * that waits for queued work costs more than a large one that does not. "Pin it" is not the answer
 * to all of them, so a group is first told by its shape (enum shape); the gain is an estimate from
 * the costs in thresholds.h. Main thread only; not for signal handlers.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../hash.h"
#include "../human.h"
#include "../json_text.h"
#include "detect.h"
#include "host_told.h"
#include "query.h"
#include "thresholds.h"

#define ROWS 3 /* the longest copies of a group, kept as evidence */

struct row {
    int64_t call, start_ns, bytes, blocked_ns;
};

/* The copies of one stack, then of one site. */
struct group {
    struct {
        int64_t stack;
        int32_t direction, api;
    } key;
    UT_hash_handle hh;
    char *site;
    char *api;
    bool is_async;
    int64_t count, bytes, blocked_ns;
    int64_t smallest, largest;
    int64_t first_ns, last_ns;
    struct row row[ROWS];
};

enum shape {
    SCALAR_READS, /* D2H of one number each */
    NOT_ASYNC,    /* an async function that waits */
    TINY,         /* many synchronous copies of few bytes */
    PLAIN,        /* synchronous copies */
};

static double expected_ns(const struct group *g) {
    return (double)g->count * (g->is_async ? LS_ASYNC_LAUNCH_NS : LS_SYNC_CALL_NS) +
           (double)g->bytes / LS_PAGEABLE_BYTES_PER_NS;
}

static void keep_row(struct group *g, struct row row) {
    for (int i = 0; i < ROWS; i++) {
        if (i >= g->count || row.blocked_ns > g->row[i].blocked_ns) {
            memmove(&g->row[i + 1], &g->row[i], sizeof row * (size_t)(ROWS - 1 - i));
            g->row[i] = row;
            return;
        }
    }
}

static void add_copy(struct group *g, struct row row) {
    keep_row(g, row);
    if (g->count == 0) {
        g->smallest = row.bytes;
        g->first_ns = row.start_ns;
    }
    g->count++;
    g->bytes += row.bytes;
    g->blocked_ns += row.blocked_ns;
    if (row.bytes < g->smallest)
        g->smallest = row.bytes;
    if (row.bytes > g->largest)
        g->largest = row.bytes;
    if (row.start_ns < g->first_ns)
        g->first_ns = row.start_ns;
    if (row.start_ns > g->last_ns)
        g->last_ns = row.start_ns;
}

/* One pass over the copies: a GROUP BY would sort millions of rows. */
static int read_groups(struct ls_detect *d, struct group **all) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(
        d->db,
        "SELECT COALESCE(stack, 0), direction, api, id, start_ns, bytes, blocked_ns, is_async "
        "FROM copy WHERE status = 0 AND bytes > 0 AND (direction = 1 AND src_kind = 1"
        " OR direction = 2 AND dst_kind = 1) AND id NOT IN (SELECT id FROM temp.host_told)",
        -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct group key = {0}, *g;
        key.key.stack = sqlite3_column_int64(stmt, 0);
        key.key.direction = sqlite3_column_int(stmt, 1);
        key.key.api = sqlite3_column_int(stmt, 2);
        HASH_FIND(hh, *all, &key.key, sizeof key.key, g);
        if (!g) {
            g = calloc(1, sizeof *g);
            if (!g)
                ls_detect_no_memory();
            g->key = key.key;
            g->is_async = sqlite3_column_int(stmt, 7) != 0;
            HASH_ADD(hh, *all, key, sizeof g->key, g);
        }
        add_copy(g, (struct row){sqlite3_column_int64(stmt, 3), sqlite3_column_int64(stmt, 4),
                                 sqlite3_column_int64(stmt, 5), sqlite3_column_int64(stmt, 6)});
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* A text by id, or `otherwise`; owned by the caller. */
static char *text_of(sqlite3_stmt *stmt, int64_t id, const char *otherwise) {
    char *text = NULL;
    sqlite3_bind_int64(stmt, 1, id);
    if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_type(stmt, 0) != SQLITE_NULL)
        text = ls_format("%s", sqlite3_column_text(stmt, 0));
    sqlite3_reset(stmt);
    return text ? text : ls_format("%s", otherwise);
}

static int name_groups(struct ls_detect *d, struct group *all) {
    sqlite3_stmt *site, *api;
    int rc = sqlite3_prepare_v2(d->db, "SELECT site FROM stack_site WHERE id = ?", -1, &site, NULL);
    if (rc != SQLITE_OK)
        return rc;
    rc = sqlite3_prepare_v2(d->db, "SELECT name FROM api WHERE id = ?", -1, &api, NULL);
    for (struct group *g = all; rc == SQLITE_OK && g; g = g->hh.next) {
        g->site = text_of(site, g->key.stack, LS_SITE_UNKNOWN);
        g->api = text_of(api, g->key.api, "unknown");
    }
    sqlite3_finalize(site);
    sqlite3_finalize(api);
    return rc;
}

static int by_site(struct group *x, struct group *y) {
    int order = strcmp(x->site, y->site);
    if (order == 0)
        order = strcmp(x->api, y->api);
    return order ? order : x->key.direction - y->key.direction;
}

static void delete_group(struct group **all, struct group *g) {
    HASH_DEL(*all, g);
    free(g->site);
    free(g->api);
    free(g);
}

/* Several stacks lead to one line: one group. */
static void merge_groups(struct group **all) {
    HASH_SORT(*all, by_site);
    struct group *into = *all, *next;
    for (struct group *g = into ? into->hh.next : NULL; g; g = next) {
        next = g->hh.next;
        if (by_site(into, g) != 0) {
            into = g;
            continue;
        }
        int64_t count = into->count + g->count, bytes = into->bytes + g->bytes;
        int64_t blocked = into->blocked_ns + g->blocked_ns;
        for (int i = 0; i < ROWS && i < g->count; i++)
            add_copy(into, g->row[i]);
        into->count = count;
        into->bytes = bytes;
        into->blocked_ns = blocked;
        if (g->smallest < into->smallest)
            into->smallest = g->smallest;
        if (g->largest > into->largest)
            into->largest = g->largest;
        if (g->first_ns < into->first_ns)
            into->first_ns = g->first_ns;
        if (g->last_ns > into->last_ns)
            into->last_ns = g->last_ns;
        delete_group(all, g);
    }
}

static enum shape shape_of(const struct group *g) {
    if (g->key.direction == LS_DIRECTION_D2H && g->largest <= LS_SCALAR_BYTES)
        return SCALAR_READS;
    if (g->is_async)
        return NOT_ASYNC;
    if (g->count >= LS_TINY_COUNT && g->bytes / g->count <= LS_TINY_BYTES)
        return TINY;
    return PLAIN;
}

/* Host time that the change would give back; `basis` says what that rests on. */
static int64_t gain_of(const struct group *g, enum shape shape, const char **basis) {
    double time = (double)g->blocked_ns, count = (double)g->count, bytes = (double)g->bytes, after;
    switch (shape) {
    case SCALAR_READS:
        *basis = "read back every tenth time; the rest of the wait is gone only if the host has "
                 "other work meanwhile";
        after = time / LS_READ_BACK_EVERY;
        break;
    case NOT_ASYNC:
        *basis = "from page-locked memory the call returns in 5 us";
        after = count * LS_ASYNC_LAUNCH_NS;
        break;
    case TINY:
        *basis = "64 copies in one: 10 us a call, 8 GB/s";
        after = count / LS_BATCH * LS_SYNC_CALL_NS + bytes / LS_PAGEABLE_BYTES_PER_NS;
        break;
    default:
        /* It waits either way: only the transfer itself becomes shorter. */
        *basis = "the transfer runs at 22 GB/s from page-locked memory, not at 8";
        after = time - bytes / LS_PAGEABLE_BYTES_PER_NS + bytes / LS_PINNED_BYTES_PER_NS;
        if (time < bytes / LS_PAGEABLE_BYTES_PER_NS)
            after = bytes / LS_PINNED_BYTES_PER_NS;
    }
    return after < time ? (int64_t)(time - after) : 0;
}

static enum ls_severity severity_of(const struct ls_detect *d, const struct group *g,
                                    enum shape shape, bool load, int64_t gain) {
    double share = ls_share_of_run(d, gain);
    double blocked = ls_share_of_run(d, g->blocked_ns);
    bool noise = g->blocked_ns < LS_NOISE_NS && blocked < LS_SHARE_WARNING;
    bool repeated = g->count >= LS_REPEATED && !load && !noise && blocked >= LS_SHARE_NEGLIGIBLE;
    if (share >= LS_SHARE_PROBLEM && !load)
        return LS_PROBLEM;
    if (share >= LS_SHARE_PROBLEM || (share >= LS_SHARE_WARNING && !load))
        return LS_WARNING;
    return repeated && shape != SCALAR_READS ? LS_WARNING : LS_INFO;
}

static char *title_of(const struct group *g, enum shape shape, bool load) {
    struct ls_human count, bytes, time, mean;
    const char *way = g->key.direction == LS_DIRECTION_H2D ? "host to device" : "device to host";
    const char *when = load ? ", while loading" : "";
    ls_human_count(&count, g->count);
    ls_human_bytes(&bytes, g->bytes);
    ls_human_bytes(&mean, g->bytes / g->count);
    ls_human_ns(&time, g->blocked_ns);
    switch (shape) {
    case SCALAR_READS:
        return ls_format("%s %s of single values by %s, %s in all, held the host for %s%s",
                         count.text, ls_plural(g->count, "read", "reads"), g->api, bytes.text,
                         time.text, when);
    case NOT_ASYNC:
        return ls_format("%s %s %s not asynchronous: %s, %s, pageable memory, %s of host time%s",
                         count.text, g->api, ls_plural(g->count, "call is", "calls are"), way,
                         bytes.text, time.text, when);
    case TINY:
        return ls_format("%s tiny pageable copies by %s: %s, %s each, %s in all, %s of host time%s",
                         count.text, g->api, way, mean.text, bytes.text, time.text, when);
    default:
        return ls_format("%s pageable %s by %s: %s, %s, %s of host time%s", count.text,
                         ls_plural(g->count, "copy", "copies"), g->api, way, bytes.text, time.text,
                         when);
    }
}

/* When the program first gave the device something to do that a later copy could wait for. */
static int64_t first_queued_ns(sqlite3 *db) {
    return ls_query_int(db, INT64_MAX,
                        "SELECT start_ns FROM call WHERE status = 0 AND api IN (SELECT id FROM api "
                        "WHERE class IN ('launch', 'graph') OR name LIKE '%Async%') "
                        "ORDER BY id LIMIT 1");
}

static char *why_of(const struct group *g, enum shape shape, bool waited) {
    struct ls_human mean, needed, size;
    ls_human_ns(&mean, g->blocked_ns / g->count);
    ls_human_ns(&needed, (int64_t)(expected_ns(g) / (double)g->count));
    ls_human_bytes(&size, g->bytes / g->count);
    if (shape == SCALAR_READS)
        return ls_format("Each read waits until the device has done all work before it (%s on "
                         "average), and meanwhile the host queues nothing new.",
                         mean.text);
    if (waited)
        return ls_format("Each call held the host for %s on average, where moving %s takes about "
                         "%s: the rest is waiting for work queued before it, which a copy from "
                         "pageable memory cannot overlap with.",
                         mean.text, size.text, needed.text);
    if (shape == NOT_ASYNC)
        return ls_format("An asynchronous copy needs page-locked memory. From pageable memory CUDA "
                         "goes through a buffer of its own and the call returns late, %s on "
                         "average: it overlaps with nothing.",
                         mean.text);
    if (shape == TINY || g->bytes / g->count <= LS_TINY_BYTES)
        return ls_format("The call costs more than the bytes: %s for %s on average.", mean.text,
                         size.text);
    return ls_format("Pageable memory is copied twice, through a page-locked buffer of CUDA's own, "
                     "at less than half of the bus's speed.");
}

static char *advice_of(const struct ls_detect *d, const struct group *g, enum shape shape,
                       bool load) {
    const char *torch = "";
    if (shape == SCALAR_READS)
        return ls_format("Keep the value on the device and read it every few steps; pinning does "
                         "not help here, the wait is for the value itself.");
    if (shape == TINY)
        return ls_format("Gather the pieces in one buffer and copy them at once. Pinning each "
                         "piece would cost more than it saves.");
    if (load && !g->is_async)
        return ls_format("Low priority: it happens once. If start-up time matters, read into one "
                         "page-locked buffer (cudaHostAlloc) and copy from there.");
    if (g->bytes / g->count <= LS_STAGE_BYTES) {
        torch = d->pytorch ? " (in PyTorch: one tensor made once with pin_memory=True, filled with "
                             "copy_(), then to(device, non_blocking=True))"
                           : "";
        return ls_format("Keep one page-locked staging buffer for all of them, allocated once with "
                         "cudaHostAlloc%s. Do not pin memory for each call: for %s that costs more "
                         "than the copy.",
                         torch, "so few bytes");
    }
    if (d->pytorch)
        torch =
            g->key.direction == LS_DIRECTION_H2D
                ? " In PyTorch: DataLoader(pin_memory=True), then to(device, non_blocking=True)."
                : " In PyTorch: copy_() into a tensor made once with pin_memory=True, "
                  "non_blocking=True.";
    return ls_format("Allocate the host buffer once with cudaHostAlloc (or page-lock it once with "
                     "cudaHostRegister) and reuse it%s.%s",
                     g->is_async ? "" : "; with a stream, cudaMemcpyAsync then also overlaps",
                     torch);
}

/* "a.c:4 leak" -> "a.c:" + "leak": two sites of one function compare equal. */
static bool same_function(const char *x, const char *y) {
    const char *fx = strrchr(x, ' '), *fy = strrchr(y, ' ');
    const char *lx = strchr(x, ':'), *ly = strchr(y, ':');
    return fx && fy && lx && ly && strcmp(fx, fy) == 0 && lx - x == ly - y &&
           strncmp(x, y, (size_t)(lx - x)) == 0;
}

/* Where copies are from or to page-locked memory already. */
struct pinned {
    char *site;
    int direction;
    int64_t count;
    struct pinned *next;
};

static int read_pinned(struct ls_detect *d, struct pinned **list) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(
        d->db,
        "SELECT (SELECT site FROM stack_site WHERE stack_site.id = copy.stack), direction, COUNT(*)"
        " FROM copy WHERE status = 0 AND (direction = 1 AND src_kind = 2"
        " OR direction = 2 AND dst_kind = 2) GROUP BY stack, direction",
        -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *site = (const char *)sqlite3_column_text(stmt, 0);
        struct pinned *p = malloc(sizeof *p);
        if (!p)
            ls_detect_no_memory();
        *p = (struct pinned){ls_format("%s", site ? site : LS_SITE_UNKNOWN),
                             sqlite3_column_int(stmt, 1), sqlite3_column_int64(stmt, 2), *list};
        *list = p;
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* A neighbour that is pinned shows how it is done, and that it works there. */
static void add_neighbours(const struct pinned *pinned, const struct group *g, json_t *evidence) {
    json_t *list = json_array();
    for (const struct pinned *p = pinned; p; p = p->next)
        if (p->direction == g->key.direction && same_function(p->site, g->site))
            json_array_append_new(list, json_pack("{s:o, s:I}", "site", ls_json_text(p->site),
                                                  "count", (json_int_t)p->count));
    if (json_array_size(list))
        json_object_set(evidence, "pinned_in_same_function", list);
    json_decref(list);
}

static void add_evidence(const struct ls_detect *d, const struct group *g, bool waited,
                         const char *basis, json_t *e) {
    json_t *rows = json_array();
    for (int i = 0; i < ROWS && i < g->count; i++)
        json_array_append_new(rows, json_pack("{s:I, s:I, s:I, s:I}", "call", g->row[i].call,
                                              "start_ns", g->row[i].start_ns, "bytes",
                                              g->row[i].bytes, "blocked_ns", g->row[i].blocked_ns));
    json_t *more = json_pack(
        "{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:{s:s, s:s}, s:o}", "api", g->api,
        "direction", g->key.direction == LS_DIRECTION_H2D ? "H2D" : "D2H", "is_async", g->is_async,
        "smallest", g->smallest, "largest", g->largest, "mean_blocked_ns", g->blocked_ns / g->count,
        "expected_ns", (json_int_t)expected_ns(g), "first_ns", g->first_ns, "last_ns", g->last_ns,
        "waited_for_queued_work", waited, "gain", "confidence", "estimated", "assumes", basis,
        "rows", rows);
    json_object_update(e, more);
    json_decref(more);
    if (d->lost)
        json_object_set_new(e, "lost_events", json_integer(d->lost));
}

static void add_finding(struct ls_detect *d, const struct ls_detector *self, const struct group *g,
                        const struct pinned *pinned) {
    enum shape shape = shape_of(g);
    bool load = ls_is_loading(d, g->last_ns);
    /* Long, and there was something to wait for: else it was page faults, or CUDA's first use. */
    bool waited = (double)g->blocked_ns > LS_WAITED_FACTOR * expected_ns(g) &&
                  first_queued_ns(d->db) < g->last_ns;
    const char *basis;
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->count = g->count;
    f->bytes = g->bytes;
    f->time_ns = g->blocked_ns;
    f->gain_ns = gain_of(g, shape, &basis);
    f->severity = severity_of(d, g, shape, load, f->gain_ns);
    f->site = ls_format("%s", g->site);
    f->title = title_of(g, shape, load);
    f->advice = advice_of(d, g, shape, load);
    char *why = why_of(g, shape, waited);
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    free(why);
    if (load)
        json_object_set_new(f->evidence, "phase", json_string("load"));
    add_evidence(d, g, waited, basis, f->evidence);
    add_neighbours(pinned, g, f->evidence);
    ls_finding_phase(
        d, f,
        "SELECT start_ns, thread, MAX(blocked_ns, 1) FROM copy WHERE status = 0 AND"
        " bytes > 0 AND direction = %d AND %s = 1 AND COALESCE(stack, 0) IN " LS_STACKS_OF_SITE,
        g->key.direction, g->key.direction == LS_DIRECTION_H2D ? "src_kind" : "dst_kind", f->site,
        f->site);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct group *all = NULL, *g, *next;
    struct pinned *pinned = NULL;
    int rc = ls_host_told(d, false);
    if (rc == SQLITE_OK)
        rc = read_groups(d, &all);
    if (rc == SQLITE_OK)
        rc = name_groups(d, all);
    if (rc == SQLITE_OK)
        rc = read_pinned(d, &pinned);
    if (rc == SQLITE_OK) {
        merge_groups(&all);
        for (g = all; g; g = g->hh.next)
            add_finding(d, self, g, pinned);
    }
    while (pinned) {
        struct pinned *p = pinned;
        pinned = p->next;
        free(p->site);
        free(p);
    }
    HASH_ITER(hh, all, g, next)
    delete_group(&all, g);
    return rc;
}

const struct ls_detector ls_detect_pageable_copy = {"pageable-copy", run};
