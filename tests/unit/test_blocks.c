/*
 * test_blocks.c - reports of a framework's allocator: blocks, segments, what is pending, totals.
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
#include "spool_maker.h"
#include "trace.h"

#define REPORT LS_API__ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
#define MIB (UINT64_C(1) << 20)
#define C10_STACK 1   /* innermost frame in libc10_cuda.so */
#define OTHER_STACK 2 /* in a library of the program */
#define DEEP_STACK 3  /* as C10_STACK, from further inside of the same call into libc10_cuda.so */
#define GUARD_STACK 4 /* in libc10_cuda.so, by another call: of an event of the program's own */
#define EVENT 0xe0

static struct maker maker;
static uint64_t now;
static struct { int64_t allocated, reserved; } total[2];

static void modules(void) {
    maker_module(&maker, 1, 0, 0x100000, 0x100000, 0x200000, "/lib/libc10_cuda.so", NULL, 0);
    maker_module(&maker, 1, 0, 0x300000, 0x300000, 0x400000, "/lib/libuser.so", NULL, 0);
    maker_stack(&maker, 1, C10_STACK, 0, 2, (const uint64_t[]){0x100100, 0x300100});
    maker_stack(&maker, 1, OTHER_STACK, 0, 1, (const uint64_t[]){0x300100});
    maker_stack(&maker, 1, DEEP_STACK, 0, 4,
                (const uint64_t[]){0x100500, 0x100600, 0x100200, 0x300100});
    maker_stack(&maker, 1, GUARD_STACK, 0, 3, (const uint64_t[]){0x100700, 0x300200, 0x300100});
}

static int open_with(bool alive) {
    maker_open(&maker, alive);
    memset(total, 0, sizeof total);
    now = 0;
    modules();
    return 0;
}

static int setup(void **state) {
    (void)state;
    return open_with(false);
}

static int setup_alive(void **state) {
    (void)state;
    return open_with(true);
}

static int teardown(void **state) {
    (void)state;
    maker_close(&maker);
    return 0;
}

#define CALL(thread, api, stack, flags, device, ...)                                               \
    (now += 10, maker_call_flags(&maker, thread, LS_API_##api, now, now + 4, 0, stack, flags, 0,   \
                                 device, (const uint64_t[LS_FIELD_MAX]){__VA_ARGS__}))

static void report_from(uint32_t stack, unsigned thread, unsigned device, uint64_t address,
                        int64_t size, unsigned flags) {
    total[device].allocated += size;
    now += 10;
    maker_call_flags(&maker, thread, REPORT, now, now + 4, 0, stack, flags, 0, device,
                     (const uint64_t[LS_FIELD_MAX]){address, (uint64_t)size,
                                                    (uint64_t)total[device].allocated,
                                                    (uint64_t)total[device].reserved, device});
}

static void report(unsigned thread, unsigned device, uint64_t address, int64_t size,
                   unsigned flags) {
    report_from(C10_STACK, thread, device, address, size, flags);
}

static void segment(unsigned thread, unsigned device, uint64_t address, uint64_t size) {
    CALL(thread, cudaMalloc, C10_STACK, 0, device, address, size);
    total[device].reserved += (int64_t)size;
}

static void record(unsigned thread, uint64_t event, uint32_t stack) {
    CALL(thread, cudaEventRecord, stack, 0, 0, event, 0x77);
}

static void query(unsigned thread, uint64_t event, int status) {
    now += 10;
    maker_call_flags(&maker, thread, LS_API_cudaEventQuery, now, now + 4, status, 0, 0, 0, 0,
                     (const uint64_t[LS_FIELD_MAX]){event});
}

static void collect(void) {
    assert_int_equal(maker_collect(&maker), LS_EXIT_OK);
    assert_string_equal(maker_ask(&maker, "PRAGMA integrity_check"), "ok");
}

/* A collector takes what there is, and ends. */
static void drain(void) {
    char why[512];
    assert_int_equal(ls_collect_once(maker.spool, maker.trace, 0, why, sizeof why),
                     LS_COLLECTED_LIVE);
}

static void check_sound(int64_t reports) {
    assert_int_equal(maker_number(&maker, "SELECT value FROM meta WHERE key='blocks.reports'"),
                     reports);
    assert_string_equal(
        maker_ask(&maker, "SELECT state||detail FROM coverage WHERE layer='pytorch-blocks' AND "
                          "state<>'on'"),
        "(none)");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM memory WHERE reserved IS NOT NULL"),
                     reports);
}

