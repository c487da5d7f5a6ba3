/*
 * test_gpu.c - what the GPU did: each record with its call, its times and its names, once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "collect.h"
#include "spool_fixture.h"

#define CUPTI_THREAD 9 /* hands the buffers over */
#define DEVICE 0x10000
#define HOST 0x70000

/* The two clocks are MADE_GPU apart, and kernel 1 has a name. */
static int setup_clock(void **state) {
    setup(state);
    maker_gpu_clock(&maker, CUPTI_THREAD, 0, 20, 0);
    maker_kernel(&maker, CUPTI_THREAD, 1, "_ZN2at6native6reduceIfLi4EEEvPT_i");
    return 0;
}

static const char *run(uint64_t start) {
    char sql[300];
    snprintf(sql, sizeof sql,
             "SELECT status||' '||IFNULL(call_id,'-')||' '||IFNULL(queued_ns,'-')||' '||"
             "IFNULL(under_call,'-') FROM kernel_run WHERE start_ns=%llu",
             (unsigned long long)start);
    return maker_ask(&maker, sql);
}

static const char *counts(void) {
    return maker_ask(&maker, "SELECT group_concat(kind||':'||status||':'||count||':'||total_ns) "
                             "FROM (SELECT * FROM gpu_count ORDER BY kind, status)");
}

static void test_kernel(void **state) {
    (void)state;
    maker_launch(&maker, 1, 1000, 1100, 0, 17);
    maker_gpu_clock(&maker, CUPTI_THREAD, 9000, 20, 9000);
    maker_kernel_run(&maker, CUPTI_THREAD, 1500, 1800, 17);
    collect();
    assert_string_equal(run(1500), "matched 1 400 -");
    assert_string_equal(
        maker_ask(&maker, "SELECT demangled||'|'||short||'|'||name||'|'||grid||'|'||block||'|'||"
                          "shared_bytes||'|'||stream||'|'||duration_ns||'|'||launch_ns||'|'||site "
                          "FROM kernel_run"),
        "void at::native::reduce<float, 4>(float*, int)|reduce|_ZN2at6native6reduceIfLi4EEEvPT_i|"
        "2,3,4|5,0,0|6|7|300|1000|site unknown");
    assert_string_equal(counts(), "kernel:matched:1:300");
    assert_string_equal(maker_ask(&maker, "SELECT short||' '||count||' '||total_ns||' '||min_ns||' "
                                          "'||max_ns||' '||share FROM gpu_time"),
                        "reduce 1 300 300 300 1.0");
    assert_string_equal(maker_ask(&maker, "SELECT correlation||' '||context||' '||flags||' '||"
                                          "seen_by FROM api_call"),
                        "17 1 0 hook");
    assert_string_equal(maker_ask(&maker, "SELECT value FROM meta WHERE key='gpu_clock_pairs'"),
                        "2");
    assert_string_equal(maker_ask(&maker, "SELECT value FROM meta WHERE key='gpu_clock_error_ns'"),
                        "10");
    assert_string_equal(
        maker_ask(&maker, "SELECT COUNT(*) FROM sqlite_master WHERE name='raw_gpu'"), "0");
    assert_string_equal(maker_ask(&maker, "SELECT value FROM meta WHERE key='end_ns'"), "1800");
}

/* Ahead of its call, and of the clock that its thread has not read since. */
static void test_before_its_call(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 50; i++)
        maker_kernel_run(&maker, CUPTI_THREAD, 1000 * i + 500, 1000 * i + 600, i % 2 ? i + 1 : 0);
    for (uint32_t i = 0; i < 50; i++)
        maker_launch(&maker, 1 + i % 3, 1000 * i, 1000 * i + 100, 0, i + 1);
    collect();
    assert_string_equal(counts(), "kernel:matched:25:2500,kernel:no call:25:2500");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM gpu_work AS w JOIN call ON call.id="
                                          "w.call WHERE call.correlation=w.correlation AND "
                                          "call.start_ns+500=w.start_ns"),
                     25);
}

