/*
 * test_steps.c - steps by optimizers and by marks, and their figures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "made_steps.h"
#include "steps.h"

#define SITE "/env/lib/python3.11/site-packages/torch"

/* The stack of a call that a Python line makes: train.py's line, then frames inwards. */
static int64_t python_stack(int id, int line, const char *const frames[][2]) {
    sql("INSERT INTO frame(function, file, line, kind) VALUES('main', '/home/me/train.py', %d, 1)",
        line);
    sql("INSERT INTO stack(parent, frame) VALUES(NULL, last_insert_rowid())");
    for (; frames && (*frames)[0]; frames++) {
        int64_t parent = sqlite3_last_insert_rowid(t.db.db);
        sql("INSERT INTO frame(function, file, line, kind) VALUES(%Q, %Q, 1, 1)", (*frames)[0],
            (*frames)[1]);
        sql("INSERT INTO stack(parent, frame) VALUES(%lld, last_insert_rowid())",
            (long long)parent);
    }
    int64_t node = sqlite3_last_insert_rowid(t.db.db);
    sql("INSERT INTO stack_site(id, stack) VALUES(%d, %lld)", id, (long long)node);
    return node;
}

static const char *const adam[][2] = {{"wrapper", SITE "/optim/optimizer.py"},
                                      {"step", SITE "/optim/adam.py"},
                                      {"_use_grad", SITE "/optim/optimizer.py"},
                                      {"adam", SITE "/optim/adam.py"},
                                      {NULL, NULL}};

static void python_stacks(int first, int count, int line, const char *const frames[][2]) {
    for (int i = 0; i < count; i++) {
        python_stack(first + i, line, frames);
        if (!frames)
            line++;
    }
}

static void forward(int kernels, int shape) {
    blocks(100, 5 + shape);
    launches(1, kernels);
}

static void backward(void) {
    for (int i = 0; i < 12; i++)
        call_of(2, LS_API_cudaLaunchKernel, 0, 40 + i);
    blocks(120, 4);
}

static void optimizer_step(int stack) {
    for (int i = 0; i < 3; i++) {
        blocks(stack + i, 1);
        launches(60, 2);
    }
}

/* Adam at line 30 and 31; forward's blocks at lines 10 and on. */
static void optimizers(void) {
    python_stacks(100, 30, 10, NULL);
    python_stacks(300, 10, 50, adam);
    python_stacks(310, 10, 51, adam);
    python_stacks(50, 20, 60, NULL);
}

static void train(int batches, int accumulate, int shapes, int warm) {
    for (int i = 0; i < batches; i++) {
        if (i % accumulate == 0)
            begins();
        upload(50);
        for (int w = 0; i < warm && w < 40; w++)
            call_of(1, LS_API_cudaMalloc, 910 + w, 0);
        forward(10, shapes ? i % shapes : 0);
        backward();
        if (i % accumulate == accumulate - 1) {
            optimizer_step(300);
            ends();
        }
    }
}

static void evaluate(int batches) {
    for (int i = 0; i < batches; i++) {
        upload(55);
        blocks(160, 5);
        launches(1, 10);
        download(56);
    }
}

static void test_optimizer_bursts(void **state) {
    (void)state;
    optimizers();
    setup_calls();
    train(20, 1, 0, 1);
    download(57);
    assert_steps("optimizer");
    assert_int_equal(ask("SELECT COUNT(DISTINCT loop) FROM step"), 1);
    assert_int_equal(ask("SELECT MIN(thread) FROM step"), 1);
}

static void test_accumulation(void **state) {
    (void)state;
    optimizers();
    setup_calls();
    train(24, 4, 0, 1);
    assert_steps("optimizer");
    assert_int_equal(ask("SELECT COUNT(*) FROM step"), 6);
}

static void test_changing_shapes(void **state) {
    (void)state;
    optimizers();
    setup_calls();
    train(30, 1, 7, 0);
    assert_steps("optimizer");
}

static void test_epochs_with_evaluation(void **state) {
    (void)state;
    optimizers();
    setup_calls();
    for (int epoch = 0; epoch < 4; epoch++) {
        train(10, 1, 0, epoch == 0);
        evaluate(6);
    }
    assert_steps("optimizer");
    assert_int_equal(ask("SELECT COUNT(*) FROM step"), 40);
}

/* Two optimizers in turn, n steps of the one for each of the other. */
static void gan(int rounds, int critics) {
    optimizers();
    setup_calls();
    for (int i = 0; i < rounds; i++) {
        begins();
        for (int n = 0; n < critics; n++) {
            upload(50);
            forward(10, 0);
            optimizer_step(300);
        }
        launches(30, 5);
        blocks(110, 5);
        optimizer_step(310);
        ends();
    }
}

static void test_gan(void **state) {
    (void)state;
    gan(15, 1);
    assert_steps("optimizer");
}

static void test_gan_with_five_critic_steps(void **state) {
    (void)state;
    gan(12, 5);
    assert_steps("optimizer");
}

static void test_a_leftover_batch_is_no_period(void **state) {
    (void)state;
    optimizers();
    setup_calls();
    for (int epoch = 0; epoch < 4; epoch++) {
        train(12, 1, 0, 0);
        begins(); /* the same, stepped from another line */
        upload(50);
        forward(10, 0);
        optimizer_step(310);
        ends();
    }
    ls_steps_build(&t.db);
    assert_source("optimizer");
    assert_int_equal(ask("SELECT COUNT(*) FROM step"), 48);
}

