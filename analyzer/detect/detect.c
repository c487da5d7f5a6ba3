/*
 * detect.c - runs the detectors, ranks their findings and stores them. See detect.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "detect.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../ending.h"
#include "../failures.h"
#include "../json_text.h"
#include "../query.h"
#include "../room.h"
#include "../term.h"
#include "convolutions.h"
#include "course.h"
#include "flow.h"
#include "oom_facts.h"
#include "products.h"
#include "thresholds.h"
#include "uses.h"
#include "workspaces.h"

static const struct ls_detector *const detectors[] = {
#define DETECTOR(name) &ls_detect_##name,
#include "detectors.def"
};

void ls_detect_no_memory(void) {
    fputs("layoutspy: out of memory while looking for problems\n", stderr);
    exit(LS_EXIT_INPUT);
}

char *ls_format(const char *format, ...) {
    va_list args;
    char *text;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        ls_detect_no_memory();
    va_end(args);
    return text;
}

const char *ls_memory_kind_name(int kind) {
    switch (kind) {
    case LS_MEMORY_DEVICE:
        return "device";
    case LS_MEMORY_ASYNC:
        return "async";
    case LS_MEMORY_MANAGED:
        return "managed";
    case LS_MEMORY_PINNED:
        return "pinned";
    case LS_MEMORY_REGISTERED:
        return "registered";
    case LS_MEMORY_ARRAY:
        return "array";
    default:
        return "unknown";
    }
}

double ls_share_of_run(const struct ls_detect *d, int64_t ns) {
    double share = (double)ns / (double)d->run_ns;
    return share < 1 ? share : 1; /* threads side by side can spend more than the run's length */
}

double ls_share_of_memory(const struct ls_detect *d, int64_t bytes) {
    return (double)bytes / (double)d->capacity;
}

struct ls_finding *ls_finding_add(struct ls_detect *d, const char *kind) {
    d->finding = ls_room(d->finding, d->finding_count, &d->finding_room, sizeof *d->finding);
    struct ls_finding *f = &d->finding[d->finding_count++];
    memset(f, 0, sizeof *f);
    f->kind = kind;
    f->evidence = json_object();
    json_object_set_new(f->evidence, "confidence", json_string("seen"));
    return f;
}

struct ls_finding *ls_finding_at(struct ls_detect *d, const char *kind, const char *site) {
    for (size_t i = 0; i < d->finding_count; i++)
        if (strcmp(d->finding[i].kind, kind) == 0 && strcmp(d->finding[i].site, site) == 0)
            return &d->finding[i];
    return NULL;
}

bool ls_finding_of_device(const struct ls_finding *f, int device) {
    const json_t *of = json_object_get(f->evidence, "device");
    return json_is_integer(of) && json_integer_value(of) == device;
}

const struct ls_oom_events *ls_detect_oom_events(struct ls_detect *d) {
    if (!d->oom_events_read && !ls_oom_events_load(&d->oom_events, d->db))
        return NULL;
    d->oom_events_read = true;
    return &d->oom_events;
}

const struct ls_history *ls_detect_history(struct ls_detect *d, int device) {
    const struct ls_history *history = ls_histories_get(d->histories, device);
    return history && history->spans ? history : NULL;
}

size_t ls_detect_devices(struct ls_detect *d, int *device, size_t room) {
    return ls_histories_devices(d->histories, device, room);
}

void ls_finding_phase(struct ls_detect *d, struct ls_finding *f, const char *events, ...) {
    struct ls_phase_share share = {0};
    sqlite3_stmt *stmt;
    va_list args;
    if (!d->phases)
        return;
    va_start(args, events);
    char *sql = sqlite3_vmprintf(events, args);
    va_end(args);
    if (!sql)
        ls_detect_no_memory();
    if (sqlite3_prepare_v2(d->db, sql, -1, &stmt, NULL) == SQLITE_OK)
        ls_phases_share(d->phases, stmt, &share);
    sqlite3_finalize(stmt);
    sqlite3_free(sql);
    if (share.name)
        json_object_set_new(f->evidence, "nvtx_phase",
                            json_pack("{s:o, s:o, s:f}", "name", ls_json_text(share.name), "domain",
                                      ls_json_text(share.domain), "share", share.share));
}

