/*
 * test_copies.c - memory kinds, directions and bytes of copies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>

#include <cmocka.h>

#include "collect.h"
#include "spool_maker.h"
#include "trace.h"

enum { H2H, H2D, D2H, D2D, DEFAULT };

#define DEVICE 0x10000
#define DEVICE1 0x20000
#define MANAGED 0x30000
#define PINNED 0x40000
#define REGISTERED 0x50000
#define ARRAY 0x60000
#define HOST 0x70000

static struct maker maker;

static int setup(void **state) {
    (void)state;
    maker_open(&maker, false);
    maker_call(&maker, 1, cudaMalloc, 1, 2, DEVICE, 4096);
    maker_call_with(&maker, 1, cudaMalloc, 3, 4, 0, 0, 0, 1, DEVICE1, 4096);
    maker_call(&maker, 1, cudaMallocManaged, 5, 6, MANAGED, 4096, 1);
    maker_call(&maker, 1, cudaMallocHost, 7, 8, PINNED, 4096);
    maker_call(&maker, 1, cudaHostRegister, 9, 10, REGISTERED, 4096, 0);
    maker_call(&maker, 1, cudaMallocArray, 11, 12, ARRAY, 64, 64, 0, 0x20, 0); /* one float */
    return 0;
}

static int teardown(void **state) {
    (void)state;
    maker_close(&maker);
    return 0;
}

/* "src>dst direction bytes" of the copy that started at `start`. */
static const char *copy(uint64_t start) {
    char sql[200];
    snprintf(sql, sizeof sql,
             "SELECT src_kind||'>'||dst_kind||' '||direction||' '||bytes FROM all_copy "
             "WHERE start_ns=%llu",
             (unsigned long long)start);
    return maker_ask(&maker, sql);
}

static void collect(void) {
    assert_int_equal(maker_collect(&maker), LS_EXIT_OK);
}

static void test_plain(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaMemcpy, 100, 107, DEVICE, HOST, 64, H2D);
    maker_call(&maker, 1, cudaMemcpy, 110, 111, HOST, DEVICE + 100, 65, D2H);
    maker_call(&maker, 1, cudaMemcpyAsync, 120, 121, DEVICE, PINNED + 4095, 66, H2D, 9);
    maker_call(&maker, 1, cudaMemcpyAsync, 130, 131, DEVICE, PINNED + 4096, 67, H2D, 9);
    maker_call(&maker, 1, cudaMemcpy, 140, 141, HOST, REGISTERED, 68, H2H);
    maker_call(&maker, 1, cudaMemcpy, 150, 151, DEVICE + 8, DEVICE, 69, D2D);
    maker_call(&maker, 1, cudaMemcpy, 160, 161, DEVICE1, DEVICE, 70, D2D);
    collect();
    assert_string_equal(copy(100), "pageable>device H2D 64");
    assert_string_equal(copy(110), "device>pageable D2H 65");
    assert_string_equal(copy(120), "pinned>device H2D 66");
    assert_string_equal(copy(130), "pageable>device H2D 67");
    assert_string_equal(copy(140), "pinned>pageable H2H 68");
    assert_string_equal(copy(150), "device>device D2D 69");
    assert_string_equal(copy(160), "device>device P2P 70");
    assert_string_equal(maker_ask(&maker,
                                  "SELECT group_concat(is_async||':'||stream||':'||blocked_ns)"
                                  " FROM all_copy WHERE start_ns IN (100,120)"),
                        "0:0:7,1:9:1");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM pageable_copy"), 3);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM copy JOIN call USING(id)"), 7);
}

static void test_default_kind(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaMemcpy, 100, 101, DEVICE, HOST, 1, DEFAULT);
    maker_call(&maker, 1, cudaMemcpy, 110, 111, PINNED, MANAGED, 1, DEFAULT);
    maker_call(&maker, 1, cudaMemcpy, 120, 121, HOST, PINNED, 1, DEFAULT);
    maker_call(&maker, 1, cudaMemcpy, 130, 131, MANAGED, DEVICE, 1, DEFAULT);
    maker_call_with(&maker, 1, cudaMemcpy, 140, 141, 0, LS_CALL_CAPTURING, 0, 0, DEVICE, HOST, 1,
                    DEFAULT);
    maker_call_with(&maker, 1, cudaMemcpy, 150, 151, 0, 0,
                    LS_KINDS(LS_ASKED_DEVICE, LS_ASKED_PINNED), 0, HOST, HOST + 8, 1, DEFAULT);
    maker_call_with(&maker, 1, cudaMemcpy, 160, 161, 0, 0,
                    LS_KINDS(LS_ASKED_MANAGED, LS_ASKED_BEFORE), 0, HOST, HOST + 8, 1, DEFAULT);
    maker_call(&maker, 1, cudaMemcpyPeer, 170, 171, DEVICE1, DEVICE, 5, 1, 0);
    maker_call(&maker, 1, cudaMemcpyPeer, 180, 181, 0x99990000, 0x99980000, 6, 0, 3);
    maker_call(&maker, 1, cudaMemcpyPeer, 190, 191, 0x99990000, 0x99980000, 7, 2, 2);
    collect();
    assert_string_equal(copy(170), "device>device P2P 5");
    assert_string_equal(copy(180), "device>device P2P 6");
    assert_string_equal(copy(190), "device>device D2D 7");
    assert_string_equal(copy(100), "pageable>device H2D 1");
    assert_string_equal(copy(110), "managed>pinned D2H 1");
    assert_string_equal(copy(120), "pinned>pageable H2H 1");
    assert_string_equal(copy(130), "device>managed D2D 1");
    assert_string_equal(copy(140), "unknown>device unknown 1");
    assert_string_equal(copy(150), "device>pinned D2H 1");
    assert_string_equal(copy(160), "managed>pageable D2H 1");
}

