/*
 * test_detect_growth.c - what else a program does tells growth from a phase (`linear-growth`), and
 * an old value from one that is worked on (`peak-overlap`): a graph's launch as well as a kernel's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "made_trace.h"

#define MIB (INT64_C(1) << 20)
#define STEP (10 * MS)
#define STEPS 40

static struct ls_trace trace;

static int open_it(void **state) {
    (void)state;
    made_open(&trace, "exit", 1000 * MS);
    return 0;
}

static int close_it(void **state) {
    (void)state;
    made_close(&trace);
    return 0;
}

static void run(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *sql = sqlite3_vmprintf(format, args);
    va_end(args);
    made_sql(&trace, sql);
    sqlite3_free(sql);
}

static void launch(const char *api, const char *class, int64_t start, int count) {
    for (int i = 0; i < count; i++)
        made_call(&trace, api, start + 2000 * i);
    run("UPDATE api SET class = %Q WHERE name = %Q", class, api);
}

static int found(const char *kind) {
    char sql[120];
    assert_int_equal(ls_detect_run(&trace), LS_EXIT_OK);
    snprintf(sql, sizeof sql, "SELECT COUNT(*) FROM finding WHERE kind = '%s'", kind);
    return made_count(&trace, sql);
}

/* A block more in each step of a loop; all are given back soon after it. */
static void a_list_that_is_dropped(void) {
    int64_t stack = made_stack(&trace, "train.py:5 collect", NULL);
    for (int i = 1; i <= STEPS; i++) {
        run("INSERT INTO step(loop, source, thread, start_ns, end_ns, launches)"
            " VALUES(1, 'optimizer', 1, %lld, %lld, 3)",
            (long long)(i * STEP), (long long)((i + 1) * STEP));
        made_allocation(&trace, 1, "cudaMalloc", 16 * MIB, i * STEP + MS, MADE_LIVE, stack);
    }
    run("UPDATE allocation SET end_ns = %lld, end_reason = 0", (long long)((STEPS + 2) * STEP));
}

static void growth_to_the_end(void **state) {
    (void)state;
    a_list_that_is_dropped();
    assert_int_equal(found("linear-growth"), 1);
}

static void growth_of_a_phase(void **state) {
    static const char *const launches[][2] = {{"cudaLaunchKernel", "launch"},
                                              {"cudaGraphLaunch", "graph"}};
    for (int i = 0; i < 2; i++) {
        a_list_that_is_dropped();
        launch(launches[i][0], launches[i][1], (STEPS + 3) * STEP, 20);
        assert_int_equal(found("linear-growth"), 0);
        close_it(state);
        open_it(state);
    }
}

/* x = make(), again and again. */
static void values(void) {
    int64_t stack = made_stack(&trace, "train.py:7 main", NULL);
    for (int i = 1; i <= 10; i++) {
        made_allocation(&trace, 1, "cudaMalloc", 100 * MIB, i * STEP, MADE_LIVE, stack);
        run("UPDATE allocation SET end_ns = start_ns + %lld, end_reason = 0"
            " WHERE id = last_insert_rowid()",
            (long long)(STEP + MS));
    }
}

static void an_old_value_is_idle(void **state) {
    (void)state;
    values();
    assert_int_equal(found("peak-overlap"), 1);
}

static void an_old_value_is_worked_on(void **state) {
    static const char *const launches[][2] = {{"cudaLaunchKernel", "launch"},
                                              {"cudaGraphLaunch", "graph"}};
    for (int i = 0; i < 2; i++) {
        values();
        for (int turn = 2; turn <= 10; turn++)
            launch(launches[i][0], launches[i][1], turn * STEP + 10000, 5);
        assert_int_equal(found("peak-overlap"), 0);
        close_it(state);
        open_it(state);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_it, close_it)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(growth_to_the_end),
        TEST(growth_of_a_phase),
        TEST(an_old_value_is_idle),
        TEST(an_old_value_is_worked_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
