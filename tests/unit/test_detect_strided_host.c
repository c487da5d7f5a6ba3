/*
 * test_detect_strided_host.c - the `strided-host-source` detector on copies in rows: which gaps
 * matter, and that pageable-copy leaves out what was told. What PyTorch gathers takes its stacks:
 * tests/cases/test_strided_host.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "made_trace.h"

enum {
    H2D = LS_DIRECTION_H2D,
    D2H = LS_DIRECTION_D2H,
    PAGEABLE = LS_SIDE_PAGEABLE,
    PINNED = LS_SIDE_PINNED
};

static struct ls_trace trace;
static int64_t one, other;

static int open_it(void **state) {
    (void)state;
    made_open(&trace, "exit", 1000 * MS);
    made_call(&trace, "cudaSetDevice", 0);
    one = made_stack(&trace, "a.c:4 step", NULL);
    other = made_stack(&trace, "a.c:9 step", NULL);
    return 0;
}

static int close_it(void **state) {
    (void)state;
    made_close(&trace);
    return 0;
}

/* Ten copies over the whole run, each of so many rows, which hold the host for 4 ms. A pitch of 0:
 * not told. */
static void ten(int direction, int side, int64_t rows, int64_t width, int64_t host_pitch,
                int64_t stack) {
    char sql[256], pitch[24] = "NULL";
    if (host_pitch)
        snprintf(pitch, sizeof pitch, "%lld", (long long)host_pitch);
    for (int i = 0; i < 10; i++) {
        made_copy(&trace, direction, side, "cudaMemcpy2D", rows * width, (i * 95 + 1) * MS, 4 * MS,
                  stack);
        snprintf(sql, sizeof sql,
                 "INSERT INTO copy_rows VALUES((SELECT MAX(id) FROM copy), %lld, %s, %s)",
                 (long long)width, direction == H2D ? "NULL" : pitch,
                 direction == H2D ? pitch : "NULL");
        made_sql(&trace, sql);
    }
}

static void short_rows_with_gaps(void **state) {
    (void)state;
    ten(H2D, PAGEABLE, 4096, 64, 4096, one);
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "strided-host-source"), 1);
    assert_string_equal(made_finding(&trace, 1, "site"), "a.c:4 step");
    assert_int_equal(made_finding_number(&trace, 1, "count"), 10);
    assert_int_equal(made_finding_number(&trace, 1, "bytes"), 10 * 4096 * 64);
    assert_int_equal(made_finding_number(&trace, 1, "time_ns"), 40 * MS);
    assert_in_range(made_finding_number(&trace, 1, "gain_ns"), 39 * MS, 40 * MS);
    made_expect_text(&trace, 1, "title", "in 40,960 rows of 64 bytes that lie 4096 apart");
    made_expect_text(&trace, 1, "evidence", "\"pinned\":false");
    assert_int_equal(
        made_count(&trace, "SELECT COUNT(*) FROM finding WHERE kind = 'pageable-copy'"), 0);
}

static void both_ways_are_two_findings(void **state) {
    (void)state;
    ten(H2D, PINNED, 4096, 64, 4096, one);
    ten(D2H, PINNED, 4096, 64, 128, other);
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "strided-host-source"), 2);
}

/* Rows that lie together, long ones, few ones, and those whose pitch nobody told. */
static void none_of_these(void **state) {
    (void)state;
    ten(H2D, PAGEABLE, 4096, 64, 64, one);
    ten(H2D, PAGEABLE, 4096, 512, 4096, one);
    ten(H2D, PAGEABLE, 63, 256, 4096, one);
    ten(H2D, PAGEABLE, 4096, 64, 0, other);
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "strided-host-source"), 0);
    assert_in_range(made_count(&trace, "SELECT COUNT(*) FROM finding WHERE kind = 'pageable-copy'"),
                    1, 2);
}

static void too_little_to_notice(void **state) {
    (void)state;
    made_copy(&trace, H2D, PAGEABLE, "cudaMemcpy2D", 64 * 64, 500 * MS, 1000, one);
    made_sql(&trace, "INSERT INTO copy_rows VALUES((SELECT MAX(id) FROM copy), 64, NULL, 4096)");
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "strided-host-source"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(short_rows_with_gaps, open_it, close_it),
        cmocka_unit_test_setup_teardown(both_ways_are_two_findings, open_it, close_it),
        cmocka_unit_test_setup_teardown(none_of_these, open_it, close_it),
        cmocka_unit_test_setup_teardown(too_little_to_notice, open_it, close_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