/* The numbers start again: the nearest call that began before the work did. */
static void test_number_comes_again(void **state) {
    (void)state;
    const uint64_t hour = UINT64_C(3600000000000);
    maker_gpu_clock(&maker, CUPTI_THREAD, 3 * hour, 20, 3 * hour);
    maker_launch(&maker, 1, 1000, 1100, 0, 5);
    maker_launch(&maker, 1, hour, hour + 100, 0, 5);
    maker_launch(&maker, 1, 2 * hour, 2 * hour + 100, 0, 5);
    maker_kernel_run(&maker, CUPTI_THREAD, hour + 500, hour + 600, 5);
    maker_kernel_run(&maker, CUPTI_THREAD, 1500, 1600, 5);
    maker_kernel_run(&maker, CUPTI_THREAD, 2 * hour - 5000000, 2 * hour - 4000000, 5);
    maker_kernel_run(&maker, CUPTI_THREAD, 2 * hour + 500, 2 * hour + 600, 5);
    collect();
    assert_string_equal(run(1500), "matched 1 400 -");
    assert_string_equal(run(hour + 500), "matched 2 400 -");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(call) FROM (SELECT * FROM gpu_work "
                                          "ORDER BY start_ns)"),
                        "1,2,2,3");
}

static void test_invalid(void **state) {
    (void)state;
    maker_launch(&maker, 1, 1000, 1100, 0, 1);
    maker_launch(&maker, 1, 2000, 2100, 0, 2);
    maker_launch(&maker, 1, 3000, 3100, 0, 3);
    maker_gpu(&maker, CUPTI_THREAD, LS_GPU_KERNEL, 0, 0,
              (struct ls_rec_gpu){.correlation = 1, .value = {1}});
    maker_kernel_run(&maker, CUPTI_THREAD, 2600, 2500, 2);
    maker_kernel_run(&maker, CUPTI_THREAD, 3500, 3600, 3);
    maker_kernel_run(&maker, CUPTI_THREAD, 3500, INT64_MAX / 8, 3);
    collect();
    assert_string_equal(counts(), "kernel:invalid:3:0,kernel:matched:1:100");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(status||':'||call_id) FROM (SELECT *"
                                          " FROM kernel_run WHERE start_ns IS NULL AND end_ns IS "
                                          "NULL ORDER BY id)"),
                        "invalid:1,invalid:2,invalid:3");
    assert_string_equal(maker_ask(&maker, "SELECT SUM(count)||' '||SUM(untimed)||' '||SUM(total_ns)"
                                          " FROM gpu_time"),
                        "1 3 100");
    assert_string_equal(maker_ask(&maker, "SELECT state FROM coverage WHERE layer='gpu-times' AND "
                                          "detail LIKE '3 kernel: CUPTI gave no valid times%'"),
                        "partial");
}

static void test_no_clock(void **state) {
    (void)state;
    maker_launch(&maker, 1, 1000, 1100, 0, 1);
    maker_kernel_run(&maker, 8, 1500, 1600, 1);
    collect();
    assert_string_equal(counts(), "kernel:invalid:1:0");
}

static void test_unmatched(void **state) {
    (void)state;
    maker_launch(&maker, 1, 1000, 1100, 0, 1);
    maker_kernel_run(&maker, CUPTI_THREAD, 1500, 1600, 77);
    maker_gpu(&maker, CUPTI_THREAD, LS_GPU_OVERHEAD, 0, 0,
              (struct ls_rec_gpu){
                  .start = MADE_GPU + 10, .end = MADE_GPU + 30, .value = {1u << 16, 2, 3}});
    collect();
    assert_string_equal(counts(), "kernel:unmatched:1:100,overhead:no call:1:20");
    assert_string_equal(run(1500), "unmatched - - -");
    assert_string_equal(maker_ask(&maker, "SELECT overhead||' '||duration_ns FROM gpu_overhead"),
                        "buffer flush 20");
    assert_string_equal(maker_ask(&maker, "SELECT state FROM coverage WHERE layer='gpu-times' AND "
                                          "detail LIKE '1 kernel: their calls%'"),
                        "partial");
}

