/*
 * test_detect_pageable_copy.c - the `pageable-copy` detector: shapes, advice, rank.
 *
 * Figures of public cases (an ONNX Runtime listing, vLLM's metadata builder, a scalar read per
 * gradient bucket) are those of their reports.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

static void detect(void) {
    assert_int_equal(ls_detect_run(&trace), LS_EXIT_OK);
}

static int findings(void) {
    return made_count(&trace, "SELECT COUNT(*) FROM finding");
}

static int open_it(void **state) {
    (void)state;
    made_open(&trace, "exit", 1000 * MS);
    made_call(&trace, "cudaSetDevice", 0);
    made_call(&trace, "cudaLaunchKernel", 999 * MS);
    return 0;
}

static int close_it(void **state) {
    (void)state;
    made_close(&trace);
    return 0;
}

static void pinned_copies_are_no_problem(void **state) {
    (void)state;
    int64_t stack = made_stack(&trace, "a.c:4 step", NULL);
    for (int i = 0; i < 100; i++) {
        made_copy(&trace, H2D, PINNED, "cudaMemcpyAsync", 1 << 20, i * 9 * MS, 5000, stack);
        made_copy(&trace, D2H, PINNED, "cudaMemcpyAsync", 1 << 20, i * 9 * MS, 5000, stack);
    }
    /* Device to device, host to host, unknown (while capturing), failed: not ours. */
    made_sql(&trace, "INSERT INTO copy(id, start_ns, direction, src_kind, dst_kind, bytes, api,"
                     " blocked_ns, status) VALUES(9001, 1, 3, 3, 3, 64, 1, 1, 0),"
                     " (9002, 1, 4, 1, 1, 64, 1, 1, 0), (9003, 1, 1, 0, 3, 64, 1, 1, 0),"
                     " (9004, 1, 1, 1, 3, 64, 1, 1, 700)");
    detect();
    assert_int_equal(findings(), 0);
}

static void a_small_copy_that_waits_outranks_a_large_one(void **state) {
    (void)state;
    int64_t metadata = made_stack(&trace, "builder.py:88 build", NULL);
    int64_t pinned = made_stack(&trace, "builder.py:87 build", NULL);
    int64_t other = made_stack(&trace, "other.py:87 build", NULL);
    int64_t big = made_stack(&trace, "data.py:5 batch", NULL);
    for (int i = 0; i < 10; i++) {
        made_copy(&trace, H2D, PINNED, "cudaMemcpyAsync", 48, i * 95 * MS, 4000, pinned);
        made_copy(&trace, H2D, PINNED, "cudaMemcpyAsync", 48, i * 95 * MS, 4000, other);
        made_copy(&trace, H2D, PAGEABLE, "cudaMemcpyAsync", 48, i * 95 * MS + MS, 67 * MS,
                  metadata);
        made_copy(&trace, H2D, PAGEABLE, "cudaMemcpyAsync", 1 << 20, i * 95 * MS + 90 * MS, 100000,
                  big);
    }
    detect();
    assert_int_equal(findings(), 2);
    assert_string_equal(made_finding(&trace, 1, "site"), "builder.py:88 build");
    assert_string_equal(made_finding(&trace, 1, "severity"), "problem");
    assert_int_equal(made_finding_number(&trace, 1, "time_ns"), 670 * MS);
    made_expect_text(&trace, 1, "title", "10 cudaMemcpyAsync calls are not asynchronous");
    made_expect_text(&trace, 1, "evidence", "\"waited_for_queued_work\":true");
    made_expect_text(&trace, 1, "evidence",
                     "\"pinned_in_same_function\":[{\"site\":\"builder.py:87 build\"");
    assert_null(strstr(made_finding(&trace, 1, "evidence"), "other.py"));
    made_expect_text(&trace, 1, "advice", "Do not pin memory for each call");
    made_expect_text(&trace, 2, "evidence", "\"waited_for_queued_work\":false");
    made_expect_text(&trace, 2, "advice", "cudaHostAlloc");
    made_expect_text(&trace, 2, "evidence", "\"gain\":{\"confidence\":\"estimated\"");
}