/* One more reason for a kind: said behind the one before. */
static void skip_more(json_t *row, const char *reason) {
    const char *known = json_string_value(json_array_get(row, 1));
    if (strstr(known, reason))
        return;
    char *both = ls_format("%s; %s", known, reason);
    json_array_set_new(row, 1, ls_json_text(both));
    free(both);
}

void ls_detect_skip(struct ls_detect *d, const char *kind, const char *format, ...) {
    va_list args;
    char *reason;
    size_t i;
    json_t *row, *before = NULL;
    va_start(args, format);
    if (vasprintf(&reason, format, args) < 0)
        ls_detect_no_memory();
    va_end(args);
    json_array_foreach(d->skipped, i, row) {
        if (strcmp(json_string_value(json_array_get(row, 0)), kind) == 0)
            before = row;
    }
    if (before)
        skip_more(before, reason);
    else
        json_array_append_new(d->skipped, json_pack("[s, o]", kind, ls_json_text(reason)));
    free(reason);
}

/* Where calls tell the device's size: by api.id the column, as cudaMemGetInfo and its like have it;
 * as the branches of a CASE, and as a list. To be freed by sqlite3_free(). */
static void size_columns(sqlite3 *db, char **branches, char **apis) {
    sqlite3_stmt *stmt;
    sqlite3_str *branch = sqlite3_str_new(db), *list = sqlite3_str_new(db);
    int rc = sqlite3_prepare_v2(
        db,
        "SELECT id, (SELECT key FROM json_each(fields) WHERE value LIKE '%\"total\"%') AS place"
        " FROM api WHERE class IN ('mem_info', 'device') AND place NOT NULL",
        -1, &stmt, NULL);
    sqlite3_str_appendall(list, "NULL");
    while (rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW) {
        int64_t api = sqlite3_column_int64(stmt, 0);
        sqlite3_str_appendf(branch, " WHEN %lld THEN f%d", (long long)api,
                            sqlite3_column_int(stmt, 1));
        sqlite3_str_appendf(list, ", %lld", (long long)api);
    }
    sqlite3_finalize(stmt);
    sqlite3_str_appendall(branch, " WHEN NULL THEN 0");
    *branches = sqlite3_str_finish(branch);
    *apis = sqlite3_str_finish(list);
    if (!*branches || !*apis)
        ls_detect_no_memory();
}

/* What there is to know of few calls: those that failed, that tell the device's size, and whether
 * there are any on a device other than the first one's. One pass, and little to do for most: there
 * are millions. */
static void gather_rare_calls(struct ls_detect *d) {
    sqlite3_stmt *stmt;
    char *sizes, *apis;
    size_columns(d->db, &sizes, &apis);
    char *sql = sqlite3_mprintf(
        "SELECT SUM(" LS_FAILED_FOR_MEMORY "), MAX(CASE WHEN status = 0 THEN CASE api%s END END),"
        " MAX(device <> ?1) FROM call WHERE status = 2 OR device <> ?1 OR api IN (%s)",
        sizes, apis);
    if (!sql)
        ls_detect_no_memory();
    if (sqlite3_prepare_v2(d->db, sql, -1, &stmt, NULL) == SQLITE_OK) {
        sqlite3_bind_int64(
            stmt, 1,
            ls_query_int(d->db, -1, "SELECT device FROM call WHERE device NOT NULL LIMIT 1"));
        if (sqlite3_step(stmt) == SQLITE_ROW) {
            d->out_of_memory = sqlite3_column_int64(stmt, 0);
            d->capacity = sqlite3_column_int64(stmt, 1);
            d->several_devices = sqlite3_column_int(stmt, 2) == 1;
        }
    }
    sqlite3_finalize(stmt);
    sqlite3_free(sql);
    sqlite3_free(sizes);
    sqlite3_free(apis);
}

static void gather_calls(struct ls_detect *d) {
    d->calls = ls_query_int(d->db, 0, "SELECT COUNT(*) FROM call");
    /* They come in the order of completion, but for what threads wrote down a little later. */
    d->end_ns = ls_query_int(d->db, 0,
                             "SELECT MAX(start_ns + duration_ns) FROM (SELECT start_ns, duration_ns"
                             " FROM call ORDER BY id DESC LIMIT 100000)");
    gather_rare_calls(d);
    d->capacity_known = d->capacity > 0;
    if (!d->capacity_known)
        d->capacity = LS_CAPACITY_UNKNOWN;
}