static void test_graph(void **state) {
    (void)state;
    maker_call_numbered(&maker, 1, cudaGraphLaunch, 1000, 1100, 0, 0, 4, 0x99, 0);
    for (uint64_t node = 1; node <= 3; node++)
        maker_gpu(&maker, CUPTI_THREAD, LS_GPU_KERNEL, 0, 0,
                  (struct ls_rec_gpu){.start = MADE_GPU + 1000 * node + 500,
                                      .end = MADE_GPU + 1000 * node + 600,
                                      .correlation = 4,
                                      .graph = 12,
                                      .node = node << 33,
                                      .value = {1}});
    maker_gpu(&maker, CUPTI_THREAD, LS_GPU_COPY, 0, 0,
              (struct ls_rec_gpu){.start = MADE_GPU + 5000,
                                  .end = MADE_GPU + 5010,
                                  .correlation = 4,
                                  .graph = 12,
                                  .node = 9,
                                  .value = {64, 8}});
    maker_gpu(&maker, CUPTI_THREAD, LS_GPU_GRAPH, 0, 0,
              (struct ls_rec_gpu){
                  .start = MADE_GPU + 1500, .end = MADE_GPU + 5010, .correlation = 4, .graph = 12});
    collect();
    assert_string_equal(counts(), "copy:graph:1:10,graph:graph:1:3510,kernel:graph:3:300");
    assert_string_equal(maker_ask(&maker,
                                  "SELECT group_concat(status||call_id||':'||graph||':'||"
                                  "(node>>33)) FROM (SELECT * FROM kernel_run ORDER BY start_ns)"),
                        "graph1:12:1,graph1:12:2,graph1:12:3");
    assert_string_equal(maker_ask(&maker, "SELECT graph||' '||duration_ns||' '||launch_ns FROM "
                                          "graph_run"),
                        "12 3510 1000");
}

/* Launched inside a library's call: the outermost one; and one inside of nothing. */
static void test_under_a_library(void **state) {
    const uint64_t address[] = {0x401000};
    (void)state;
    maker_module(&maker, 1, 0, 0x400000, 0x400000, 0x500000, "/no/such/module", NULL, 0);
    maker_stack(&maker, 1, 1, 0, 1, address);
    maker_kernel_run(&maker, 8, 100, 200, 1); /* ahead of all of it, but without a clock's moment */
    maker_launch(&maker, 1, 1100, 1110, LS_CALL_NESTED, 1);
    maker_call_with(&maker, 1, cublasCreate_v2, 1050, 1200, 0, LS_CALL_NESTED, 0, 0, 0x5);
    maker_launch(&maker, 1, 1300, 1310, LS_CALL_NESTED | LS_CALL_CUPTI, 2);
    maker_call_with(&maker, 1, cublasDestroy_v2, 1000, 1400, 1, 0, 0, 0, 0x5);
    maker_launch(&maker, 1, 1500, 1510, 0, 3);
    maker_launch(&maker, 1, 1600, 1610, LS_CALL_NESTED, 4); /* its outer call is not recorded */
    maker_launch(&maker, 1, 1700, 1710, 0, 5);
    maker_launch(&maker, 2, 1800, 1810, LS_CALL_NESTED, 6); /* and this one's never returns */
    for (uint32_t i = 1; i <= 6; i++)
        maker_kernel_run(&maker, CUPTI_THREAD, 2000 + 10 * i, 2005 + 10 * i, i);
    collect();
    assert_string_equal(run(2010), "matched 1 900 cublasDestroy_v2");
    assert_string_equal(run(2020), "matched 3 710 cublasDestroy_v2");
    assert_string_equal(run(2030), "matched 5 520 -");
    assert_string_equal(run(2040), "matched 6 430 -");
    assert_string_equal(run(2050), "matched 7 340 -");
    assert_string_equal(run(2060), "matched 8 250 -");
    assert_string_equal(maker_ask(&maker, "SELECT site FROM kernel_run WHERE start_ns=2010"),
                        "module+0x1000");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(count||':'||IFNULL((SELECT name FROM"
                                          " api WHERE id=under),'-')) FROM (SELECT * FROM "
                                          "kernel_total WHERE count>0 ORDER BY under)"),
                        "4:-,2:cublasDestroy_v2");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM api_call WHERE seen_by='cupti' AND "
                                          "flags=9"),
                     1);
}

