/*
 * test_detect_leak.c - the `leak` detector and its neighbour `library-memory`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "made_trace.h"

static struct ls_trace trace;

static void detect(void) {
    assert_int_equal(ls_detect_run(&trace), LS_EXIT_OK);
}

static int findings(void) {
    return made_count(&trace, "SELECT COUNT(*) FROM finding");
}

static int open_exited(void **state) {
    (void)state;
    made_open(&trace, "exit", 1000 * MS);
    made_call(&trace, "cudaSetDevice", 0);
    made_call(&trace, "cudaDeviceSynchronize", 999 * MS);
    return 0;
}

static int close_it(void **state) {
    (void)state;
    made_close(&trace);
    return 0;
}

static void all_freed_is_no_problem(void **state) {
    (void)state;
    int64_t stack = made_stack(&trace, "a.c:4 main", NULL);
    for (int i = 0; i < 100; i++)
        made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 4096, i * 10 * MS, LS_END_FREED,
                        stack);
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 4096, 5 * MS, LS_END_REUSED, stack);
    detect();
    assert_int_equal(findings(), 0);
    assert_int_equal(made_count(&trace, "SELECT COUNT(*) FROM skipped WHERE kind = 'leak'"), 0);
}

static void one_small_lost_buffer_is_named(void **state) {
    (void)state;
    int64_t main_stack = made_stack(&trace, "a.c:4 main", NULL);
    int64_t lose = made_stack(&trace, "a.c:9 lose", NULL);
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 1 << 20, 1 * MS, LS_END_FREED,
                    main_stack);
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 64, 2 * MS, MADE_LIVE, lose);
    detect();
    assert_int_equal(findings(), 1);
    assert_string_equal(made_finding(&trace, 1, "kind"), "leak");
    assert_string_equal(made_finding(&trace, 1, "severity"), "warning");
    assert_string_equal(made_finding(&trace, 1, "site"), "a.c:9 lose");
    assert_int_equal(made_finding_number(&trace, 1, "count"), 1);
    assert_int_equal(made_finding_number(&trace, 1, "bytes"), 64);
    assert_int_equal(made_finding_number(&trace, 1, "gain_bytes"), 64);
    assert_string_equal(made_finding(&trace, 1, "title"),
                        "1 device allocation by cudaMalloc was never freed: 64 bytes");
    assert_non_null(strstr(made_finding(&trace, 1, "evidence"), "\"confidence\":\"seen\""));
}

static void a_program_that_frees_nothing_is_only_noted(void **state) {
    (void)state;
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 1 << 20, 1 * MS, MADE_LIVE,
                    made_stack(&trace, "a.c:4 main", NULL));
    detect();
    assert_int_equal(findings(), 1);
    assert_string_equal(made_finding(&trace, 1, "severity"), "info");
}

static void growth_is_the_problem(void **state) {
    (void)state;
    int64_t loop = made_stack(&trace, "a.c:20 step", NULL);
    int64_t start = made_stack(&trace, "a.c:5 load", NULL);
    for (int i = 0; i < 50; i++) {
        made_allocation(&trace, LS_MEMORY_PINNED, "cudaHostAlloc", 4096, i * 20 * MS, MADE_LIVE,
                        loop);
        /* As many, but all at the start: weights, say. */
        made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 1 << 20, i * MS, MADE_LIVE, start);
    }
    detect();
    assert_int_equal(findings(), 2);
    assert_string_equal(made_finding(&trace, 1, "site"), "a.c:20 step");
    assert_string_equal(made_finding(&trace, 1, "severity"), "problem");
    assert_int_equal(made_finding_number(&trace, 1, "bytes"), 50 * 4096);
    assert_non_null(strstr(made_finding(&trace, 1, "evidence"), "throughout the run"));
    assert_non_null(strstr(made_finding(&trace, 1, "advice"), "cudaFreeHost"));
    assert_string_equal(made_finding(&trace, 2, "severity"), "info");
}