static const char *blocks(void) {
    return maker_ask(&maker, "SELECT group_concat(start_ns||'-'||IFNULL(end_ns,'')||'-'||"
                             "IFNULL(free_ns,'')||':'||IFNULL(waited,'?')) FROM "
                             "(SELECT * FROM block ORDER BY id)");
}

static void test_blocks_and_segments(void **state) {
    (void)state;
    segment(1, 0, 0x10000000, 20 * MIB); /* 10 */
    report(1, 0, 0x10000000, 3 * MIB, 0);
    report(2, 0, 0x10300000, 512, 0);
    segment(2, 1, 0x50000000, 2 * MIB);
    report(2, 1, 0x50000000, 1024, 0);
    report(2, 0, 0x10000000, -3 * (int64_t)MIB, 0);
    CALL(1, cudaMalloc, OTHER_STACK, 0, 0, 0x70000000, 64); /* the program's own */
    report(1, 1, 0x50000000, -1024, 0);
    CALL(1, cudaFree, C10_STACK, 0, 1, 0x50000000);
    total[1].reserved = 0;
    segment(1, 1, 0x50000000, 2 * MIB);
    report(1, 1, 0x50000200, 512, 0);
    collect();
    check_sound(6);
    assert_string_equal(blocks(), "20-60-60:0,30--:?,50-80-80:0,110--:?");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(printf('%x',segment)) FROM block"),
                        "10000000,10000000,50000000,50000000");
    assert_string_equal(
        maker_ask(&maker, "SELECT group_concat(printf('%x',address)||kind||IFNULL(end_ns,'')) FROM "
                          "segment"),
        "10000000native,50000000native90,50000000native");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(holder) FROM allocation"),
                        "3,3,1,3");
    assert_string_equal(
        maker_ask(&maker, "SELECT group_concat(gap) FROM reserved_gap WHERE device=0"),
        "17825792,17825280,20971008");
    assert_string_equal(maker_ask(&maker, "SELECT value FROM meta WHERE key='allocator'"),
                        "native");
}

static void test_without_stacks(void **state) {
    (void)state;
    CALL(1, cudaMalloc, 0, 0, 0, 0x10000000, 2 * MIB);
    total[0].reserved = 2 * MIB;
    report_from(0, 1, 0, 0x10000000, 512, 0);
    CALL(1, cudaMalloc, 0, 0, 0, 0x20000000, 64);
    report_from(0, 1, 0, 0x10000200, 512, 0); /* 40 */
    record(1, EVENT, 0);                      /* whose? */
    report_from(0, 1, 0, 0x10000000, -512, 0);
    report_from(0, 1, 0, 0x10000200, -512, 0);
    collect();
    check_sound(4);
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(holder) FROM allocation"), "3,0");
    assert_string_equal(blocks(), "20-60-60:?,40-70-70:0");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM block_wait"), 0);
}

static void test_pending(void **state) {
    (void)state;
    segment(1, 0, 0x10000000, 2 * MIB);
    report(1, 0, 0x10000000, 512, 0);
    report(1, 0, 0x10000200, 512, 0);
    report(1, 0, 0x10000400, 512, 0); /* 40 */
    record(1, 0x99, OTHER_STACK);     /* the program's own */
    report(1, 0, 0x10000000, -512, 0);
    CALL(1, cudaSetDevice, 0, 0, 0, 0);
    record(1, EVENT, C10_STACK);
    CALL(1, cudaEventCreateWithFlags, 0, 0, 0, EVENT + 1, 2);
    record(1, EVENT + 1, C10_STACK);
    report(1, 0, 0x10000200, -512, 0); /* 110 */
    query(2, EVENT, 600);
    query(2, EVENT, 0);
    query(2, EVENT + 1, 600);
    report(2, 0, 0x10000600, 512, 0);
    query(1, EVENT + 1, 0);      /* 160 */
    record(1, EVENT, C10_STACK); /* by another event's user: not just before a report */
    CALL(1, cudaStreamWaitEvent, 0, 0, 0, 0x66, EVENT, 0);
    report(1, 0, 0x10000400, -512, 0); /* 190 */
    record(1, EVENT, C10_STACK);
    report(1, 0, 0x10000600, -512, 0); /* 210: pending to the end */
    collect();
    check_sound(8);
    assert_string_equal(blocks(), "20-60-60:0,30-110-164:2,40-190-190:0,150-210-:1");
    assert_string_equal(maker_ask(&maker,
                                  "SELECT group_concat(event||':'||IFNULL(done_ns,'')) FROM "
                                  "block_wait"),
                        "224:134,225:164,224:");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(pending) FROM block_lifetime"),
                        "164");
}