/* Rows for the first few; totals of all. */
static void test_budget(void **state) {
    (void)state;
    setenv("LAYOUTSPY_KERNEL_ROWS", "3", 1);
    for (uint32_t i = 1; i <= 10; i++) {
        maker_launch(&maker, 1, 1000 * i, 1000 * i + 100, 0, i);
        maker_kernel_run(&maker, CUPTI_THREAD, 1000 * i + 500, 1000 * i + 500 + i, i);
    }
    collect();
    unsetenv("LAYOUTSPY_KERNEL_ROWS");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM kernel_run"), 3);
    assert_string_equal(maker_ask(&maker, "SELECT count||' '||total_ns||' '||min_ns||' '||max_ns "
                                          "FROM gpu_time"),
                        "10 55 1 10");
    assert_string_equal(counts(), "kernel:matched:10:55");
    assert_string_equal(maker_ask(&maker, "SELECT state||' '||detail FROM coverage WHERE "
                                          "layer='kernels'"),
                        "partial 3 of 10 runs have rows of their own (LAYOUTSPY_KERNEL_ROWS); all "
                        "are in kernel_total");
}

static void test_gaps(void **state) {
    (void)state;
    maker_launch(&maker, 1, 10, 20, 0, 0);
    maker_gpu_state(&maker, 1, 100, LS_GPU_STATE_ON, "");
    maker_launch(&maker, 1, 200, 210, 0, 1);
    maker_gpu_state(&maker, 1, 300, LS_GPU_STATE_OFF, "another CUPTI client");
    maker_launch(&maker, 1, 400, 410, 0, 0);
    maker_call(&maker, 1, cudaMemcpy, 450, 460, DEVICE, HOST, 64, 1);
    maker_gpu_state(&maker, 1, 500, LS_GPU_STATE_ON, "");
    maker_gpu_state(&maker, 1, 900, LS_GPU_STATE_OFF, "the end");
    collect();
    assert_string_equal(
        maker_ask(&maker, "SELECT group_concat(start_ns||'-'||IFNULL(end_ns,'')||' '||reason, ';') "
                          "FROM (SELECT * FROM cupti_gap ORDER BY start_ns)"),
        "10-100 CUPTI was not on yet;300-500 another CUPTI client;900- the end");
    assert_string_equal(maker_ask(&maker, "SELECT detail FROM coverage WHERE layer='gpu-times'"),
                        "2 launches and 1 copy have no GPU times: nothing came from CUPTI for "
                        "when they began (cupti_gap)");
}

/* What CUPTI had, and did not hand over: to the end of a program without exit handlers alone. */
static const char *untold(void) {
    maker_gpu_state(&maker, 1, 100, LS_GPU_STATE_ON, "start");
    maker_launch(&maker, 1, 200, 210, 0, 1);
    maker_kernel_run(&maker, CUPTI_THREAD, 220, 230, 1);
    maker_launch(&maker, 1, 300, 310, 0, 2);
    maker_call(&maker, 1, cudaMemcpy, 350, 360, DEVICE, HOST, 64, 1);
    collect();
    return maker_ask(&maker, "SELECT group_concat(start_ns||'-'||IFNULL(end_ns,'')||' '||reason) "
                             "FROM cupti_gap WHERE reason NOT LIKE '%yet'");
}

static void test_killed(void **state) {
    (void)state;
    assert_string_equal(untold(),
                        "230- the program ended before CUPTI had handed over what came last");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(state||' '||detail, ';') FROM "
                                          "(SELECT * FROM coverage WHERE layer='gpu-times' "
                                          "ORDER BY state)"),
                        "on of 1 kernels, copies and memsets, within 10 ns of the host's clock;"
                        "partial 1 launch and 1 copy have no GPU times: nothing came from CUPTI "
                        "for when they began (cupti_gap)");
}

