/*
 * test_step_patterns.c - steps by repetition, and how long they take to find.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "made_steps.h"
#include "steps.h"

static void test_inference(void **state) {
    (void)state;
    setup_calls();
    launches(80, 25); /* a warm-up of its own */
    for (int i = 0; i < 50; i++) {
        begins();
        upload(10);
        launches(1, 20);
        download(11);
        ends();
    }
    download(12);
    assert_steps("pattern");
}

/* A kernel that the warm-up used too does not move the boundaries. */
static void test_warm_up_with_the_same_kernels(void **state) {
    (void)state;
    setup_calls();
    for (int i = 0; i < 3; i++) {
        upload(9);
        launches(1, 20);
    }
    for (int i = 0; i < 40; i++) {
        begins();
        upload(10);
        launches(1, 20);
        ends();
    }
    assert_steps("pattern");
}

static void test_an_iteration_that_begins_with_launches(void **state) {
    (void)state;
    setup_calls();
    launches(80, 7);
    for (int i = 0; i < 40; i++) {
        begins();
        launches(1, 20);
        download(11);
        ends();
    }
    assert_steps("pattern");
}

static void test_layers_are_no_steps(void **state) {
    (void)state;
    setup_calls();
    for (int i = 0; i < 15; i++) {
        begins();
        upload(10);
        for (int layer = 0; layer < 12; layer++) {
            blocks(20, 1);
            launches(1, 3);
        }
        download(11);
        ends();
    }
    assert_steps("pattern");
}

/* Two copies by one line, half a step apart. */
static void test_lines_that_come_twice_in_a_step(void **state) {
    (void)state;
    setup_calls();
    for (int i = 0; i < 25; i++) {
        begins();
        upload(10);
        launches(1, 11);
        upload(10);
        launches(20, 12);
        ends();
    }
    assert_steps("pattern");
}

static void test_epochs_are_no_steps(void **state) {
    (void)state;
    setup_calls();
    for (int epoch = 0; epoch < 12; epoch++) {
        for (int i = 0; i < 25; i++) {
            begins();
            upload(10);
            launches(1, 20);
            ends();
        }
        for (int i = 0; i < 5; i++) {
            upload(20);
            launches(1, 8);
            download(21);
        }
    }
    assert_steps("pattern");
    assert_int_equal(ask("SELECT COUNT(*) FROM step"), 300);
}

static void test_noise(void **state) {
    (void)state;
    uint32_t seed = 1;
    setup_calls();
    for (int i = 0; i < 60; i++) {
        begins();
        upload(10);
        for (int k = 0; k < 20; k++) {
            seed = seed * 1664525 + 1013904223;
            if (seed >> 28 == 0)
                blocks(500 + (int)(seed >> 20 & 15), 1);
            launches(1 + k, 1);
        }
        if (i % 10 == 5)
            download(12); /* a log line */
        ends();
    }
    assert_steps("pattern");
}

static void test_accumulation_without_optimizer_frames(void **state) {
    (void)state;
    setup_calls();
    for (int i = 0; i < 48; i++) {
        if (i % 4 == 0)
            begins();
        upload(10);
        launches(1, 20);
        if (i % 4 == 3) {
            launches(60, 3);
            ends();
        }
    }
    assert_steps("pattern");
    assert_int_equal(ask("SELECT COUNT(*) FROM step"), 12);
}

static void test_two_loops(void **state) {
    (void)state;
    setup_calls();
    for (int i = 0; i < 30; i++) {
        begins();
        upload(10);
        launches(1, 20);
        ends();
    }
    for (int i = 0; i < 20; i++) {
        begins();
        upload(12);
        launches(30, 18);
        download(13);
        ends();
    }
    assert_steps("pattern");
    assert_int_equal(ask("SELECT COUNT(*) FROM step WHERE loop = 1"), 30);
    assert_int_equal(ask("SELECT COUNT(*) FROM step WHERE loop = 2"), 20);
}

static void test_no_loop(void **state) {
    (void)state;
    setup_calls();
    for (int i = 0; i < 200; i++) {
        launches(1000 + i, 1);
        blocks(2000 + i, 1);
    }
    assert_steps("none");
    assert_int_equal(ask("SELECT COUNT(*) FROM coverage WHERE layer = 'steps' AND state = 'off'"),
                     1);
}

static void test_no_call(void **state) {
    (void)state;
    assert_steps("none");
}

static void test_a_million_calls_take_seconds(void **state) {
    (void)state;
    sql("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999999)"
        " INSERT INTO call(id, start_ns, duration_ns, thread, api, status, flags, stack, f0)"
        " SELECT i + 1, i * 20, 10, 1 + (i / 50) %% 2, CASE WHEN i %% 100 = 0 THEN %d ELSE %d END, 0, 0,"
        " CASE WHEN i %% 100 = 0 THEN 7 END, i %% 100 FROM n",
        LS_API_cudaMalloc, LS_API_cudaLaunchKernel);
    clock_t before = clock();
    ls_steps_build(&t.db);
    double seconds = (double)(clock() - before) / CLOCKS_PER_SEC;
    assert_null(ls_db_error(&t.db));
    assert_int_equal(ask("SELECT COUNT(*) FROM step"), 10000);
    print_message("%.1f s of processor time\n", seconds);
    assert_true(seconds < 10); /* sanitized, too */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_inference),
        TEST(test_warm_up_with_the_same_kernels),
        TEST(test_an_iteration_that_begins_with_launches),
        TEST(test_layers_are_no_steps),
        TEST(test_lines_that_come_twice_in_a_step),
        TEST(test_epochs_are_no_steps),
        TEST(test_noise),
        TEST(test_accumulation_without_optimizer_frames),
        TEST(test_two_loops),
        TEST(test_no_loop),
        TEST(test_no_call),
        TEST(test_a_million_calls_take_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