static void the_forgotten_one_of_many(void **state) {
    (void)state;
    int64_t stack = made_stack(&trace, "a.c:7 work", NULL);
    int64_t rolling = made_stack(&trace, "a.c:8 roll", NULL);
    for (int i = 0; i < 100; i++) {
        made_allocation(&trace, LS_MEMORY_MANAGED, "cudaMallocManaged", 4096, i * 9 * MS,
                        i == 40 ? MADE_LIVE : LS_END_FREED, stack);
        made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 512, i * 9 * MS,
                        i == 99 ? MADE_LIVE : LS_END_FREED, rolling);
    }
    detect();
    assert_int_equal(findings(), 2);
    assert_string_equal(made_finding(&trace, 1, "title"),
                        "1 of 100 managed allocations by cudaMallocManaged was never freed: "
                        "4.00 KiB");
    assert_string_equal(made_finding(&trace, 2, "title"),
                        "The last device allocation by cudaMalloc was never freed: 512 bytes");
}

static void nothing_is_a_leak_before_the_end(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++)
        made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 4096, i * 20 * MS, MADE_LIVE, 0);
    made_sql(&trace, "DELETE FROM meta WHERE key = 'ended'");
    detect();
    assert_int_equal(findings(), 0);
    assert_int_equal(made_count(&trace, "SELECT COUNT(*) FROM skipped WHERE kind = 'leak'"), 1);
}

static void a_pool_is_no_matter_of_course_when_memory_ran_out(void **state) {
    (void)state;
    static const char *const torch[] = {"/x/torch/lib/libc10_cuda.so", "/usr/bin/python3", NULL};
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 20 << 20, 1 * MS, MADE_LIVE,
                    made_stack(&trace, "train.py:6 step", torch));
    made_call(&trace, "cudaMalloc", 2 * MS);
    made_sql(&trace, "UPDATE call SET status = 2 WHERE id = (SELECT MAX(id) FROM call)");
    detect();
    assert_string_equal(made_finding(&trace, 1, "kind"), "library-memory");
    assert_null(strstr(made_finding(&trace, 1, "advice"), "Nothing to do"));
    assert_null(strstr(made_finding(&trace, 1, "evidence"), "gave back"));
    assert_non_null(strstr(made_finding(&trace, 1, "evidence"), "Allocations failed"));
}

static void stacks_of_one_line_are_one_finding(void **state) {
    (void)state;
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 100, 1 * MS, MADE_LIVE,
                    made_stack(&trace, "a.c:7 work", NULL));
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 200, 2 * MS, MADE_LIVE,
                    made_stack(&trace, "a.c:7 work", NULL));
    made_allocation(&trace, LS_MEMORY_PINNED, "cudaHostAlloc", 300, 3 * MS, MADE_LIVE,
                    made_stack(&trace, "a.c:7 work", NULL));
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 400, 4 * MS, MADE_LIVE, 0);
    detect();
    assert_int_equal(findings(), 3);
    assert_int_equal(made_count(&trace, "SELECT bytes FROM finding WHERE count = 2"), 300);
    assert_int_equal(made_count(&trace, "SELECT bytes FROM finding WHERE site = 'site unknown'"),
                     400);
}

static void a_pool_is_cached_not_leaked(void **state) {
    (void)state;
    static const char *const torch[] = {"/x/libcudart.so.13", "/x/torch/lib/libc10_cuda.so",
                                        "/usr/bin/python3", NULL};
    static const char *const pinned[] = {"/x/libcudart.so.13", "/x/torch/lib/libtorch_cuda.so",
                                         NULL};
    static const char *const extension[] = {"/home/me/ext.so", "/x/torch/lib/libc10_cuda.so", NULL};
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 2 << 20, 1 * MS, MADE_LIVE,
                    made_stack(&trace, "train.py:6 step", torch));
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 20 << 20, 500 * MS, MADE_LIVE,
                    made_stack(&trace, "train.py:7 step", torch));
    made_allocation(&trace, LS_MEMORY_PINNED, "cudaHostAlloc", 4096, 2 * MS, MADE_LIVE,
                    made_stack(&trace, "train.py:3 load", pinned));
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 64, 3 * MS, MADE_LIVE,
                    made_stack(&trace, "ext.cpp:3 own", extension));
    detect();
    assert_int_equal(made_count(&trace, "SELECT COUNT(*) FROM finding WHERE kind = 'leak'"), 1);
    assert_int_equal(made_count(&trace, "SELECT bytes FROM finding WHERE kind = 'leak'"), 64);
    assert_int_equal(made_count(&trace, "SELECT COUNT(*) FROM finding WHERE kind = 'library-memory'"
                                        " AND severity = 'info' AND gain_bytes = 0"),
                     2);
    assert_int_equal(made_count(&trace, "SELECT bytes FROM finding WHERE count = 2"), 22 << 20);
    assert_int_equal(made_count(&trace, "SELECT COUNT(*) FROM finding WHERE title LIKE"
                                        " 'PyTorch''s pinned-memory cache held 4.00 KiB%'"),
                     1);
}

