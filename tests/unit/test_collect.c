/*
 * test_collect.c - a spool's way into a trace: calls, lifetimes, what else is told, the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect.h"
#include "ingest.h"
#include "spool_fixture.h"

static void test_calls(void **state) {
    (void)state;
    maker_call_with(&maker, 1, cudaMemcpyAsync, 100, 150, 7, 1, 0, 2, 11, UINT64_MAX, 13, 4, 15);
    maker_failed(&maker, 2, cudaMalloc, 10, 20, 2, 0, 4096);
    collect();
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM call"), 2);
    assert_string_equal(
        maker_ask(&maker,
                  "SELECT id||'|'||start_ns||'|'||duration_ns||'|'||thread||'|'||status||'|'"
                  "||flags||'|'||device||'|'||IFNULL(stack,'-')||'|'||f0||'|'||f1||'|'||"
                  "IFNULL(f2,'-') FROM call WHERE id=1"),
        "1|10|10|2|2|0|0|-|0|4096|-");
    assert_string_equal(
        maker_ask(&maker,
                  "SELECT id||'|'||start_ns||'|'||duration_ns||'|'||thread||'|'||status||'|'"
                  "||flags||'|'||device||'|'||stack||'|'||f0||'|'||f1||'|'||f4||'|'||"
                  "IFNULL(f5,'-') FROM call WHERE id=2"),
        "2|100|50|1|0|1|2|7|11|-1|15|-");
    assert_string_equal(maker_ask(&maker, "SELECT tid||api FROM api_call WHERE id=2"),
                        "1001cudaMemcpyAsync");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM allocation"), 0);
    assert_int_equal(access(maker.spool, F_OK), -1);
    assert_string_equal(maker_ask(&maker, "PRAGMA journal_mode"), "delete");
}

static const char *life(const char *address) {
    static char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT kind||' '||size||' '||start_ns||' '||IFNULL(end_ns,'-')||' '||"
             "IFNULL(end_reason,'-') FROM allocation WHERE address=%s ORDER BY id",
             address);
    return maker_ask(&maker, sql);
}

static void test_lifetimes(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaMalloc, 1, 2, 0x1000, 256);
    maker_call(&maker, 1, cudaMallocManaged, 3, 4, 0x2000, 512, 1);
    maker_call(&maker, 1, cudaHostAlloc, 5, 6, 0x3000, 1024, 0);
    maker_call(&maker, 1, cudaMallocAsync, 7, 8, 0x4000, 2048, 77);
    maker_call(&maker, 1, cudaHostRegister, 9, 10, 0x5000, 64, 0);
    maker_call(&maker, 1, cudaMallocArray, 11, 12, 0x6000, 10, 4, 0, 0x2020, 0);
    maker_call(&maker, 1, cudaMalloc, 13, 14, 0, 0); /* nothing asked, nothing got */
    maker_call(&maker, 1, cudaFree, 21, 22, 0x1000);
    maker_failed(&maker, 1, cudaFree, 23, 24, 1, 0x2000);
    maker_call(&maker, 1, cudaFree, 25, 26, 0);
    maker_call(&maker, 1, cudaFreeAsync, 27, 28, 0x4000, 77);
    maker_call(&maker, 1, cudaHostUnregister, 29, 30, 0x5000);
    maker_call(&maker, 1, cudaFreeArray, 31, 32, 0x6000);
    collect();
    assert_string_equal(life("0x1000"), "1 256 1 21 0");
    assert_string_equal(life("0x2000"), "3 512 3 - -");
    assert_string_equal(life("0x3000"), "4 1024 5 - -");
    assert_string_equal(life("0x4000"), "2 2048 7 27 0");
    assert_string_equal(life("0x5000"), "5 64 9 29 0");
    assert_string_equal(life("0x6000"), "7 320 11 31 0"); /* 10 x 4 of two 32-bit channels */
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM allocation"), 6);
    assert_string_equal(maker_ask(&maker, "SELECT kind||api||free_api||stream FROM all_allocation "
                                          "WHERE address=0x4000"),
                        "asynccudaMallocAsynccudaFreeAsync77");
    assert_int_equal(maker_number(&maker, "SELECT SUM(size) FROM live_allocation"), 1536);
}

/* Thread 2 gets the address while thread 1's free of it has not come back yet. */
static void test_address_reused_across_threads(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaMalloc, 1, 2, 0x1000, 1);
    maker_call(&maker, 1, cudaFree, 10, 30, 0x1000);
    maker_call(&maker, 2, cudaMalloc, 15, 20, 0x1000, 2);
    maker_call(&maker, 2, cudaFree, 40, 41, 0x1000);
    collect();
    assert_string_equal(maker_ask(&maker,
                                  "SELECT group_concat(size||':'||start_ns||'-'||end_ns||"
                                  "'/'||end_call) FROM (SELECT * FROM allocation ORDER BY id)"),
                        "1:1-10/3,2:15-40/4");
}