static void test_pretraining_then_training(void **state) {
    (void)state;
    optimizers();
    setup_calls();
    train(9, 1, 0, 0);
    download(58);
    for (int i = 0; i < 7; i++) {
        begins();
        upload(51);
        blocks(110, 6);
        launches(70, 9);
        optimizer_step(310);
        ends();
    }
    assert_steps("optimizer");
    assert_int_equal(ask("SELECT COUNT(*) FROM step WHERE loop = 2"), 7);
}

/* A closure that the optimizer calls does the iteration's work: only what follows is a burst. */
static void test_a_closure_is_not_the_optimizer(void **state) {
    static const char *const closure[][2] = {{"wrapper", SITE "/optim/optimizer.py"},
                                             {"step", SITE "/optim/adam.py"},
                                             {"decorate_context", SITE "/utils/_contextlib.py"},
                                             {"closure", "/home/me/train.py"},
                                             {NULL, NULL}};
    (void)state;
    python_stacks(400, 10, 50, closure);
    python_stacks(300, 10, 50, adam);
    setup_calls();
    for (int i = 0; i < 10; i++) {
        begins();
        upload(401);
        blocks(402, 6);
        launches(1, 10);
        optimizer_step(300);
        ends();
    }
    assert_steps("optimizer");
}

static void test_marks_come_first(void **state) {
    (void)state;
    optimizers();
    for (int i = 0; i < 5; i++) {
        mark(LS_MARK_STEP, 1, t.now, 0, 0, "");
        begins();
        for (int n = 0; n < 4; n++) {
            upload(50);
            optimizer_step(300);
        }
        ends();
    }
    assert_steps("marked");
    assert_int_equal(ask("SELECT COUNT(*) FROM step WHERE thread IS NULL"), 5);
}

static void test_figures(void **state) {
    (void)state;
    int device = LS_API_cudaMalloc;
    for (int i = 0; i < 3; i++) {
        mark(LS_MARK_STEP, 1, t.now, 0, 0, "");
        upload(50);
        download(51);
        download(51);
        launches(1, 4);
        call_of(1, LS_API_cudaMalloc, 52, 0);
        sql("INSERT INTO allocation(start_ns, end_ns, kind, size, api, start_call)"
            " VALUES(%lld, %lld, 1, 1000, %d, %lld), (%lld, NULL, 4, 70, %d, 0)",
            (long long)(t.now - MADE_TICK), (long long)(t.now - MADE_TICK / 2), device,
            (long long)t.calls, (long long)(t.now - MADE_TICK), device);
        blocks(53, 1);
        sql("INSERT INTO block(id, start_ns, size) VALUES(%lld, %lld, 512)", (long long)t.calls,
            (long long)(t.now - MADE_TICK));
        sql("INSERT INTO memory(id, ts_ns, allocated) VALUES(%lld, %lld, %d)", (long long)t.calls,
            (long long)(t.now - MADE_TICK), 5000 + i);
    }
    ls_steps_build(&t.db);
    assert_null(ls_db_error(&t.db));
    assert_int_equal(ask("SELECT COUNT(*) FROM step WHERE calls = 9 AND launches = 4 AND copies = 3"
                         " AND h2d_bytes = 100 AND d2h_bytes = 200 AND d2d_bytes = 0 AND"
                         " other_bytes = 0 AND copy_blocked_ns = 30 AND allocations = 2 AND"
                         " allocated_bytes = 1070 AND blocks = 1 AND block_bytes = 512 AND"
                         " peak_memory = 1000 AND peak_allocated = 4999 + id"),
                     3);
}

/* The runtime's launch passed on to its own, and to the driver's, and all three were recorded. */
static void passed_on(enum ls_api outer, enum ls_api inner) {
    int64_t start = t.now;
    t.now += 2;
    call_of(1, LS_API_cuLaunchKernel, 0, 7);
    t.now = start + 1;
    call_of(1, inner, 0, 7);
    t.now = start;
    call_of(1, outer, 0, 7);
}

static void test_a_launch_counts_once(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        mark(LS_MARK_STEP, 1, t.now, 0, 0, "");
        passed_on(LS_API_cudaLaunchKernel, LS_API_cudaLaunchKernelExC);
        passed_on(LS_API_cudaGraphLaunch, LS_API_cuGraphLaunch);
        int64_t start = t.now; /* a library's own launch is none that it was passed */
        t.now += 2;
        call_of(1, LS_API_cuLaunchKernel, 0, 8);
        t.now = start;
        call_of(1, LS_API_cublasSgemm_v2, 0, 0);
        launches(1, 2);
    }
    ls_steps_build(&t.db);
    assert_null(ls_db_error(&t.db));
    assert_int_equal(ask("SELECT COUNT(*) FROM step WHERE calls = 10 AND launches = 5"), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_launch_counts_once),
        TEST(test_optimizer_bursts),
        TEST(test_accumulation),
        TEST(test_changing_shapes),
        TEST(test_epochs_with_evaluation),
        TEST(test_gan),
        TEST(test_gan_with_five_critic_steps),
        TEST(test_a_leftover_batch_is_no_period),
        TEST(test_pretraining_then_training),
        TEST(test_a_closure_is_not_the_optimizer),
        TEST(test_marks_come_first),
        TEST(test_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
