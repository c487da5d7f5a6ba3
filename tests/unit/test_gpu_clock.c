/*
 * test_gpu_clock.c - CUPTI's clock to nanoseconds: drift, order, pairs that say little.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdlib.h>

#include <cmocka.h>

#include "gpu_clock.h"

#define GPU INT64_C(1700000000000000000)
#define MS INT64_C(1000000)
#define SECOND (1000 * MS)

static struct ls_gpu_clock clock;

static int teardown(void **state) {
    (void)state;
    ls_gpu_clock_destroy(&clock);
    return 0;
}

/* What a clock says that gains `ppm` millionths. */
static int64_t drifted(int64_t ns, int64_t ppm) {
    return GPU + ns + ns / 1000000 * ppm;
}

static void pair(int64_t ns, int64_t gpu_ns, int64_t width) {
    assert_true(ls_gpu_clock_add(&clock, (struct ls_gpu_pair){gpu_ns, ns, width}));
}

static int64_t at(int64_t gpu_ns) {
    int64_t ns;
    assert_true(ls_gpu_clock_ns(&clock, gpu_ns, &ns));
    return ns;
}

static void test_no_pair(void **state) {
    int64_t ns;
    (void)state;
    assert_false(ls_gpu_clock_ns(&clock, GPU, &ns));
}

/* All that a lone pair tells is how far the clocks are apart. */
static void test_lone_pair(void **state) {
    (void)state;
    pair(5000, GPU, 100);
    assert_int_equal(at(GPU + 70), 5070);
    assert_int_equal(at(GPU - 70), 4930);
    assert_int_equal(clock.error_ns, 50);
}

/* 50 ppm, one pair a second, and each read up to 300 ns beside the truth. */
static void test_drift(void **state) {
    unsigned seed = 5;
    (void)state;
    for (int64_t i = 0; i <= 60; i++)
        pair(i * SECOND, drifted(i * SECOND, 50) + (int64_t)(rand_r(&seed) % 600) - 300, 600);
    for (int64_t ns = -20 * MS; ns < 60 * SECOND + 20 * MS; ns += 7777777)
        assert_in_range(at(drifted(ns, 50)) - ns + 2000, 0, 4000);
    assert_in_range(clock.error_ns, 300, 2000);
    assert_int_equal(clock.pairs, 61);
}

/* In any order, the lines are the same. */
static void test_any_order(void **state) {
    static const int64_t second[] = {30, 10, 0, 40, 20};
    (void)state;
    for (size_t i = 0; i < 5; i++)
        pair(second[i] * SECOND, drifted(second[i] * SECOND, 50), 200);
    assert_int_equal(clock.count, 5);
    for (int64_t ns = 0; ns < 40 * SECOND; ns += 333333333)
        assert_in_range(at(drifted(ns, 50)) - ns + 200, 0, 400);
}

/* Somebody was interrupted between two readings: 5 ms apart, its middle says nothing. */
static void test_loose_pair(void **state) {
    (void)state;
    pair(0, GPU, 3000000);
    pair(1 * SECOND, drifted(1 * SECOND, 50), 200);
    pair(2 * SECOND + 2 * MS, drifted(2 * SECOND, 50), 5 * MS);
    pair(3 * SECOND, drifted(3 * SECOND, 50), 250);
    assert_int_equal(clock.pairs, 4);
    assert_in_range(at(drifted(2 * SECOND, 50)) - 2 * SECOND + 200, 0, 400);
    assert_in_range(at(drifted(0, 50)) + 1000, 0, 2000);
}

/* Two pairs a few microseconds apart tell no rate. */
static void test_near_pairs(void **state) {
    (void)state;
    pair(1000, GPU + 1000, 500);
    pair(2000, GPU + 2400, 500);
    assert_in_range(at(GPU + SECOND) - SECOND + 1000, 0, 2000);
}

/* Set back by half a second: said, as a doubt. */
static void test_set_back(void **state) {
    (void)state;
    pair(0, GPU, 100);
    pair(SECOND, GPU + SECOND, 100);
    pair(SECOND + 100 * MS, GPU + 600 * MS, 100);
    assert_true(clock.error_ns >= 100 * MS);
}

static void test_many(void **state) {
    (void)state;
    for (int64_t i = 0; i < 20000; i++)
        pair(i * MS, drifted(i * MS, 50), 100);
    assert_true(clock.count <= 4096);
    for (int64_t ns = 0; ns < 20 * SECOND; ns += 12345678)
        assert_in_range(at(drifted(ns, 50)) - ns + 100, 0, 200);
}

/* Only damaged recordings hold these. */
static void test_any_numbers(void **state) {
    static const int64_t odd[] = {0, 1, -1, INT64_MAX, INT64_MIN, INT64_MAX / 2, GPU};
    int64_t ns;
    (void)state;
    for (int i = 0; i < 7 * 7 * 7; i++) {
        pair(odd[i % 7], odd[i / 7 % 7], odd[i / 49]);
        for (int k = 0; k < 7; k++)
            ls_gpu_clock_ns(&clock, odd[k], &ns);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_no_pair),   TEST(test_lone_pair),  TEST(test_drift),
        TEST(test_any_order), TEST(test_loose_pair), TEST(test_near_pairs),
        TEST(test_set_back),  TEST(test_many),       TEST(test_any_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