static bool died_of_oom(const struct ls_detect *d) {
    return ls_query_int(
               d->db, 0,
               "SELECT EXISTS(SELECT 1 FROM oom WHERE id = (SELECT MAX(id) FROM oom) AND recovered = 0"
               " AND NOT EXISTS(SELECT 1 FROM call WHERE call.id > COALESCE(oom.last_call, oom.id)"
               " AND status = 0 AND api IN (SELECT id FROM api WHERE class IN ('launch', 'graph',"
               " 'copy', 'device_alloc', 'async_alloc', 'managed_alloc'))))") > 0;
}

static void gather(struct ls_detect *d) {
    sqlite3 *db = d->db;
    gather_calls(d);
    d->begin_ns =
        ls_query_int(db, 0, "SELECT start_ns + duration_ns FROM call ORDER BY id LIMIT 1");
    d->run_ns = ls_recorded_ns(db);
    if (d->run_ns < d->end_ns)
        d->run_ns = d->end_ns;
    if (d->run_ns < 1)
        d->run_ns = 1;
    d->abrupt = ls_query_int(
                    db, 0, "SELECT COUNT(*) FROM meta WHERE key = 'ended' AND value <> 'exit'") > 0;
    d->pytorch =
        ls_query_int(db, 0, "SELECT COUNT(*) FROM module WHERE path LIKE '%/libc10_cuda.so%'") > 0;
    d->running = !ls_ending_known(db);
    d->died_of_oom = died_of_oom(d);
    /* Calls without a stack or a name are there all the same. */
    d->lost = ls_query_int(
        db, 0, "SELECT SUM(count) FROM lost WHERE reason NOT IN ('stacks', 'kernel-names')");
}

/* What ended the program, or says why: the failure itself, and what refers to it. */
static bool of_the_end(const struct ls_detect *d, const struct ls_finding *f) {
    return d->died_of_oom && (strncmp(f->kind, "oom", 3) == 0 ||
                              json_is_integer(json_object_get(f->evidence, "oom")));
}

/* Severity first; then what the program died of; then the share of the run or of the device that
 * the change would give back. */
static int by_rank(const void *a, const void *b, void *detect) {
    const struct ls_finding *x = a, *y = b;
    const struct ls_detect *d = detect;
    if (x->severity != y->severity)
        return x->severity > y->severity ? -1 : 1;
    if (of_the_end(d, x) != of_the_end(d, y))
        return of_the_end(d, x) ? -1 : 1;
    double share[2];
    const struct ls_finding *both[] = {x, y};
    for (int i = 0; i < 2; i++) {
        double time = ls_share_of_run(d, both[i]->gain_ns);
        double memory = ls_share_of_memory(d, both[i]->gain_bytes);
        share[i] = time > memory ? time : memory;
    }
    if (share[0] != share[1])
        return share[0] > share[1] ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->site, y->site);
}