static void test_arrays_and_symbols(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaMemcpy2DToArray, 100, 101, ARRAY, HOST, 256, H2D, 64);
    /* dst, src, dst_array, src_array, width, height, depth, kind */
    maker_call(&maker, 1, cudaMemcpy3D, 110, 111, 0, HOST, ARRAY, 0, 8, 0, 0, H2D);
    maker_call(&maker, 1, cudaMemcpy3D, 120, 121, HOST, 0, 0, ARRAY, 8, 2, 3, D2H);
    maker_call(&maker, 1, cudaMemcpy3D, 130, 131, DEVICE, HOST, 0, 0, 8, 2, 3, H2D);
    maker_call(&maker, 1, cudaMemcpyToSymbol, 140, 141, HOST, HOST, 16, H2D, 0);
    maker_call(&maker, 1, cudaMemcpyFromSymbol, 150, 151, HOST, HOST, 16, DEFAULT, 0);
    collect();
    assert_string_equal(copy(100), "pageable>array H2D 256");
    assert_string_equal(copy(110), "pageable>array H2D 32");
    assert_string_equal(copy(120), "array>pageable D2H 192");
    assert_string_equal(copy(130), "pageable>device H2D 48");
    assert_string_equal(copy(140), "pageable>device H2D 16");
    assert_string_equal(copy(150), "device>pageable D2H 16");
}

/* Its record is missing, and the runtime was not asked: the kind says what must be true. */
static void test_lost_allocation(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaMemcpy, 100, 101, 0xabc000, HOST, 1, H2D);
    maker_call(&maker, 1, cudaMemcpy, 110, 111, HOST, 0xabc000, 1, D2H);
    collect();
    assert_string_equal(copy(100), "pageable>device H2D 1");
    assert_string_equal(copy(110), "device>pageable D2H 1");
}

static void test_after_the_free(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaFreeHost, 100, 101, PINNED);
    maker_call(&maker, 1, cudaMemcpy, 110, 111, DEVICE, PINNED, 1, H2D);
    maker_call(&maker, 1, cudaHostUnregister, 120, 121, REGISTERED);
    maker_call(&maker, 1, cudaMemcpy, 130, 131, DEVICE, REGISTERED, 1, H2D);
    maker_failed(&maker, 1, cudaMemcpy, 140, 141, 1, DEVICE, HOST, 5, H2D);
    collect();
    assert_string_equal(copy(110), "pageable>device H2D 1");
    assert_string_equal(copy(130), "pageable>device H2D 1");
    assert_string_equal(maker_ask(&maker, "SELECT status FROM copy WHERE start_ns=140"), "1");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM pageable_copy"), 2);
}

/* A runtime whose cudaMemcpy calls its own cudaMemcpyAsync through us: one copy, two calls. */
static void test_passed_on(void **state) {
    (void)state;
    maker_call_with(&maker, 1, cudaMemcpyAsync, 102, 106, 0, LS_CALL_NESTED, 0, 0, DEVICE, HOST, 64,
                    H2D, 0);
    maker_call(&maker, 1, cudaMemcpy, 100, 108, DEVICE, HOST, 64, H2D);
    maker_call(&maker, 1, cudaMemcpy, 110, 111, DEVICE, HOST, 65, H2D);
    collect();
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(bytes) FROM all_copy"), "64,65");
    assert_string_equal(maker_ask(&maker, "SELECT COUNT(*) FROM api_call WHERE class='copy'"), "3");
}

/* Nothing could be asked about an address that no recorded call made known. */
static void test_not_answered(void **state) {
    (void)state;
    maker_call_with(&maker, 1, cudaMemcpy, 100, 101, 0, 0, LS_KINDS(LS_ASKED_FAILED, 0), 0, DEVICE,
                    HOST, 64, H2D);
    collect();
    assert_string_equal(copy(100), "unknown>device H2D 64");
    assert_string_equal(maker_ask(&maker, "SELECT COUNT(*) FROM pageable_copy"), "0");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_plain),          TEST(test_default_kind), TEST(test_arrays_and_symbols),
        TEST(test_passed_on),      TEST(test_not_answered), TEST(test_lost_allocation),
        TEST(test_after_the_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