static void a_device_reset_frees_what_does_not_grow(void **state) {
    (void)state;
    int64_t once = made_stack(&trace, "a.c:3 main", NULL);
    int64_t loop = made_stack(&trace, "a.c:9 step", NULL);
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 4096, 1 * MS, LS_END_RESET, once);
    for (int i = 0; i < 10; i++)
        made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 4096, i * 100 * MS, LS_END_RESET,
                        loop);
    detect();
    assert_int_equal(findings(), 1);
    assert_string_equal(made_finding(&trace, 1, "site"), "a.c:9 step");
}

static void a_killed_program_leaks_only_by_growth(void **state) {
    (void)state;
    made_sql(&trace, "UPDATE meta SET value = 'unknown' WHERE key = 'ended'");
    int64_t once = made_stack(&trace, "a.c:3 main", NULL);
    int64_t loop = made_stack(&trace, "a.c:9 step", NULL);
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 4096, 1 * MS, MADE_LIVE, once);
    for (int i = 0; i < 10; i++)
        made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 4096, i * 100 * MS, MADE_LIVE,
                        loop);
    detect();
    assert_int_equal(findings(), 1);
    assert_string_equal(made_finding(&trace, 1, "site"), "a.c:9 step");
    assert_string_equal(made_finding(&trace, 1, "severity"), "warning");
    assert_int_equal(made_count(&trace, "SELECT COUNT(*) FROM skipped WHERE kind = 'leak'"
                                        " AND reason LIKE '%4.00 KiB in 1 allocation %'"),
                     1);
}

static void a_second_run_replaces_the_first(void **state) {
    (void)state;
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 64, 1 * MS, MADE_LIVE, 0);
    detect();
    detect();
    assert_int_equal(findings(), 1);
}

static void a_trace_that_cannot_be_written_gets_a_report(void **state) {
    (void)state;
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 64, 1 * MS, MADE_LIVE, 0);
    made_sql(&trace, "CREATE TRIGGER refuse BEFORE INSERT ON finding"
                     " BEGIN SELECT RAISE(FAIL, 'full'); END");
    detect();
    assert_int_equal(findings(), 1);
    assert_int_equal(made_count(&trace, "SELECT COUNT(*) FROM main.finding"), 0);
}

static void an_empty_trace_is_skipped(void **state) {
    (void)state;
    made_sql(&trace, "DELETE FROM call");
    detect();
    assert_int_equal(findings(), 0);
    assert_int_equal(
        made_count(&trace, "SELECT COUNT(*) FROM skipped WHERE kind IN ('leak', 'pageable-copy')"),
        2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_exited, close_it)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(all_freed_is_no_problem),
        TEST(one_small_lost_buffer_is_named),
        TEST(a_program_that_frees_nothing_is_only_noted),
        TEST(growth_is_the_problem),
        TEST(the_forgotten_one_of_many),
        TEST(nothing_is_a_leak_before_the_end),
        TEST(a_pool_is_no_matter_of_course_when_memory_ran_out),
        TEST(stacks_of_one_line_are_one_finding),
        TEST(a_pool_is_cached_not_leaked),
        TEST(a_device_reset_frees_what_does_not_grow),
        TEST(a_killed_program_leaks_only_by_growth),
        TEST(a_second_run_replaces_the_first),
        TEST(a_trace_that_cannot_be_written_gets_a_report),
        TEST(an_empty_trace_is_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
