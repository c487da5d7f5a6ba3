/*
 * test_gpu_restart.c - work of the GPU under collectors that are killed: each record once, with its
 * call, wherever the one before had stopped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect.h"
#include "spool_fixture.h"

#define CUPTI_THREAD 9
#define OTHER_THREAD 10 /* hands buffers over without a moment */

static enum ls_collected once(void) {
    char why[512];
    return ls_collect_once(maker.spool, maker.trace, 0, why, sizeof why);
}

/* The process runs another program now, so that the spool's is dead. */
static void die(void) {
    maker.header->image++;
}

static uint64_t now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec - MADE_START;
}

static void run_of(unsigned thread, uint64_t start, uint32_t number) {
    maker_kernel_run(&maker, thread, start, start + 10, number);
}

static void copy_of(unsigned thread, uint64_t start, uint32_t number) {
    maker_gpu(&maker, thread, LS_GPU_COPY, 0, 0,
              (struct ls_rec_gpu){.start = MADE_GPU + start,
                                  .end = MADE_GPU + start + 3,
                                  .correlation = number,
                                  .value = {64, 8}});
}

/* Call number `n`, and its work: by n, ahead of it or behind, inside of a library's call or not. */
static void write_one(uint32_t n) {
    unsigned thread = 1 + n % 4, from = n % 3 ? CUPTI_THREAD : OTHER_THREAD;
    uint64_t outer = now(), start = now() + 1;
    if (n % 16 == 0)
        maker_gpu_clock(&maker, CUPTI_THREAD, outer, 10, outer);
    if (n % 5 == 0)
        run_of(from, start, n);
    if (n % 7 == 0) {
        maker_call_numbered(&maker, thread, cudaMemcpyAsync, start, start + 1, 0, 0, n, 1, 2, 64, 3,
                            0);
        copy_of(from, start, n);
        copy_of(from, start + 10, n);
        while (now() < start + 1)
            continue;
        return;
    }
    bool nested = n % 4 == 0;
    maker_launch(&maker, thread, start, start + 1, nested ? LS_CALL_NESTED : 0, n);
    if (n % 5)
        run_of(from, start, n);
    while (now() < start + 2)
        continue;
    if (nested)
        maker_call_with(&maker, thread, cublasDestroy_v2, outer, now(), 0, 0, 0, 0, n);
}

/* As written by write_one(), all of it. */
static void check_whole(uint32_t from, uint32_t to) {
    int64_t copies = 0, runs = 0, under = 0;
    for (uint32_t n = from; n < to; n++) {
        copies += n % 7 == 0;
        runs += n % 7 != 0 || n % 5 == 0;
        under += n % 7 != 0 && n % 4 == 0;
    }
    assert_string_equal(maker_ask(&maker, "PRAGMA integrity_check"), "ok");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM gpu_work"), runs + 2 * copies);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM gpu_work WHERE kind=1"), runs);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM gpu_work AS w JOIN call ON call.id="
                                          "w.call WHERE w.correlation=call.correlation AND "
                                          "w.status=1"),
                     runs + 2 * copies);
    assert_int_equal(maker_number(&maker, "SELECT SUM(count) FROM gpu_count"), runs + 2 * copies);
    assert_int_equal(maker_number(&maker, "SELECT SUM(count) FROM kernel_total"), runs);
    assert_int_equal(maker_number(&maker, "SELECT SUM(total_ns) FROM kernel_total"), 10 * runs);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM copy WHERE gpu_ns=6"), copies);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM copy"), copies);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM gpu_work AS w JOIN call AS c ON "
                                          "c.id=w.under WHERE c.f0=w.correlation"),
                     under);
    assert_int_equal(maker_number(&maker, "SELECT SUM(count) FROM kernel_total WHERE under>0"),
                     under);
    assert_int_equal(maker_number(&maker, "SELECT IFNULL(SUM(count),0) FROM lost"), 0);
}

static int setup_clock(void **state) {
    setup_alive(state);
    maker_gpu_clock(&maker, CUPTI_THREAD, 0, 10, 0);
    maker_kernel(&maker, CUPTI_THREAD, 1, "k");
    assert_int_equal(once(), LS_COLLECTED_LIVE);
    return 0;
}