static void test_address_reused_free_unseen(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaMalloc, 1, 2, 0x1000, 1);
    maker_call(&maker, 1, cudaMalloc, 15, 20, 0x1000, 2);
    collect();
    assert_string_equal(maker_ask(&maker, "SELECT size||' '||end_ns||' '||end_reason||"
                                          "IFNULL(free_api,'-') FROM allocation WHERE id=1"),
                        "1 15 2-");
    assert_string_equal(
        maker_ask(&maker, "SELECT size||IFNULL(end_ns,'-') FROM allocation WHERE id=2"), "2-");
}

static void test_device_reset(void **state) {
    (void)state;
    maker_call_with(&maker, 1, cudaMalloc, 1, 2, 0, 0, 0, 0, 0x1000, 1);
    maker_call_with(&maker, 1, cudaMalloc, 3, 4, 0, 0, 0, 1, 0x2000, 1);
    maker_call_with(&maker, 1, cudaDeviceReset, 5, 6, 0, 0, 0, 1, 0);
    maker_call_with(&maker, 1, cudaMalloc, 7, 8, 0, 0, 0, 1, 0x3000, 1);
    collect();
    assert_string_equal(life("0x1000"), "1 1 1 - -");
    assert_string_equal(life("0x2000"), "1 1 3 5 1");
    assert_string_equal(life("0x3000"), "1 1 7 - -");
    assert_string_equal(
        maker_ask(&maker, "SELECT free_api FROM all_allocation WHERE address=0x2000"),
        "cudaDeviceReset");
}

/* The program called the outermost; a commit may lie between them, and before. */
static void test_nested_free_is_the_outermost_ones(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaMalloc, 1, 2, 0x1000, 64);
    maker_call(&maker, 1, cudaMalloc, 3, 4, 0x2000, 64);
    maker_call(&maker, 2, cudaMalloc, 5, 15, 0x2000, 128); /* that one's free is still to come */
    maker_call_with(&maker, 1, cuMemFree_v2, 11, 12, 0, LS_CALL_NESTED | LS_CALL_CUPTI, 0, 0,
                    0x1000);
    maker_call(&maker, 1, cudaFree, 10, 13, 0x1000);
    maker_call_with(&maker, 1, cuMemFree_v2, 22, 23, 0, LS_CALL_NESTED, 0, 0, 0x2000);
    maker_call_with(&maker, 1, cudaFreeAsync, 21, 24, 0, LS_CALL_NESTED, 0, 0, 0x2000, 0);
    maker_call(&maker, 1, cudaFree, 20, 25, 0x2000);
    maker_call(&maker, 1, cudaMalloc, 30, 31, 0x1000, 32);
    maker_call(&maker, 1, cudaFree, 40, 41, 0x1000);
    collect();
    assert_string_equal(
        maker_ask(&maker,
                  "SELECT group_concat(size||' '||free_api||' '||end_ns||' '||end_call, ';') "
                  "FROM (SELECT * FROM all_allocation ORDER BY start_ns)"),
        "64 cudaFree 10 4;128 cudaFree 20 8;32 cudaFree 40 10");
}

/* The inner one was committed when the outer one came. */
static void test_nested_free_across_a_commit(void **state) {
    char why[512];
    struct ls_spool *spool = calloc(1, sizeof *spool);
    struct ls_ingest *ingest = calloc(1, sizeof *ingest);
    teardown(state);
    setup_alive(state);
    assert_int_equal(ls_spool_open(spool, maker.spool, why, sizeof why), LS_SPOOL_OK);
    assert_true(ls_ingest_open(ingest, spool, why, sizeof why));
    maker_call(&maker, 1, cudaMalloc, 1, 2, 0x1000, 64);
    maker_call_with(&maker, 1, cuMemFree_v2, 11, 12, 0, LS_CALL_NESTED, 0, 0, 0x1000);
    assert_true(ls_ingest_drain(ingest, true, why, sizeof why) >= 0);
    assert_string_equal(maker_ask(&maker, "SELECT free_api FROM all_allocation"), "cuMemFree_v2");
    maker_call(&maker, 1, cudaFree, 10, 13, 0x1000);
    assert_true(ls_ingest_drain(ingest, true, why, sizeof why) >= 0);
    assert_string_equal(maker_ask(&maker, "SELECT free_api||end_ns||end_call FROM all_allocation"),
                        "cudaFree103");
    ls_ingest_close(ingest);
    ls_spool_close(spool);
    free(ingest);
    free(spool);
}

/* One allocation that two recorded calls of the thread made, one inside the other. */
static void test_nested_allocation_counts_once(void **state) {
    (void)state;
    maker_call_with(&maker, 1, cudaHostAlloc, 2, 3, 0, LS_CALL_NESTED, 0, 0, 0x1000, 64, 0);
    maker_call(&maker, 1, cudaMallocHost, 1, 4, 0x1000, 64);
    maker_call(&maker, 1, cudaFreeHost, 5, 6, 0x1000);
    collect();
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM allocation"), 1);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM live_allocation"), 0);
}