static void test_exited(void **state) {
    (void)state;
    maker.header->state = LS_RUN_CLOSING;
    assert_string_equal(untold(), "");
}

static void gpu_copy(uint64_t from, uint64_t to, unsigned src, unsigned dst, uint64_t kind,
                     uint32_t correlation) {
    maker_gpu(&maker, CUPTI_THREAD, LS_GPU_COPY, LS_GPU_ASYNC, LS_KINDS(src, dst),
              (struct ls_rec_gpu){.start = MADE_GPU + from,
                                  .end = MADE_GPU + to,
                                  .correlation = correlation,
                                  .value = {64, kind}});
}

static const char *copy(uint64_t start) {
    char sql[200];
    snprintf(sql, sizeof sql,
             "SELECT src_kind||'>'||dst_kind||' '||direction||' '||IFNULL(gpu_ns,'-') FROM "
             "all_copy WHERE start_ns=%llu",
             (unsigned long long)start);
    return maker_ask(&maker, sql);
}

#define copied(start, flags, correlation, dst, src, kind)                                          \
    maker_call_numbered(&maker, 1, cudaMemcpyAsync, start, (start) + 5, flags, 0, correlation,     \
                        dst, src, 64, kind, 0)

/* Time, in as many parts as it was made; CUPTI's word on what the hooks did not know. */
static void test_copies(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaMalloc, 1, 2, DEVICE, 4096);
    maker_call(&maker, 1, cudaMallocManaged, 3, 4, 0x30000, 4096, 1);
    copied(100, 0, 1, DEVICE, HOST, 1);
    copied(200, LS_CALL_CAPTURING, 2, DEVICE, HOST, 4);
    copied(300, 0, 3, DEVICE, HOST, 4);    /* thought to be pageable, is memory of the device */
    copied(400, 0, 4, DEVICE, 0x30000, 4); /* managed: ours is the finer word */
    copied(500, 0, 5, DEVICE, HOST, 1);
    gpu_copy(1000, 1010, LS_GPU_MEMORY_PINNED, LS_GPU_MEMORY_DEVICE, 1, 1);
    gpu_copy(1020, 1035, LS_GPU_MEMORY_PINNED, LS_GPU_MEMORY_DEVICE, 1, 1);
    gpu_copy(0, 0, LS_GPU_MEMORY_PINNED, LS_GPU_MEMORY_DEVICE, 1, 1);
    gpu_copy(2000, 2001, LS_GPU_MEMORY_PAGEABLE, LS_GPU_MEMORY_DEVICE_STATIC, 1, 2);
    gpu_copy(3000, 3002, LS_GPU_MEMORY_DEVICE, LS_GPU_MEMORY_DEVICE, 8, 3);
    gpu_copy(4000, 4003, LS_GPU_MEMORY_DEVICE, LS_GPU_MEMORY_DEVICE, 8, 4);
    maker_gpu(&maker, CUPTI_THREAD, LS_GPU_COPY, 0, 0, (struct ls_rec_gpu){.correlation = 5});
    collect();
    assert_string_equal(copy(100), "pinned>device H2D 25");
    assert_string_equal(copy(200), "pageable>device H2D 1");
    assert_string_equal(copy(300), "device>device D2D 2");
    assert_string_equal(copy(400), "managed>device D2D 3");
    assert_string_equal(copy(500), "pageable>device H2D -");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(src_kind||direction||bytes||status) "
                                          "FROM (SELECT * FROM gpu_copy ORDER BY id LIMIT 1)"),
                        "pinnedH2D64matched");
}