static int insert_findings(const struct ls_detect *d) {
    static const char *const severity[] = {"info", "warning", "problem"};
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(
        d->db,
        "INSERT INTO finding(id, kind, severity, title, site, count, bytes, time_ns, gain_ns, "
        "gain_bytes, evidence, advice) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        -1, &stmt, NULL);
    for (size_t i = 0; rc == SQLITE_OK && i < d->finding_count; i++) {
        const struct ls_finding *f = &d->finding[i];
        char *evidence = json_dumps(f->evidence, JSON_COMPACT | JSON_PRESERVE_ORDER);
        const int64_t number[] = {f->count, f->bytes, f->time_ns, f->gain_ns, f->gain_bytes};
        sqlite3_bind_int64(stmt, 1, (int64_t)i + 1);
        sqlite3_bind_text(stmt, 2, f->kind, -1, SQLITE_STATIC);
        sqlite3_bind_text(stmt, 3, severity[f->severity], -1, SQLITE_STATIC);
        sqlite3_bind_text(stmt, 4, f->title, -1, SQLITE_STATIC);
        sqlite3_bind_text(stmt, 5, f->site, -1, SQLITE_STATIC);
        for (int n = 0; n < 5; n++)
            sqlite3_bind_int64(stmt, 6 + n, number[n]);
        sqlite3_bind_text(stmt, 11, evidence, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(stmt, 12, f->advice, -1, SQLITE_STATIC);
        free(evidence);
        sqlite3_step(stmt);
        rc = sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    return rc;
}

static int insert_skipped(const struct ls_detect *d) {
    sqlite3_stmt *stmt;
    size_t i;
    json_t *row;
    int rc = sqlite3_prepare_v2(d->db, "INSERT OR REPLACE INTO skipped(kind, reason) VALUES(?, ?)",
                                -1, &stmt, NULL);
    json_array_foreach(d->skipped, i, row) {
        if (rc != SQLITE_OK)
            break;
        sqlite3_bind_text(stmt, 1, json_string_value(json_array_get(row, 0)), -1, SQLITE_STATIC);
        sqlite3_bind_text(stmt, 2, json_string_value(json_array_get(row, 1)), -1, SQLITE_STATIC);
        sqlite3_step(stmt);
        rc = sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    return rc;
}

static int store_once(const struct ls_detect *d) {
    int rc =
        sqlite3_exec(d->db, "BEGIN; DELETE FROM finding; DELETE FROM skipped", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = insert_findings(d);
    if (rc == SQLITE_OK)
        rc = insert_skipped(d);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(d->db, "COMMIT", NULL, NULL, NULL);
    if (rc != SQLITE_OK && !sqlite3_get_autocommit(d->db))
        sqlite3_exec(d->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

/* A full disk or a file that became read-only must not cost the reader the report. */
static int store(const struct ls_detect *d) {
    int rc = store_once(d);
    if (rc == SQLITE_OK)
        return rc;
    sqlite3_exec(d->db,
                 "PRAGMA temp_store = MEMORY;"
                 "CREATE TEMP TABLE finding AS SELECT * FROM main.finding WHERE 0;"
                 "CREATE TEMP TABLE skipped AS SELECT * FROM main.skipped WHERE 0",
                 NULL, NULL, NULL);
    return store_once(d);
}

static void release(struct ls_detect *d) {
    ls_phases_free(d->phases);
    for (size_t i = 0; i < d->finding_count; i++) {
        free(d->finding[i].title);
        free(d->finding[i].site);
        free(d->finding[i].advice);
        json_decref(d->finding[i].evidence);
    }
    free(d->finding);
    ls_ooms_free(d->ooms);
    ls_oom_events_free(&d->oom_events);
    ls_workspaces_free(d->workspaces);
    ls_courses_free(d->courses);
    ls_convolutions_free(d->convolutions);
    ls_products_free(d->products);
    ls_flow_free(d->flow);
    ls_uses_free(d->uses);
    free(d->replays);
    json_decref(d->skipped);
}

int ls_detect_run(struct ls_trace *trace) {
    struct ls_histories histories = {0};
    int status = ls_detect_run_with(trace, &histories);
    ls_histories_free(&histories);
    return status;
}

int ls_detect_run_with(struct ls_trace *trace, struct ls_histories *histories) {
    struct ls_detect d = {.db = trace->db, .skipped = json_array(), .histories = histories};
    int rc = SQLITE_OK;
    histories->db = trace->db;
    ls_progress_start("looking for problems");
    ls_progress_attach(trace->db);
    gather(&d);
    d.phases = ls_phases_load(d.db);
    for (size_t i = 0; rc == SQLITE_OK && i < sizeof detectors / sizeof detectors[0]; i++) {
        if (d.calls == 0)
            ls_detect_skip(&d, detectors[i]->kind, "no CUDA call in this trace");
        else
            rc = detectors[i]->run(&d, detectors[i]);
    }
    if (rc == SQLITE_OK) {
        if (d.finding_count)
            qsort_r(d.finding, d.finding_count, sizeof *d.finding, by_rank, &d);
        rc = store(&d);
    }
    ls_progress_stop();
    if (rc != SQLITE_OK)
        fprintf(stderr, "layoutspy: %s: cannot read the trace: %s\n", trace->path,
                sqlite3_errmsg(trace->db));
    release(&d);
    return rc == SQLITE_OK ? LS_EXIT_OK : LS_EXIT_INPUT;
}
