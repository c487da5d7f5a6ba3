/*
 * test_clock.c - ticks to nanoseconds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include <cmocka.h>

#include "clock.h"
#include "spool_maker.h"

/* A spool that is only a header: flags, boot and pairs. */
static struct ls_spool *header_only(uint32_t flags, const char *boot) {
    static struct ls_spool spool;
    memset(&spool, 0, sizeof spool);
    spool.start.flags = flags;
    strcpy(spool.start.boot_id, boot);
    return &spool;
}

static void test_nanoseconds_are_ticks(void **state) {
    (void)state;
    struct ls_clock clock;
    struct ls_spool *spool = header_only(0, "other");
    spool->start.clock[0] = (struct ls_clock_pair){500, 500, 77};
    assert_true(ls_clock_init(&clock, spool));
    assert_int_equal(ls_clock_ns(&clock, 500), 0);
    assert_int_equal(ls_clock_ns(&clock, 123456789500), 123456789000);
    assert_int_equal(ls_clock_ns(&clock, 400), -100);
    assert_int_equal(clock.origin_real, 77);
    assert_int_equal(ls_clock_sample(&clock, NULL), UINT64_MAX);
    ls_clock_destroy(&clock);
}

/* 2 ticks a ns at first, 4 later: each part has its own line, and the last one goes on. */
static void test_another_boot_uses_the_header(void **state) {
    (void)state;
    struct ls_clock clock;
    struct ls_spool *spool = header_only(LS_SPOOL_TSC, "other");
    spool->start.clock[0] = (struct ls_clock_pair){1000, 50000, 0};
    spool->start.clock[3] = (struct ls_clock_pair){1000 + 20000000, 50000 + 10000000, 0};
    spool->start.clock[1] = (struct ls_clock_pair){1000 + 40000000, 50000 + 20000000, 0};
    assert_true(ls_clock_init(&clock, spool));
    assert_int_equal(ls_clock_ns(&clock, 1000), 0);
    assert_int_equal(ls_clock_ns(&clock, 1000 + 2000), 1000);
    assert_int_equal(ls_clock_ns(&clock, 1000 + 30000000), 15000000);
    assert_int_equal(ls_clock_ns(&clock, 1000 + 60000000), 30000000);
    ls_clock_destroy(&clock);
}

/* Killed while a pair was overwritten: old ticks beside a new time. */
static void test_torn_pair_is_left_out(void **state) {
    (void)state;
    struct ls_clock clock;
    struct ls_spool *spool = header_only(LS_SPOOL_TSC, "other");
    spool->start.clock[0] = (struct ls_clock_pair){1000, 50000, 0};
    spool->start.clock[1] = (struct ls_clock_pair){1000 + 20000000, 50000 + 90000000, 0};
    spool->start.clock[2] = (struct ls_clock_pair){1000 + 200000000, 50000 + 100000000, 0};
    assert_true(ls_clock_init(&clock, spool));
    assert_int_equal(ls_clock_ns(&clock, 1000 + 20000000), 10000000);
    ls_clock_destroy(&clock);
}

static void test_live_tsc(void **state) {
    (void)state;
    struct maker maker;
    struct ls_clock clock, other;
    struct ls_spool *spool = calloc(1, sizeof *spool);
    char why[200];
    maker_open(&maker, true);
    maker.header->flags = LS_SPOOL_TSC;
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    maker.header->clock[0].ticks = __rdtsc();
    maker.header->clock[0].mono_ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
    assert_int_equal(ls_spool_open(spool, maker.spool, why, sizeof why), LS_SPOOL_OK);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    assert_true(ls_clock_init(&clock, spool));
    assert_true(clock.comparable);
    uint64_t first = __rdtsc();
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    uint64_t second = __rdtsc();
    assert_true(ls_clock_sample(&clock, spool) > second);
    int64_t ns = ls_clock_ns(&clock, second) - ls_clock_ns(&clock, first);
    assert_in_range(ns, 9900000, 60000000);
    /* Monotonic over many anchors, thinned out too. */
    int64_t last = 0;
    for (int i = 0; i < 10000; i++) {
        uint64_t now = ls_clock_sample(&clock, spool);
        int64_t at = ls_clock_ns(&clock, now - 10);
        assert_true(at >= last);
        last = ls_clock_ns(&clock, now);
        assert_true(last >= at);
    }
    assert_true(ls_clock_error_ns(&clock) < 1000000);
    /* A successor finds the pairs in the header. */
    struct ls_spool *again = calloc(1, sizeof *again);
    assert_int_equal(ls_spool_open(again, maker.spool, why, sizeof why), LS_SPOOL_OK);
    assert_true(ls_clock_init(&other, again));
    assert_true(llabs(ls_clock_ns(&other, second) - ls_clock_ns(&clock, second)) < 1000000);
    ls_clock_destroy(&other);
    ls_clock_destroy(&clock);
    ls_spool_close(again);
    ls_spool_close(spool);
    free(again);
    free(spool);
    maker_close(&maker);
}

/* Nothing but the start is known: this machine's rate, and no crash on any ticks. */
static void test_lone_pair(void **state) {
    (void)state;
    struct ls_clock clock;
    struct ls_spool *spool = header_only(LS_SPOOL_TSC, "other");
    spool->start.clock[0] = (struct ls_clock_pair){1000, 50000, 0};
    assert_true(ls_clock_init(&clock, spool));
    assert_int_equal(ls_clock_ns(&clock, 1000), 0);
    assert_true(ls_clock_ns(&clock, 1000000) > 0);
    assert_true(ls_clock_ns(&clock, 0) <= 0);
    ls_clock_ns(&clock, UINT64_MAX);
    ls_clock_ns(&clock, (uint64_t)1 << 63);
    ls_clock_destroy(&clock);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nanoseconds_are_ticks),
        cmocka_unit_test(test_another_boot_uses_the_header),
        cmocka_unit_test(test_torn_pair_is_left_out),
        cmocka_unit_test(test_live_tsc),
        cmocka_unit_test(test_lone_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