/* A call that only passed another one on is the same copy, memory or release. */
static void test_passed_on(void **state) {
    (void)state;
    maker_call_with(&maker, 1, cudaMallocAsync, 12, 14, 0, LS_CALL_NESTED | LS_CALL_CUPTI, 0, 0,
                    DEVICE, 4096, 0);
    maker_call_with(&maker, 1, cudaMalloc, 10, 16, 0, 0, 0, 0, DEVICE, 4096);
    copied(102, LS_CALL_NESTED | LS_CALL_CUPTI, 1, DEVICE, HOST, 1);
    maker_call_numbered(&maker, 1, cudaMemcpy, 100, 110, 0, 0, 2, DEVICE, HOST, 64, 1);
    copied(202, LS_CALL_NESTED, 3, DEVICE, HOST, 1);
    maker_call_numbered(&maker, 1, cudaMemcpy, 200, 210, 0, 0, 4, DEVICE, HOST, 64, 1);
    gpu_copy(1000, 1010, LS_GPU_MEMORY_PAGEABLE, LS_GPU_MEMORY_DEVICE, 1, 1);
    gpu_copy(1020, 1025, LS_GPU_MEMORY_PAGEABLE, LS_GPU_MEMORY_DEVICE, 1, 4);
    maker_call_with(&maker, 1, cudaFreeAsync, 302, 304, 0, LS_CALL_NESTED | LS_CALL_CUPTI, 0, 0,
                    DEVICE, 0);
    maker_call_with(&maker, 1, cudaFree, 300, 306, 0, 0, 0, 0, DEVICE);
    collect();
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(api||':'||gpu_ns) FROM all_copy"),
                        "cudaMemcpy:10,cudaMemcpyAsync:5");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(api||':'||start_ns||':'||end_ns) "
                                          "FROM all_allocation"),
                        "cudaMalloc:12:300");
}

static void test_other_kinds(void **state) {
    (void)state;
    maker_call_numbered(&maker, 1, cudaDeviceSynchronize, 100, 200, 0, 0, 1, 0);
    maker_gpu(&maker, CUPTI_THREAD, LS_GPU_SYNC, 0, 0,
              (struct ls_rec_gpu){
                  .start = MADE_GPU + 110, .end = MADE_GPU + 190, .correlation = 1, .value = {4}});
    maker_gpu(&maker, CUPTI_THREAD, LS_GPU_SET, LS_GPU_ASYNC, LS_KINDS(LS_GPU_MEMORY_DEVICE, 0),
              (struct ls_rec_gpu){
                  .start = MADE_GPU + 210, .end = MADE_GPU + 220, .value = {UINT64_MAX, 255}});
    maker_gpu(&maker, CUPTI_THREAD, LS_GPU_MEMORY, 0, LS_KINDS(LS_GPU_MEMORY_DEVICE, 0),
              (struct ls_rec_gpu){
                  .start = MADE_GPU + 230, .end = MADE_GPU + 230, .value = {1, DEVICE, 4096, 0}});
    maker_gpu(&maker, CUPTI_THREAD, LS_GPU_POOL, 0, 0,
              (struct ls_rec_gpu){
                  .start = MADE_GPU + 240, .end = MADE_GPU + 240, .value = {3, 0x99, 8192, 16}});
    collect();
    assert_string_equal(maker_ask(&maker, "SELECT waited_for||' '||duration_ns||' '||api FROM "
                                          "gpu_wait"),
                        "device 80 cudaDeviceSynchronize");
    assert_string_equal(maker_ask(&maker, "SELECT bytes||' '||value||' '||memory||' '||is_async "
                                          "FROM gpu_set"),
                        "1125899906842624 255 device 1");
    assert_string_equal(maker_ask(&maker, "SELECT operation||' '||address||' '||bytes FROM "
                                          "gpu_memory"),
                        "allocation 65536 4096");
    assert_string_equal(maker_ask(&maker, "SELECT operation||' '||size||' '||keep FROM gpu_pool"),
                        "trimming 8192 16");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_clock, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_kernel),
        TEST(test_before_its_call),
        TEST(test_number_comes_again),
        TEST(test_invalid),
        TEST(test_unmatched),
        TEST(test_graph),
        TEST(test_under_a_library),
        TEST(test_budget),
        TEST(test_gaps),
        TEST(test_killed),
        TEST(test_exited),
        TEST(test_copies),
        TEST(test_passed_on),
        TEST(test_other_kinds),
        cmocka_unit_test_setup_teardown(test_no_clock, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
