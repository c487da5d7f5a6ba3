/*
 * made_trace.c - traces made by hand. See made_trace.h.
 */
#include "made_trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "trace_db.h"

void made_sql(struct ls_trace *trace, const char *sql) {
    if (sqlite3_exec(trace->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sqlite3_errmsg(trace->db), sql);
}

/* Run a statement made by sqlite3_mprintf()'s rules. */
static void run(struct ls_trace *trace, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *sql = sqlite3_vmprintf(format, args);
    va_end(args);
    made_sql(trace, sql);
    sqlite3_free(sql);
}

void made_open(struct ls_trace *trace, const char *ended, int64_t run_ns) {
    trace->path = "made.db";
    trace->writable = true;
    assert_int_equal(sqlite3_open(":memory:", &trace->db), SQLITE_OK);
    made_sql(trace, ls_schema_sql);
    run(trace, "INSERT INTO meta VALUES('end_ns', '%lld'), ('ended', %Q)", (long long)run_ns,
        ended);
}

void made_close(struct ls_trace *trace) {
    assert_int_equal(sqlite3_close(trace->db), SQLITE_OK);
}

int64_t made_stack(struct ls_trace *trace, const char *site, const char *const modules[]) {
    static const char *const own[] = {"/home/me/app", NULL};
    char parent[24] = "NULL";
    int depth = 0;
    if (!modules)
        modules = own;
    while (modules[depth])
        depth++;
    while (depth--) {
        run(trace, "INSERT INTO module(path) VALUES(%Q)", modules[depth]);
        run(trace, "INSERT INTO frame(module, function) VALUES(last_insert_rowid(), 'f')");
        run(trace, "INSERT INTO stack(parent, frame) VALUES(%s, last_insert_rowid())", parent);
        snprintf(parent, sizeof parent, "%lld", (long long)sqlite3_last_insert_rowid(trace->db));
    }
    run(trace, "INSERT INTO stack_site(stack, site) VALUES(%s, %Q)", parent, site);
    return sqlite3_last_insert_rowid(trace->db);
}

static void need_api(struct ls_trace *trace, const char *api) {
    run(trace,
        "INSERT INTO api(name, library, class, fields) SELECT %Q, 'cudart', 'any', '[]'"
        " WHERE NOT EXISTS(SELECT 1 FROM api WHERE name = %Q)",
        api, api);
}

#define API_ID "(SELECT id FROM api WHERE name = %Q)"

static int64_t add_call(struct ls_trace *trace, const char *api, int64_t start, int64_t duration) {
    need_api(trace, api);
    run(trace,
        "INSERT INTO call(start_ns, duration_ns, thread, api, status, flags)"
        " VALUES(%lld, %lld, 1, " API_ID ", 0, 0)",
        (long long)start, (long long)duration, api);
    return sqlite3_last_insert_rowid(trace->db);
}

int64_t made_call(struct ls_trace *trace, const char *api, int64_t start) {
    return add_call(trace, api, start, 1000);
}

void made_allocation(struct ls_trace *trace, int kind, const char *api, int64_t size, int64_t start,
                     int end_reason, int64_t stack) {
    long long call = (long long)add_call(trace, api, start, 1000);
    run(trace,
        "INSERT INTO allocation(start_ns, kind, device, address, size, api, stack, start_call)"
        " VALUES(%lld, %d, 0, %lld, %lld, " API_ID ", NULLIF(%lld, 0), %lld)",
        (long long)start, kind, 4096 * call, (long long)size, api, (long long)stack, call);
    if (end_reason != MADE_LIVE)
        run(trace,
            "UPDATE allocation SET end_ns = start_ns + 2000, end_reason = %d"
            " WHERE id = last_insert_rowid()",
            end_reason);
}

void made_copy(struct ls_trace *trace, int direction, int host_side, const char *api, int64_t bytes,
               int64_t start, int64_t blocked, int64_t stack) {
    long long call = (long long)add_call(trace, api, start, blocked);
    run(trace,
        "INSERT INTO copy(id, start_ns, direction, src_kind, dst_kind, bytes, api, is_async,"
        " blocked_ns, stack, thread, status) VALUES(%lld, %lld, %d, %d, %d, %lld, " API_ID
        ", %d, %lld, NULLIF(%lld, 0), 1, 0)",
        call, (long long)start, direction, direction == 1 ? host_side : 3,
        direction == 1 ? 3 : host_side, (long long)bytes, api, strstr(api, "Async") != NULL,
        (long long)blocked, (long long)stack);
}

int made_count(struct ls_trace *trace, const char *sql) {
    sqlite3_stmt *stmt;
    assert_int_equal(sqlite3_prepare_v2(trace->db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int count = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return count;
}

const char *made_finding(struct ls_trace *trace, int n, const char *column) {
    static char text[4096];
    sqlite3_stmt *stmt;
    char *sql = sqlite3_mprintf("SELECT %s FROM finding WHERE id = %d", column, n);
    assert_int_equal(sqlite3_prepare_v2(trace->db, sql, -1, &stmt, NULL), SQLITE_OK);
    bool found = sqlite3_step(stmt) == SQLITE_ROW;
    const char *value = found ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    snprintf(text, sizeof text, "%s", value ? value : "");
    sqlite3_finalize(stmt);
    sqlite3_free(sql);
    return text;
}

int64_t made_finding_number(struct ls_trace *trace, int n, const char *column) {
    return strtoll(made_finding(trace, n, column), NULL, 10);
}

void made_expect_text(struct ls_trace *trace, int n, const char *column, const char *part) {
    if (!strstr(made_finding(trace, n, column), part))
        fail_msg("finding %d: %s is \"%s\", without \"%s\"", n, column,
                 made_finding(trace, n, column), part);
}

int made_detect_kind(struct ls_trace *trace, int64_t last, const char *kind) {
    char sql[96];
    made_call(trace, "cudaLaunchKernel", last);
    assert_int_equal(ls_detect_run(trace), LS_EXIT_OK);
    snprintf(sql, sizeof sql, "SELECT COUNT(*) FROM finding WHERE kind = '%s'", kind);
    return made_count(trace, sql);
}