static void loading_is_told_from_serving(void **state) {
    (void)state;
    static const int load_bytes[] = {5308000, 4719000, 4194000, 2986000};
    static const int load_ns[] = {573000, 493000, 450000, 317000};
    int64_t load = made_stack(&trace, "session.cc:7 load", NULL);
    int64_t serve = made_stack(&trace, "session.cc:99 run", NULL);
    for (int i = 0; i < 4; i++)
        made_copy(&trace, H2D, PAGEABLE, "cudaMemcpy", load_bytes[i], (10 + i) * MS, load_ns[i],
                  load);
    for (int i = 0; i < 8; i++)
        made_copy(&trace, H2D, PAGEABLE, "cudaMemcpyAsync", i ? 786000 : 1573000, i * 110 * MS + MS,
                  i ? 70000 : 139000, serve);
    detect();
    assert_int_equal(findings(), 2);
    assert_string_equal(made_finding(&trace, 1, "site"), "session.cc:99 run");
    assert_string_equal(made_finding(&trace, 1, "severity"), "warning");
    assert_string_equal(made_finding(&trace, 2, "severity"), "info");
    made_expect_text(&trace, 2, "title", "4 pageable copies by cudaMemcpy");
    made_expect_text(&trace, 2, "title", "while loading");
    made_expect_text(&trace, 2, "advice", "Low priority");
    assert_int_equal(made_finding_number(&trace, 2, "bytes"), 17207000);
    assert_int_equal(made_finding_number(&trace, 2, "time_ns"), 1833000);
    /* It waits either way: the gain is in the transfer alone. */
    assert_true(made_finding_number(&trace, 2, "gain_ns") < 1833000);
    assert_true(made_finding_number(&trace, 2, "gain_ns") > 0);
}

static void reads_of_single_values_are_not_cured_by_pinning(void **state) {
    (void)state;
    int64_t check = made_stack(&trace, "reducer.cpp:74 is_nan", NULL);
    for (int i = 0; i < 74; i++)
        made_copy(&trace, D2H, PAGEABLE, "cudaMemcpyAsync", i % 2 ? 1 : 4, i * 13 * MS, MS, check);
    detect();
    assert_int_equal(findings(), 1);
    made_expect_text(&trace, 1, "title", "74 reads of single values");
    made_expect_text(&trace, 1, "advice", "pinning does not help");
    assert_string_equal(made_finding(&trace, 1, "severity"), "problem");
}

static void many_tiny_copies_want_one_batch(void **state) {
    (void)state;
    int64_t stack = made_stack(&trace, "a.c:12 main", NULL);
    for (int i = 0; i < 1000; i++)
        made_copy(&trace, H2D, PAGEABLE, "cudaMemcpy", 512, (i + 1) * MS / 2, 12000, stack);
    detect();
    assert_int_equal(findings(), 1);
    made_expect_text(&trace, 1, "title",
                     "1,000 tiny pageable copies by cudaMemcpy: host to device, 512 bytes");
    made_expect_text(&trace, 1, "advice", "copy them at once");
    assert_int_equal(made_finding_number(&trace, 1, "count"), 1000);
    assert_int_equal(made_finding_number(&trace, 1, "bytes"), 512000);
    assert_int_equal(made_finding_number(&trace, 1, "time_ns"), 12000000);
}

static void sites_directions_and_functions_stay_apart(void **state) {
    (void)state;
    int64_t one = made_stack(&trace, "a.c:4 step", NULL);
    int64_t same = made_stack(&trace, "a.c:4 step", NULL); /* another way to that line */
    made_copy(&trace, H2D, PAGEABLE, "cudaMemcpy", 100, 1 * MS, 30000, one);
    made_copy(&trace, H2D, PAGEABLE, "cudaMemcpy", 200, 2 * MS, 50000, same);
    made_copy(&trace, D2H, PAGEABLE, "cudaMemcpy", 300, 3 * MS, 10000, one);
    made_copy(&trace, H2D, PAGEABLE, "cudaMemcpyAsync", 400, 4 * MS, 10000, one);
    made_copy(&trace, H2D, PAGEABLE, "cudaMemcpy", 500, 5 * MS, 10000, 0);
    detect();
    assert_int_equal(findings(), 4);
    assert_int_equal(made_count(&trace, "SELECT bytes FROM finding WHERE count = 2"), 300);
    assert_int_equal(made_count(&trace, "SELECT time_ns FROM finding WHERE count = 2"), 80000);
    assert_int_equal(made_count(&trace, "SELECT evidence LIKE '%\"smallest\":100,\"largest\":200%'"
                                        " FROM finding WHERE count = 2"),
                     1);
    assert_int_equal(made_count(&trace, "SELECT bytes FROM finding WHERE site = 'site unknown'"),
                     500);
    assert_int_equal(made_count(&trace, "SELECT SUM(bytes) = (SELECT SUM(bytes) FROM pageable_copy)"
                                        " FROM finding"),
                     1);
}

