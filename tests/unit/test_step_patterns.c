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

/* --- what is no part of a pattern ------------------------------------------------------------ */

#define ALLOCATOR_STACK 700

/* A stack whose innermost frame is of PyTorch's allocator. */
static void allocator_stack(void) {
    sql("INSERT INTO module(id, path) VALUES(1, '/env/torch/lib/libc10_cuda.so')");
    sql("INSERT INTO frame(id, module, kind) VALUES(1, 1, 0)");
    sql("INSERT INTO stack(id, parent, frame) VALUES(1, NULL, 1)");
    sql("INSERT INTO stack_site(id, stack) VALUES(%d, 1)", ALLOCATOR_STACK);
}

/* A segment of the allocator's, where the allocation's row tells of it. */
static void segment(int stack) {
    call_of(1, LS_API_cudaMalloc, stack, 0);
    sql("INSERT INTO allocation(start_ns, kind, size, api, start_call, holder)"
        " VALUES(%lld, 1, 1000, %d, %lld, 3)",
        (long long)(t.now - MADE_TICK), LS_API_cudaMalloc, (long long)t.calls);
}

/* A cache that grows: the allocator asks for memory every tenth time, twice the first time. */
static void growing(int stack) {
    for (int i = 0; i < 400; i++) {
        begins();
        launches(1, 1);
        if (i % 10 == 0)
            segment(stack);
        blocks(10, 1);
        ends();
    }
    assert_steps("pattern");
    assert_int_equal(ask("SELECT SUM(calls) FROM step"), 840);
}

static void test_the_allocators_segments(void **state) {
    (void)state;
    allocator_stack();
    growing(ALLOCATOR_STACK);
}

static void test_the_allocators_segments_without_stacks(void **state) {
    (void)state;
    growing(0);
}

/* Refused, or of the driver's virtual memory: told by the stack alone. */
static void test_what_the_allocator_asks_the_driver(void **state) {
    (void)state;
    allocator_stack();
    for (int i = 0; i < 200; i++) {
        begins();
        launches(1, 1);
        if (i % 10 == 0)
            call_of(1, LS_API_cudaMalloc, ALLOCATOR_STACK, 0);
        for (int k = 0; k < 9 && i % 20 == 1; k++) {
            call_of(1, LS_API_cuMemCreate, ALLOCATOR_STACK, 0);
            call_of(1, LS_API_cuMemMap, ALLOCATOR_STACK, 0);
        }
        blocks(10, 1);
        ends();
    }
    assert_steps("pattern");
}

/* Blocks that wait: events are made, recorded and asked for, as often as it takes. */
static void test_the_allocators_events(void **state) {
    (void)state;
    allocator_stack();
    for (int i = 0; i < 200; i++) {
        begins();
        launches(1, 2);
        for (int k = 0; k < i * i % 23; k++)
            call_of(1, LS_API_cudaEventQuery, 0, 5000);
        if (i % 10 == 3) {
            call_of(1, LS_API_cudaEventCreateWithFlags, 0, 5000);
            call_of(1, LS_API_cudaEventRecord, ALLOCATOR_STACK, 5000);
            sql("INSERT INTO block_wait(id, event) VALUES(%lld, 5000)", (long long)t.calls);
        }
        blocks(10, 1);
        ends();
    }
    assert_steps("pattern");
}

/* The same functions, called by the program. */
static void test_the_programs_own_events(void **state) {
    (void)state;
    allocator_stack();
    sql("INSERT INTO block_wait(id, event) VALUES(0, 5000)");
    for (int i = 0; i < 50; i++) {
        begins();
        call_of(1, LS_API_cudaEventRecord, 20, 5000);
        for (int k = 0; k < 2; k++)
            launches(1, 1);
        call_of(1, LS_API_cudaEventRecord, ALLOCATOR_STACK, 6000);
        ends();
    }
    assert_steps("pattern");
    assert_int_equal(ask("SELECT MIN(calls) FROM step"), 4);
}

/* --- what comes several times in an iteration ------------------------------------------------- */

static void test_two_copies_by_one_line(void **state) {
    (void)state;
    setup_calls();
    for (int i = 0; i < 60; i++) {
        begins();
        upload(10);
        upload(10);
        call_of(1, LS_API_cudaDeviceSynchronize, 11, 0);
        ends();
    }
    assert_steps("pattern");
}

/* model(images.cuda()), labels.cuda(): half a step apart; some calls are another stack's from the
 * sixteenth time on (an interpreter that has specialised). */
static void test_two_copies_around_the_work(void **state) {
    (void)state;
    setup_calls();
    for (int i = 0; i < 60; i++) {
        begins();
        for (int k = 0; k < 2; k++) {
            blocks(10, 1);
            upload(11);
            call_of(1, LS_API_cudaStreamSynchronize, 12, 0);
            launches(1 + 10 * k, 3);
            blocks(20 + 10 * k, k ? 5 : 8);
        }
        blocks(i < 15 ? 40 : 50, 4);
        ends();
    }
    assert_steps("pattern");
}

