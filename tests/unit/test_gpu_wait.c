/*
 * test_gpu_wait.c - records of the GPU that wait for calls of long ago: they find them, and how
 * many calls are read for that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ingest_internal.h"
#include "spool_fixture.h"

#define CALLS 300000
#define PART 262144 /* so many wait at most */

static struct ls_spool *spool;
static struct ls_ingest *ingest;
static int64_t read_calls;

static int count_call(unsigned type, void *context, void *stmt, void *unused) {
    (void)context, (void)unused;
    if (type == SQLITE_TRACE_ROW && strstr(sqlite3_sql(stmt), " FROM call WHERE id"))
        read_calls++;
    return 0;
}

/* An earlier collector took in launches, numbered as their ids are, 1000 ns apart. */
static int setup_calls(void **state) {
    char why[512], sql[400];
    setup_alive(state);
    spool = calloc(1, sizeof *spool);
    ingest = calloc(1, sizeof *ingest);
    assert_true(spool && ingest);
    assert_int_equal(ls_spool_open(spool, maker.spool, why, sizeof why), LS_SPOOL_OK);
    assert_true(ls_ingest_open(ingest, spool, why, sizeof why));
    snprintf(sql, sizeof sql,
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<%d) "
             "INSERT INTO call(id,start_ns,duration_ns,thread,api,status,flags,device,correlation) "
             "SELECT i,i*1000,500,1,%d,0,0,0,i FROM n",
             CALLS, LS_API_cudaLaunchKernel);
    ls_db_exec(&ingest->db, sql);
    assert_null(ls_db_error(&ingest->db));
    ingest->next_call = CALLS + 1;
    ingest->gpu.gone = true;
    ingest->gpu.rows_most = 0;
    read_calls = 0;
    sqlite3_trace_v2(ingest->db.db, SQLITE_TRACE_ROW, count_call, NULL);
    return 0;
}

static int teardown_calls(void **state) {
    ls_ingest_close(ingest);
    ls_spool_close(spool);
    free(ingest);
    free(spool);
    return teardown(state);
}

/* Work of the call of that number. */
static void wait_for(uint32_t number) {
    struct ls_gpu_work work = {.kind = LS_GPU_KERNEL,
                               .timed = true,
                               .start_ns = 1000 * (int64_t)number + 600,
                               .end_ns = 1000 * (int64_t)number + 700,
                               .correlation = number};
    ls_gpu_wait_add(ingest, &work);
}

static int64_t settled(enum ls_gpu_join join) {
    return ingest->gpu.count[LS_GPU_KERNEL][join];
}

/* None has a call: what was read once is read at the end alone. */
static void test_calls_missing(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 3 * PART; i++)
        wait_for(CALLS + 1 + i);
    assert_int_equal(settled(LS_GPU_UNMATCHED), 2 * PART);
    assert_in_range(read_calls, CALLS, CALLS + 2 * 20000);
    ls_gpu_wait_end(ingest);
    assert_int_equal(settled(LS_GPU_UNMATCHED), 3 * PART);
    assert_in_range(read_calls, 2 * CALLS, 2 * CALLS + 2 * 20000);
}

/* The next calls are read, as far as they have come. */
static void test_calls_come(void **state) {
    (void)state;
    for (uint32_t i = 0; i <= PART; i++)
        wait_for(CALLS + 1 + i);
    assert_int_equal(settled(LS_GPU_UNMATCHED), PART);
    ls_db_exec(&ingest->db,
               "INSERT INTO call SELECT id+300000,start_ns+300000000,duration_ns,thread,"
               "api,status,flags,device,stack,correlation+300000,context,NULL,NULL,NULL,"
               "NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL FROM call WHERE id<=300000");
    assert_null(ls_db_error(&ingest->db));
    ingest->next_call += 300000;
    for (uint32_t i = 1; i < PART; i++)
        wait_for(CALLS + 1 + i);
    wait_for(1);
    assert_int_equal(settled(LS_GPU_UNMATCHED), PART);
    assert_int_equal(settled(LS_GPU_MATCHED), PART);
    assert_in_range(read_calls, CALLS + 300000, CALLS + 300000 + 20000);
}

/* Two buffers, of the same calls, each of more records than may wait: all are late, none lost. */
static void test_late(void **state) {
    (void)state;
    for (int times = 0; times < 2; times++)
        for (uint32_t i = 1; i <= CALLS; i++)
            wait_for(i);
    ls_gpu_wait_end(ingest);
    assert_int_equal(settled(LS_GPU_MATCHED), 2 * CALLS);
    assert_int_equal(settled(LS_GPU_UNMATCHED), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_calls, teardown_calls)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_calls_missing),
        TEST(test_calls_come),
        TEST(test_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