static void evidence_keeps_the_longest_copies(void **state) {
    (void)state;
    int64_t stack = made_stack(&trace, "a.c:4 step", NULL);
    static const int us[] = {30, 10, 90, 20, 70, 80};
    for (int i = 0; i < 6; i++)
        made_copy(&trace, H2D, PAGEABLE, "cudaMemcpy", 1 << 20, (i + 1) * 100 * MS, us[i] * 1000,
                  stack);
    detect();
    const char *rows = strstr(made_finding(&trace, 1, "evidence"), "\"rows\":");
    assert_non_null(rows);
    const char *first = strstr(rows, "\"blocked_ns\":90000");
    const char *second = strstr(rows, "\"blocked_ns\":80000");
    const char *third = strstr(rows, "\"blocked_ns\":70000");
    assert_true(first && second && third && first < second && second < third);
    assert_null(strstr(rows, "\"blocked_ns\":30000"));
}

static void advice_speaks_pytorch_where_pytorch_is(void **state) {
    (void)state;
    made_sql(&trace, "INSERT INTO module(path) VALUES('/x/torch/lib/libc10_cuda.so')");
    int64_t stack = made_stack(&trace, "train.py:7 step", NULL);
    for (int i = 0; i < 20; i++)
        made_copy(&trace, H2D, PAGEABLE, "cudaMemcpyAsync", 602112, i * 45 * MS, 90000, stack);
    detect();
    made_expect_text(&trace, 1, "advice", "DataLoader(pin_memory=True)");
    made_expect_text(&trace, 1, "advice", "non_blocking=True");
}

static void what_nobody_waits_for_is_only_noted(void **state) {
    (void)state;
    int64_t noise = made_stack(&trace, "a.c:1 noise", NULL);
    int64_t more = made_stack(&trace, "b.c:1 more", NULL);
    for (int i = 0; i < 10; i++) {
        made_copy(&trace, H2D, PAGEABLE, "cudaMemcpy", 4096, i * 90 * MS, 49000, noise);
        made_copy(&trace, H2D, PAGEABLE, "cudaMemcpy", 4096, i * 90 * MS, 51000, more);
    }
    detect();
    assert_string_equal(made_finding(&trace, 1, "site"), "b.c:1 more");
    assert_string_equal(made_finding(&trace, 1, "severity"), "warning");
    assert_string_equal(made_finding(&trace, 2, "site"), "a.c:1 noise");
    assert_string_equal(made_finding(&trace, 2, "severity"), "info");
}

/* Of threads side by side; then bytes decide, and not how far beyond the run's length each is. */
static void a_share_of_the_run_ends_at_all_of_it(void **state) {
    (void)state;
    int64_t longer = made_stack(&trace, "a.c:1 longer", NULL);
    int64_t larger = made_stack(&trace, "b.c:1 larger", NULL);
    for (int i = 0; i < 10; i++) {
        made_copy(&trace, H2D, PAGEABLE, "cudaMemcpyAsync", 4096, i * 90 * MS, 900 * MS, longer);
        made_copy(&trace, H2D, PAGEABLE, "cudaMemcpyAsync", 8192, i * 90 * MS, 300 * MS, larger);
    }
    detect();
    assert_string_equal(made_finding(&trace, 1, "site"), "b.c:1 larger");
}

static void lost_events_are_in_the_evidence(void **state) {
    (void)state;
    made_sql(&trace, "INSERT INTO lost(reason, count) VALUES('spool-cap', 12)");
    made_copy(&trace, H2D, PAGEABLE, "cudaMemcpy", 100, 1 * MS, 30000, 0);
    detect();
    made_expect_text(&trace, 1, "evidence", "\"lost_events\":12");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_it, close_it)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(pinned_copies_are_no_problem),
        TEST(a_small_copy_that_waits_outranks_a_large_one),
        TEST(loading_is_told_from_serving),
        TEST(reads_of_single_values_are_not_cured_by_pinning),
        TEST(many_tiny_copies_want_one_batch),
        TEST(sites_directions_and_functions_stay_apart),
        TEST(evidence_keeps_the_longest_copies),
        TEST(advice_speaks_pytorch_where_pytorch_is),
        TEST(what_nobody_waits_for_is_only_noted),
        TEST(a_share_of_the_run_ends_at_all_of_it),
        TEST(lost_events_are_in_the_evidence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
