/*
 * test_phases.c - from marks to phases, and which phase something lies in.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "made_steps.h"
#include "phases.h"

static void test_phases(void **state) {
    (void)state;
    mark(LS_MARK_RANGE_PUSH, 1, 0, 0, 0, "all"); /* before the recording */
    mark(LS_MARK_DOMAIN, 1, 5, 0, 77, "lib");
    mark(LS_MARK_RANGE_PUSH, 1, 10, 0, 0, "forward");
    mark(LS_MARK_RANGE_PUSH, 1, 15, 0, 77, "gemm");
    mark(LS_MARK_RANGE_PUSH, 2, 16, 0, 0, "other");
    mark(LS_MARK_RANGE_START, 1, 18, 9, 0, "epoch");
    mark(LS_MARK_RANGE_POP, 1, 20, 0, 0, "");
    mark(LS_MARK_RANGE_POP, 1, 25, 0, 77, "");
    mark(LS_MARK_RANGE_POP, 1, 26, 0, 77, ""); /* nothing is open there */
    mark(LS_MARK_RANGE_END, 2, 30, 9, 0, "");
    mark(LS_MARK_POINT, 1, 40, 0, 0, "here");
    ls_phases_build(&t.db);
    ls_phases_build(&t.db);
    assert_null(ls_db_error(&t.db));
    assert_int_equal(ask("SELECT COUNT(*) FROM phase"), 5);
    static const char *const rows[] = {
        "thread = 1 AND domain = '' AND start_ns = 0 AND end_ns IS NULL AND depth = 0 AND name = 'all'",
        "thread = 1 AND domain = '' AND start_ns = 10 AND end_ns = 20 AND depth = 1 AND name = 'forward'",
        "thread = 1 AND domain = 'lib' AND start_ns = 15 AND end_ns = 25 AND depth = 0 AND name = 'gemm'",
        "thread = 2 AND start_ns = 16 AND end_ns IS NULL AND name = 'other'",
        "thread IS NULL AND start_ns = 18 AND end_ns = 30 AND value = 9 AND name = 'epoch'"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[300];
        snprintf(text, sizeof text, "SELECT COUNT(*) FROM phase WHERE %s", rows[i]);
        if (ask(text) != 1)
            fail_msg("no phase with %s", rows[i]);
    }
}

static struct ls_phase_share share_of(const char *events) {
    static struct ls_phases *phases;
    struct ls_phase_share share;
    sqlite3_stmt *stmt;
    ls_phases_free(phases);
    phases = ls_phases_load(t.db.db);
    assert_non_null(phases);
    assert_int_equal(sqlite3_prepare_v2(t.db.db, events, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(ls_phases_share(phases, stmt, &share), SQLITE_OK);
    sqlite3_finalize(stmt);
    if (share.name) { /* the phases go before the caller reads it */
        static char name[100], domain[100];
        snprintf(name, sizeof name, "%s", share.name);
        snprintf(domain, sizeof domain, "%s", share.domain);
        share.name = name;
        share.domain = domain;
    }
    ls_phases_free(phases);
    phases = NULL;
    return share;
}

static void test_share_of_a_phase(void **state) {
    (void)state;
    mark(LS_MARK_RANGE_PUSH, 1, 1, 0, 0, "train");
    for (int i = 0; i < 10; i++) {
        mark(LS_MARK_RANGE_PUSH, 1, 100 * i + 10, 0, 0, "forward");
        mark(LS_MARK_RANGE_POP, 1, 100 * i + 50, 0, 0, "");
    }
    mark(LS_MARK_RANGE_POP, 1, 1000, 0, 0, "");
    ls_phases_build(&t.db);
    assert_null(ls_db_error(&t.db));
    sql("CREATE TABLE e(ns, thread, weight)");
    for (int i = 0; i < 10; i++)
        sql("INSERT INTO e VALUES(%d, 1, 9), (%d, 1, 1)", 100 * i + 20, 100 * i + 60);
    struct ls_phase_share share = share_of("SELECT * FROM e");
    assert_string_equal(share.name, "forward"); /* inside of train, and 90 % */
    assert_true(share.share > 0.89 && share.share < 0.91);
    share = share_of("SELECT ns, thread, 1 FROM e");
    assert_string_equal(share.name, "train"); /* forward has half */
    assert_null(share_of("SELECT ns, 2, 1 FROM e").name);
    assert_null(share_of("SELECT ns + 5000, thread, 1 FROM e").name);
}

static void test_a_trace_without_phases(void **state) {
    (void)state;
    assert_null(ls_phases_load(t.db.db));
    ls_phases_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_phases),
        TEST(test_share_of_a_phase),
        TEST(test_a_trace_without_phases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