/* Another collector after each record: what waits is found again. */
static void test_each_record(void **state) {
    (void)state;
    uint64_t start = now();
    run_of(CUPTI_THREAD, start + 5, 3);
    assert_int_equal(once(), LS_COLLECTED_LIVE);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM raw_gpu"), 1);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM gpu_count"), 0);
    copy_of(CUPTI_THREAD, start + 5, 4);
    maker_launch(&maker, 1, start, start + 1, LS_CALL_NESTED, 3);
    assert_int_equal(once(), LS_COLLECTED_LIVE);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM raw_gpu"), 2);
    run_of(CUPTI_THREAD, start + 15, 3);
    assert_int_equal(once(), LS_COLLECTED_LIVE);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM raw_gpu"), 3);
    maker_call(&maker, 1, cublasDestroy_v2, start, now(), 0x5);
    assert_int_equal(once(), LS_COLLECTED_LIVE);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM raw_gpu"), 1);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM kernel_run WHERE "
                                          "under_call='cublasDestroy_v2' AND call_id=1"),
                     2);
    assert_int_equal(maker_number(&maker, "SELECT SUM(count) FROM kernel_total"), 2);
    maker_call_numbered(&maker, 1, cudaMemcpyAsync, start, now(), 0, 0, 4, 1, 2, 64, 3, 0);
    assert_int_equal(once(), LS_COLLECTED_LIVE);
    assert_int_equal(maker_number(&maker, "SELECT gpu_ns FROM copy"), 3);
    die();
    assert_int_equal(once(), LS_COLLECTED);
    assert_int_equal(maker_number(&maker, "SELECT SUM(count) FROM gpu_count"), 3);
}

/* A copy that was passed on to an inner call, which another collector took in. */
static void test_passed_on(void **state) {
    (void)state;
    uint64_t start = now();
    maker_call_numbered(&maker, 1, cudaMemcpyAsync, start + 1, start + 2, LS_CALL_NESTED, 0, 4, 1,
                        2, 64, 3, 0);
    assert_int_equal(once(), LS_COLLECTED_LIVE);
    maker_call_numbered(&maker, 1, cudaMemcpy, start, now(), 0, 0, 5, 1, 2, 64, 3);
    copy_of(CUPTI_THREAD, start + 5, 5);
    assert_int_equal(once(), LS_COLLECTED_LIVE);
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(api||':'||gpu_ns) FROM all_copy"),
                        "cudaMemcpyAsync:3");
}

static void test_killed_at_random(void **state) {
    (void)state;
    unsigned seed = 7;
    uint32_t written = 1;
    for (int round = 0; round < 30; round++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(ls_collect_follow(maker.spool, (int)maker.header->pid));
        assert_true(pid > 0);
        int parts = rand_r(&seed) % 15;
        for (int part = 0; part < parts; part++) {
            for (unsigned more = (unsigned)rand_r(&seed) % 300; more; more--)
                write_one(written++);
            usleep((unsigned)rand_r(&seed) % 3000);
        }
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    die();
    assert_int_equal(maker_collect(&maker), LS_EXIT_OK);
    check_whole(1, written);
}

/* A record of a call that no collector remembers any more is found in the trace. */
static void test_long_ago(void **state) {
    (void)state;
    uint64_t start = now();
    maker_launch(&maker, 1, start, start + 1, LS_CALL_NESTED, 1);
    maker_call(&maker, 1, cublasDestroy_v2, start, start + 2, 0x5);
    for (uint32_t i = 2; i < 210000; i++)
        maker_call(&maker, 1, cudaDeviceSynchronize, start + 10 * i, start + 10 * i + 1, 0);
    maker_launch(&maker, 1, start + 3000000, start + 3000001, 0, 1);
    while (now() < start + 3000001)
        continue;
    assert_int_equal(once(), LS_COLLECTED_LIVE);
    run_of(CUPTI_THREAD, start + 50, 1);
    run_of(CUPTI_THREAD, start + 50, 2);
    die();
    assert_int_equal(once(), LS_COLLECTED);
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(status||IFNULL(call_id,'')||"
                                          "IFNULL(under_call,'')) FROM (SELECT * FROM kernel_run "
                                          "ORDER BY correlation)"),
                        "matched1cublasDestroy_v2,unmatched");
}

/* A copy of long ago has its own time, whatever the thread's later ones were made in. */
static void test_copies_long_ago(void **state) {
    (void)state;
    uint64_t start = now();
    maker_call_numbered(&maker, 1, cudaMemcpyAsync, start, start + 1, 0, 0, 1, 1, 2, 64, 3, 0);
    for (uint32_t i = 2; i < 210000; i++)
        maker_call(&maker, 1, cudaDeviceSynchronize, start + 10 * i, start + 10 * i + 1, 0);
    start += 2200000;
    maker_call_numbered(&maker, 1, cudaMemcpyAsync, start + 1, start + 2, LS_CALL_NESTED, 0, 2, 1,
                        2, 64, 3, 0);
    maker_call(&maker, 1, cublasDestroy_v2, start, start + 3, 0x5);
    while (now() < start + 3)
        continue;
    assert_int_equal(once(), LS_COLLECTED_LIVE);
    copy_of(CUPTI_THREAD, start - 2200000 + 50, 1);
    die();
    assert_int_equal(once(), LS_COLLECTED);
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(IFNULL(gpu_ns,'-')) FROM "
                                          "(SELECT * FROM all_copy ORDER BY start_ns)"),
                        "3,-");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_clock, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_each_record), TEST(test_passed_on),       TEST(test_killed_at_random),
        TEST(test_long_ago),    TEST(test_copies_long_ago),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