static void test_what_else_is_told(void **state) {
    (void)state;
    maker_text(&maker, 1, LS_REC_META, "exe", "/bin/x", NULL);
    maker_text(&maker, 1, LS_REC_META, "ended", "never", NULL); /* not the target's to say */
    maker_text(&maker, 1, LS_REC_COVERAGE, "cudart", "on", "interposed");
    maker_kernel(&maker, 1, 3, "_Z3addPfi");
    maker_kernel(&maker, 1, 4, "plain");
    maker_lost(&maker, 1, LS_LOST_CAP, 5, 10, 20);
    maker.header->lost[LS_LOST_CAP] = 7; /* two that no record told */
    maker.header->lost[LS_LOST_THREADS] = 1;
    maker.header->state = LS_RUN_CLOSING;
    maker_call(&maker, 1, cudaDeviceSynchronize, 1000, 2000, 0);
    collect();
    assert_string_equal(maker_ask(&maker, "SELECT demangled FROM kernel WHERE id=3"),
                        "add(float*, int)");
    assert_string_equal(maker_ask(&maker, "SELECT demangled FROM kernel WHERE id=4"), "plain");
    assert_string_equal(maker_ask(&maker, "SELECT value FROM meta WHERE key='exe'"), "/bin/x");
    assert_string_equal(maker_ask(&maker, "SELECT value FROM meta WHERE key='ended'"), "exit");
    assert_string_equal(maker_ask(&maker, "SELECT value FROM meta WHERE key='end_ns'"), "2000");
    assert_string_equal(maker_ask(&maker, "SELECT value FROM meta WHERE key='clock'"), "monotonic");
    assert_string_equal(maker_ask(&maker, "SELECT value FROM meta WHERE key='start_real_ns'"),
                        "1700000000000000000");
    assert_string_equal(maker_ask(&maker, "SELECT detail FROM coverage WHERE layer='cudart'"),
                        "interposed");
    assert_int_equal(maker_number(&maker, "SELECT count FROM lost_event WHERE reason='spool-cap'"),
                     7);
    assert_int_equal(maker_number(&maker, "SELECT count FROM lost_event WHERE reason='threads'"),
                     1);
    assert_int_equal(maker_number(&maker, "SELECT start_ns FROM lost WHERE count=5"), 10);
    assert_string_equal(maker_ask(&maker, "SELECT name FROM thread WHERE id=1"), "t1");
}

static void test_killed(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaDeviceSynchronize, 1, 2, 0);
    collect();
    assert_string_equal(maker_ask(&maker, "SELECT value FROM meta WHERE key='ended'"), "unknown");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM coverage WHERE layer='end'"), 1);
}

/* No call at all is a trace too. */
static void test_empty(void **state) {
    (void)state;
    collect();
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM call"), 0);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM api"), LS_API_COUNT - 1);
}

/* A trace of another recording is in the way. */
static void test_output_is_not_ours(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaDeviceSynchronize, 1, 2, 0);
    collect();
    struct maker second;
    maker_open(&second, false);
    strcpy(second.header->trace_path, maker.trace);
    second.header->clock[0].real_ns++;
    maker_call(&second, 1, cudaDeviceSynchronize, 1, 2, 0);
    assert_int_equal(maker_collect(&second), LS_EXIT_OUTPUT);
    assert_int_equal(access(second.spool, F_OK), 0);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM call"), 1);
    maker_close(&second);
}

static void test_output_folder_is_gone(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaDeviceSynchronize, 1, 2, 0);
    strcpy(maker.header->trace_path, "/nonexistent/t.db");
    assert_int_equal(maker_collect(&maker), LS_EXIT_OUTPUT);
    assert_int_equal(access(maker.spool, F_OK), 0);
    strcpy(maker.header->trace_path, maker.trace);
    collect();
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM call"), 1);
}

/* No room for the trace: what was not committed stays in the spool for a later reader. */
static void test_no_room(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 20000; i++)
        maker_call(&maker, 1, cudaMalloc, 10 * i, 10 * i + 1, 0x1000 * (i + 1), 8);
    for (rlim_t room = 64 << 10; room <= 1024 << 10; room *= 2) {
        pid_t pid = fork();
        int status;
        if (pid == 0) {
            signal(SIGXFSZ, SIG_IGN);
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){room, room});
            _exit(maker_collect(&maker));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), LS_EXIT_OUTPUT);
        assert_int_equal(access(maker.spool, F_OK), 0);
    }
    collect();
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM call"), 20000);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM live_allocation"), 20000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_calls),
        TEST(test_lifetimes),
        TEST(test_address_reused_across_threads),
        TEST(test_address_reused_free_unseen),
        TEST(test_device_reset),
        TEST(test_nested_allocation_counts_once),
        TEST(test_nested_free_is_the_outermost_ones),
        TEST(test_nested_free_across_a_commit),
        TEST(test_what_else_is_told),
        TEST(test_killed),
        TEST(test_empty),
        TEST(test_output_is_not_ours),
        TEST(test_output_folder_is_gone),
        TEST(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