/* Recorded twice before the report: the second time counts. The blocks have rows already. */
static void test_an_event_twice(void **state) {
    (void)state;
    segment(1, 0, 0x10000000, 2 * MIB);
    report(1, 0, 0x10000000, 512, 0);
    report(1, 0, 0x10000200, 512, 0); /* 30 */
    drain();
    record(1, EVENT, DEEP_STACK);
    record(1, EVENT + 1, DEEP_STACK);
    record(1, EVENT, DEEP_STACK);
    report(1, 0, 0x10000000, -512, 0); /* 70 */
    query(1, EVENT + 1, 0);
    record(1, EVENT, DEEP_STACK); /* for the next block: that it passed was not seen */
    record(1, EVENT, DEEP_STACK);
    report(1, 0, 0x10000200, -512, 0); /* 110 */
    query(1, EVENT, 0);
    maker.header->image++;
    collect();
    check_sound(4);
    assert_string_equal(blocks(), "20-70-110:2,30-110-124:1");
    assert_string_equal(maker_ask(&maker,
                                  "SELECT group_concat(w.event||':'||w.done_ns||':'||"
                                  "c.start_ns) FROM block_wait AS w JOIN call AS c USING(id)"),
                        "225:84:50,224:110:60,224:124:100");
}

static void test_events_of_the_programs_own(void **state) {
    (void)state;
    segment(1, 0, 0x10000000, 2 * MIB);
    for (uint64_t i = 0; i < 4; i++)
        report(1, 0, 0x10000000 + i * 512, 512, 0); /* 20 to 50 */
    record(1, EVENT, GUARD_STACK);
    record(1, EVENT, GUARD_STACK);
    report(1, 0, 0x10000000, -512, 0); /* 80 */
    record(1, EVENT, GUARD_STACK);
    record(1, EVENT + 1, DEEP_STACK);
    report(1, 0, 0x10000200, -512, 0); /* 110 */
    CALL(1, cudaEventRecordWithFlags, 0, 0, 0, EVENT + 1, 0x77, 0);
    report(1, 0, 0x10000400, -512, 0);                 /* 130 */
    report(1, 0, 0x10000600, -512, LS_CALL_CAPTURING); /* 140 */
    record(1, EVENT + 2, GUARD_STACK);
    query(1, EVENT + 2, 0);
    report(1, 0, 0x10000800, 512, 0); /* 170 */
    collect();
    check_sound(9);
    assert_string_equal(blocks(), "20-80-80:0,30-110-:1,40-130-130:0,50-140-170:?,170--:?");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(event) FROM block_wait"), "225");
}

/* torch.cuda.empty_cache() after a capture: nothing is handed out. */
static void test_deferred_to_a_synchronize(void **state) {
    (void)state;
    segment(1, 0, 0x10000000, 2 * MIB);
    for (uint64_t i = 0; i < 4; i++)
        report(1, 0, 0x10000000 + i * 512, 512, 0); /* 20 to 50 */
    for (uint64_t i = 4; i-- > 2;)
        report(1, 0, 0x10000000 + i * 512, -512, LS_CALL_CAPTURING); /* 60, 70 */
    record(1, EVENT, DEEP_STACK);                                    /* 80 */
    record(1, EVENT + 1, DEEP_STACK);
    CALL(1, cudaEventSynchronize, C10_STACK, 0, 0, EVENT + 1);
    CALL(1, cudaEventSynchronize, C10_STACK, 0, 0, EVENT); /* 110 */
    report(1, 0, 0x10000200, -512, LS_CALL_CAPTURING);
    report(1, 0, 0x10000400, 1024, LS_CALL_CAPTURING); /* not the undecided one's memory */
    report(1, 0, 0x10000000, -512, LS_CALL_CAPTURING); /* 140 */
    report(1, 0, 0x10000100, 512, LS_CALL_CAPTURING);  /* parts of both */
    collect();
    check_sound(10);
    assert_string_equal(blocks(),
                        "20-140-140:0,30-120-120:0,40-70-104:1,50-60-114:1,130--:?,150--:?");
}

