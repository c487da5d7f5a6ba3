/*
 * made_steps.c - streams of calls made by hand. See made_steps.h.
 */
#include "made_steps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/roles.h"
#include "steps.h"

struct made_steps t;

void sql(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = sqlite3_vmprintf(format, args);
    va_end(args);
    if (sqlite3_exec(t.db.db, text, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sqlite3_errmsg(t.db.db), text);
    sqlite3_free(text);
}

int setup(void **state) {
    (void)state;
    memset(&t, 0, sizeof t);
    ls_roles_init();
    assert_int_equal(sqlite3_open(":memory:", &t.db.db), SQLITE_OK);
    sql("%s", ls_schema_sql);
    sql("INSERT INTO meta VALUES('pid', '100')");
    sql("INSERT INTO thread VALUES(1, 100, 'main'), (2, 101, 'pt_autograd_0')");
    assert_int_equal(sqlite3_prepare_v2(t.db.db,
                                        "INSERT INTO call(id, start_ns, duration_ns, thread, api,"
                                        " status, flags, stack, f0) VALUES(?, ?, 10, ?, ?, 0, 0,"
                                        " NULLIF(?, 0), ?)",
                                        -1, &t.call, NULL),
                     SQLITE_OK);
    sql("BEGIN");
    t.db.in_transaction = true;
    t.now = 1000;
    return 0;
}

int teardown(void **state) {
    (void)state;
    sqlite3_finalize(t.call);
    sqlite3 *db = t.db.db;
    t.db.db = NULL;
    for (int i = 0; i < LS_PUT_COUNT; i++)
        sqlite3_finalize(t.db.put[i]);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return 0;
}

void call_of(int thread, enum ls_api api, int stack, int kernel) {
    int64_t value[] = {++t.calls, t.now, thread, api, stack, kernel};
    for (int i = 0; i < 6; i++)
        sqlite3_bind_int64(t.call, i + 1, value[i]);
    assert_int_equal(sqlite3_step(t.call), SQLITE_DONE);
    sqlite3_reset(t.call);
    t.now += MADE_TICK;
}

/* What programs do. Stacks are numbers; launches have none. */
static void launch(int kernel) {
    call_of(1, LS_API_cudaLaunchKernel, 0, kernel);
}

void launches(int first, int count) {
    for (int i = 0; i < count; i++)
        launch(first + i);
}

static void copy(int direction, int stack) {
    call_of(1, LS_API_cudaMemcpyAsync, stack, 0);
    sql("INSERT INTO copy(id, start_ns, direction, bytes, api, stack, thread, status, blocked_ns)"
        " VALUES(%lld, %lld, %d, 100, %d, %d, 1, 0, 10)",
        (long long)t.calls, (long long)(t.now - MADE_TICK), direction, LS_API_cudaMemcpyAsync,
        stack);
}

void upload(int stack) {
    copy(1, stack);
}

void download(int stack) {
    copy(2, stack);
}

static void block(int stack) {
    call_of(1, LS_API__ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE, stack, 0);
}

void blocks(int stack, int count) {
    for (int i = 0; i < count; i++)
        block(stack + i);
}

void begins(void) {
    t.begin[t.begins++] = t.now;
}

void ends(void) {
    t.end[t.ends++] = t.now;
}

void setup_calls(void) {
    for (int i = 0; i < 30; i++)
        call_of(1, LS_API_cudaMalloc, 900, 0);
    for (int i = 0; i < 30; i++)
        upload(901); /* the weights */
}

int64_t ask(const char *text) {
    return ls_db_number(&t.db, text);
}

void assert_source(const char *source) {
    char text[100];
    snprintf(text, sizeof text, "SELECT COUNT(*) FROM meta WHERE key = 'steps' AND value = '%s'",
             source);
    if (ask(text) != 1)
        fail_msg("the steps are not '%s'", source);
    assert_int_equal(ask("SELECT COUNT(*) FROM coverage WHERE layer = 'steps'"), 1);
    snprintf(text, sizeof text, "SELECT COUNT(*) FROM step WHERE source <> '%s'", source);
    assert_int_equal(ask(text), 0);
}

/* One step per iteration, each from its first call (or a few before) to its last. */
void assert_steps(const char *source) {
    sqlite3_stmt *stmt;
    ls_steps_build(&t.db);
    assert_null(ls_db_error(&t.db));
    assert_source(source);
    assert_int_equal(ask("SELECT COUNT(*) FROM step"), t.begins);
    sqlite3_prepare_v2(t.db.db, "SELECT start_ns, end_ns FROM step ORDER BY id", -1, &stmt, NULL);
    int64_t late[2] = {0, 0}, step = 0;
    for (int i = 0; sqlite3_step(stmt) == SQLITE_ROW && !step; i++) {
        late[0] = sqlite3_column_int64(stmt, 0) - t.begin[i];
        late[1] = sqlite3_column_int64(stmt, 1) - t.end[i];
        if (late[0] != 0 || late[1] > 0 || late[1] < -MADE_TICK)
            step = i + 1;
    }
    sqlite3_finalize(stmt);
    if (step)
        fail_msg("step %lld begins %lld and ends %lld calls from its iteration", (long long)step,
                 (long long)late[0] / MADE_TICK, (long long)late[1] / MADE_TICK);
}

void mark(enum ls_mark kind, int thread, int64_t ns, int64_t value, int64_t domain,
          const char *text) {
    sql("INSERT INTO mark(ts_ns, thread, kind, value, domain, text)"
        " VALUES(%lld, %d, %d, %lld, %lld, %Q)",
        (long long)ns, thread, (int)kind, (long long)value, (long long)domain, text);
}