/* In one line, each with work of its own: only what is done once in both tells. */
static void test_rounds_are_parts(void **state) {
    (void)state;
    setup_calls();
    for (int i = 0; i < 40; i++) {
        begins();
        for (int k = 0; k < 2; k++) {
            upload(10);
            launches(1, 5);
        }
        call_of(1, LS_API_cudaDeviceSynchronize, 11, 0);
        ends();
    }
    assert_steps("pattern");
}

static void test_an_inner_loop_of_few_rounds(void **state) {
    (void)state;
    setup_calls();
    for (int i = 0; i < 40; i++) {
        begins();
        upload(9);
        for (int k = 0; k < 5; k++) {
            upload(10);
            launches(1, 5);
        }
        ends();
    }
    assert_steps("pattern");
}

/* A number that is read now and then, though as often as rounds of an inner loop would be. */
static void test_log_lines_are_no_steps(void **state) {
    (void)state;
    setup_calls();
    for (int i = 0; i < 60; i++) {
        begins();
        upload(10);
        launches(1, 5);
        if (i % 5 == 2)
            download(11);
        ends();
    }
    assert_steps("pattern");
}

static void test_accumulation_with_log_lines(void **state) {
    (void)state;
    setup_calls();
    for (int i = 0; i < 60; i++) {
        begins();
        for (int k = 0; k < 4; k++) {
            upload(10);
            launches(1, 6);
        }
        launches(60, 9);
        if (i % 5 == 2)
            download(11);
        ends();
    }
    assert_steps("pattern");
}

/* Tensors of six turns wait for the garbage collector. */
static void test_memory_given_back_now_and_then(void **state) {
    (void)state;
    setup_calls();
    for (int i = 0; i < 60; i++) {
        upload(10);
        launches(1, 5);
        blocks(20, 2);
        for (int k = 0; k < 12 && i % 6 == 2; k++) {
            blocks(30, 1);
            sql("UPDATE call SET f1 = -512 WHERE id = %lld", (long long)t.calls);
        }
    }
    ls_steps_build(&t.db);
    assert_source("pattern");
    assert_int_equal(ask("SELECT COUNT(*) FROM step"), 60);
}

/* Its own memory, which it keeps: a pool that grows. */
static void test_memory_now_and_then(void **state) {
    (void)state;
    for (int i = 0; i < 400; i++) {
        begins();
        launches(1, 2);
        if (i % 10 == 3)
            call_of(1, LS_API_cudaMalloc, 10, 0);
        ends();
    }
    assert_steps("pattern");
}

/* The first turns are made by other lines: no loop within the loop. */
static void test_calls_that_begin_later(void **state) {
    (void)state;
    for (int i = 0; i < 60; i++) {
        begins();
        launches(1, 5);
        blocks(i < 20 ? 20 : 30, 4);
        ends();
    }
    assert_steps("pattern");
}

static void test_what_is_given_back_in_the_next_turn(void **state) {
    (void)state;
    setup_calls();
    for (int i = 0; i < 40; i++) {
        begins();
        blocks(10, 1);
        if (i > 0) {
            blocks(12, 1);
            sql("UPDATE call SET f1 = -512 WHERE id = %lld", (long long)t.calls);
        }
        launches(1, 3);
        ends();
    }
    assert_steps("pattern");
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

/* Of one stack, and a kernel's launch each, which the runtime passes on to the driver. */
static void pieces(int count) {
    for (int i = 0; i < count; i++) {
        int64_t start = t.now;
        call_of(1, LS_API_cuLaunchKernel, 30, 9);
        sql("UPDATE call SET start_ns = %lld, flags = %d WHERE id = %lld", (long long)start + 2,
            LS_CALL_NESTED, (long long)t.calls);
        call_of(1, LS_API_cudaLaunchKernel, 30, 9);
        sql("UPDATE call SET start_ns = %lld, duration_ns = 15 WHERE id = %lld", (long long)start,
            (long long)t.calls);
    }
}

/* A copy that is too large for one launch: nothing happens between its pieces. */
static void test_pieces_of_a_copy_are_no_steps(void **state) {
    (void)state;
    setup_calls();
    launches(80, 7);
    pieces(32);
    launches(90, 7);
    assert_steps("none");
}

static void test_pieces_of_a_copy_in_each_step(void **state) {
    (void)state;
    setup_calls();
    for (int i = 0; i < 20; i++) {
        begins();
        pieces(32);
        launches(1, 5);
        ends();
    }
    assert_steps("pattern");
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
        TEST(test_the_allocators_segments),
        TEST(test_the_allocators_segments_without_stacks),
        TEST(test_what_the_allocator_asks_the_driver),
        TEST(test_the_allocators_events),
        TEST(test_the_programs_own_events),
        TEST(test_two_copies_by_one_line),
        TEST(test_two_copies_around_the_work),
        TEST(test_rounds_are_parts),
        TEST(test_an_inner_loop_of_few_rounds),
        TEST(test_log_lines_are_no_steps),
        TEST(test_accumulation_with_log_lines),
        TEST(test_memory_given_back_now_and_then),
        TEST(test_memory_now_and_then),
        TEST(test_calls_that_begin_later),
        TEST(test_what_is_given_back_in_the_next_turn),
        TEST(test_no_loop),
        TEST(test_pieces_of_a_copy_are_no_steps),
        TEST(test_pieces_of_a_copy_in_each_step),
        TEST(test_no_call),
        TEST(test_a_million_calls_take_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