static void test_deferred_by_a_capture(void **state) {
    (void)state;
    segment(1, 0, 0x10000000, 2 * MIB);
    report(1, 0, 0x10000000, 512, 0);
    report(1, 0, 0x10000200, 512, 0);
    report(1, 0, 0x10000000, -512, LS_CALL_CAPTURING); /* 40 */
    report(1, 0, 0x10000200, -512, LS_CALL_CAPTURING);
    report(1, 0, 0x10000000, 256, LS_CALL_CAPTURING); /* was free at once */
    record(1, EVENT, C10_STACK);
    query(1, EVENT, 0);               /* 80 */
    report(1, 0, 0x10000200, 512, 0); /* 90 */
    report(1, 0, 0x10000200, -512, LS_CALL_CAPTURING);
    report(1, 0, 0x10000400, 512, 0); /* 110: no event came */
    collect();
    check_sound(8);
    assert_string_equal(blocks(), "20-40-40:0,30-50-84:1,60--:?,90-100-110:?,110--:?");
}

static void test_expandable(void **state) {
    (void)state;
    CALL(1, cuMemAddressReserve, C10_STACK, 0, 0, 0x4000000000, 1024 * MIB);
    for (uint64_t i = 0; i < 3; i++) {
        CALL(1, cuMemCreate, C10_STACK, 0, 0, 7 + i, 2 * MIB, 1);
        CALL(1, cuMemMap, C10_STACK, 0, 0, 0x4000000000 + i * 2 * MIB, 2 * MIB, 0, 7 + i);
    }
    total[1].reserved = 6 * MIB;
    report(1, 1, 0x4000000000, 5 * MIB, 0);
    report(1, 1, 0x4000000000, -5 * (int64_t)MIB, 0);
    CALL(1, cuMemUnmap, C10_STACK, 0, 0, 0x4000000000 + 2 * MIB, 4 * MIB); /* 100 */
    CALL(1, cuMemRelease, C10_STACK, 0, 0, 8);
    total[1].reserved = 2 * MIB;
    report(1, 1, 0x4000000200, 512, 0);
    collect();
    check_sound(3);
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(printf('%x',segment)) FROM block"),
                        "4000000000,4000000000");
    assert_string_equal(
        maker_ask(&maker, "SELECT group_concat(printf('%x',address)||kind||IFNULL(end_ns,'')||"
                          "device||(reservation=274877906944)) FROM segment"),
        "4000000000expandable11,4000200000expandable10011,4000400000expandable10011");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(DISTINCT kind||api) FROM "
                                          "all_allocation"),
                        "vmmcuMemMap");
    assert_string_equal(maker_ask(&maker, "SELECT value FROM meta WHERE key='allocator'"),
                        "expandable_segments");
}

/* Ranges in which no block is ever reported stay the program's own. */
static void test_mappings_of_others(void **state) {
    (void)state;
    for (uint64_t range = 0x4000000000; range <= 0x6000000000; range += 0x1000000000) {
        CALL(1, cuMemAddressReserve, OTHER_STACK, 0, 0, range, 1024 * MIB);
        for (uint64_t i = 0; i < 3; i++)
            CALL(i == 2 ? 2 : 1, cuMemMap, OTHER_STACK, 0, 0, range + i * 2 * MIB, 2 * MIB, 0, 7);
    }
    CALL(1, cuMemMap, OTHER_STACK, 0, 0, 0x7000000000, 2 * MIB, 0, 7); /* nobody's range */
    CALL(1, cuMemUnmap, OTHER_STACK, 0, 0, 0x4000000000 + 2 * MIB, 2 * MIB);
    CALL(1, cuMemAddressFree, OTHER_STACK, 0, 0, 0x4000000000, 1024 * MIB);
    CALL(1, cuMemUnmap, OTHER_STACK, 0, 0, 0x4000000000, 2 * MIB);
    total[0].reserved = 4 * MIB;
    report(1, 0, 0x5000000000, 512, 0);
    CALL(2, cuMemUnmap, OTHER_STACK, 0, 0, 0x6000000000, 6 * MIB);
    total[0].reserved = 6 * MIB;
    report(1, 0, 0x7000000000, 512, 0);
    collect();
    check_sound(2);
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(printf('%x',address)) FROM segment"),
                        "5000000000,5000200000,7000000000");
}

/* What there was before, and what was lost, is said once. */
static void test_late_and_lost(void **state) {
    (void)state;
    total[0].allocated = 4096;
    total[0].reserved = 20 * MIB;
    report(1, 0, 0x10000000, 512, 0);
    report(1, 0, 0x10000800, -1024, 0); /* older than the recording */
    report(1, 0, 0x10000200, 512, 0);
    total[0].allocated += 2048; /* lost */
    report(1, 0, 0x10000400, 512, 0);
    report(1, 0, 0x10000600, 512, 0);
    collect();
    assert_string_equal(maker_ask(&maker,
                                  "SELECT allocated_breaks||' '||allocated_worst||' '||"
                                  "reserved_breaks||' '||late_allocated||' '||late_reserved "
                                  "FROM block_audit"),
                        "1 2048 0 4096 20971520");
    assert_string_equal(
        maker_ask(&maker, "SELECT state FROM coverage WHERE layer='pytorch-blocks'"), "partial");
}

static void test_allocators_without_reports(void **state) {
    (void)state;
    CALL(1, cudaMalloc, C10_STACK, 0, 0, 0x10000000, 512);
    CALL(1, cudaFree, C10_STACK, 0, 0, 0x10000000);
    collect();
    assert_string_equal(maker_ask(&maker, "SELECT value FROM meta WHERE key='allocator'"),
                        "uncached");
    assert_string_equal(
        maker_ask(&maker, "SELECT state FROM coverage WHERE layer='pytorch-blocks'"), "off");
}

static void test_oom(void **state) {
    (void)state;
    CALL(1, cudaMemGetInfo, 0, 0, 0, 777, 8888);
    now += 10;
    maker_call_flags(&maker, 1, LS_API__ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE, now,
                     now + 4, 0, C10_STACK, 0, 0, 0,
                     (const uint64_t[LS_FIELD_MAX]){512, 100, 200, 0});
    collect();
    assert_string_equal(maker_ask(&maker, "SELECT ts_ns||' '||device||' '||requested||' '||"
                                          "allocated||' '||reserved||' '||device_free||' '||"
                                          "device_total FROM oom_event"),
                        "20 0 512 100 200 777 8888");
}

/* The collector ends after every single call: the trace is the same. */
#define DRAINED(call) (call, drain())

static void test_taken_up_after_each_call(void **state) {
    (void)state;
    DRAINED(segment(1, 0, 0x10000000, 2 * MIB));
    DRAINED(report(1, 0, 0x10000000, 512, 0));
    DRAINED(report(1, 0, 0x10000200, 512, 0));
    DRAINED(record(1, EVENT, DEEP_STACK));
    DRAINED(record(1, EVENT + 1, DEEP_STACK));
    DRAINED(report(1, 0, 0x10000000, -512, 0)); /* 60 */
    DRAINED(query(2, EVENT, 0));
    DRAINED(query(2, EVENT + 1, 0)); /* 80 */
    DRAINED(report(1, 0, 0x10000200, -512, LS_CALL_CAPTURING));
    DRAINED(record(1, EVENT, DEEP_STACK));
    DRAINED(query(1, EVENT, 600));
    DRAINED(report(1, 0, 0x10000400, 512, 0)); /* 120 */
    DRAINED(query(2, EVENT, 0));
    DRAINED(CALL(1, cuMemAddressReserve, C10_STACK, 0, 0, 0x4000000000, 1024 * MIB));
    DRAINED(CALL(1, cuMemCreate, C10_STACK, 0, 0, 7, 2 * MIB, 0));
    DRAINED(CALL(1, cuMemMap, C10_STACK, 0, 0, 0x4000000000, 2 * MIB, 0, 7));
    total[0].reserved += 2 * (int64_t)MIB;
    DRAINED(report(1, 0, 0x4000000000, 512, 0)); /* 170 */
    DRAINED(report(1, 0, 0x4000000000, -512, 0));
    DRAINED(CALL(1, cuMemUnmap, C10_STACK, 0, 0, 0x4000000000, 2 * MIB));
    total[0].reserved -= 2 * (int64_t)MIB;
    DRAINED(report(1, 0, 0x10000600, 512, 0));
    maker.header->image++;
    collect();
    check_sound(8);
    assert_string_equal(blocks(), "20-60-84:2,30-90-134:1,120--:?,170-180-180:0,200--:?");
    assert_string_equal(maker_ask(&maker,
                                  "SELECT group_concat(holder||kind||IFNULL(end_ns,'')) FROM "
                                  "allocation"),
                        "31,36190");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_blocks_and_segments),
        TEST(test_without_stacks),
        TEST(test_pending),
        cmocka_unit_test_setup_teardown(test_an_event_twice, setup_alive, teardown),
        TEST(test_events_of_the_programs_own),
        TEST(test_deferred_to_a_synchronize),
        TEST(test_deferred_by_a_capture),
        TEST(test_expandable),
        TEST(test_mappings_of_others),
        TEST(test_late_and_lost),
        TEST(test_allocators_without_reports),
        TEST(test_oom),
        cmocka_unit_test_setup_teardown(test_taken_up_after_each_call, setup_alive, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
