/*
 * test_damage.c - spools that are cut off or scribbled over: the sound part is read, the rest
 * counted, and nothing crashes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect.h"
#include "spool_fixture.h"

#define CALL_SIZE (sizeof(struct ls_rec_call) + 16) /* of a cudaMalloc */
#define FIRST_CALL (sizeof(struct ls_chunk) + sizeof(struct ls_rec_thread))

static void write_calls(unsigned thread, int count) {
    for (int i = 0; i < count; i++)
        maker_call(&maker, thread, cudaMalloc, 10 * (uint64_t)i, 10 * (uint64_t)i + 1,
                   0x1000 * (uint64_t)(1000 * thread + (unsigned)i + 1), 8);
}

static int64_t damaged(void) {
    return maker_number(&maker, "SELECT IFNULL(SUM(count),0) FROM lost WHERE reason='damaged'");
}

static int64_t calls(void) {
    return maker_number(&maker, "SELECT COUNT(*) FROM call");
}

static void test_bad_record(void **state) {
    (void)state;
    write_calls(1, 10);
    write_calls(2, 10);
    uint8_t *chunk = (uint8_t *)maker.thread[1].chunk;
    ((struct ls_record *)(chunk + FIRST_CALL + 4 * CALL_SIZE))->size = 7;
    collect();
    assert_int_equal(calls(), 14);
    assert_int_equal(damaged(), 6 * CALL_SIZE);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM coverage WHERE layer='spool'"), 1);
}

/* What recording cost is told by the header's counters: any number. */
static void test_damaged_counters(void **state) {
    (void)state;
    write_calls(1, 10);
    for (int i = 0; i < LS_COST_COUNT; i++)
        atomic_store(&maker.header->cost[i], i == LS_COST_LEAVES ? 1 : UINT64_MAX / 3);
    collect();
    assert_int_equal(calls(), 10);
    assert_string_equal(maker_ask(&maker, "SELECT value FROM meta WHERE key='cost.calls_ns'"),
                        "2305843009213693952");
    assert_string_equal(maker_ask(&maker, "SELECT value FROM meta WHERE key='cost.flushes_ns'"),
                        "2305843009213693952");
}

static void test_wrong_checksum(void **state) {
    (void)state;
    write_calls(1, 10);
    struct ls_chunk *chunk = maker.thread[1].chunk;
    maker_seal(&maker, 1);
    chunk->checksum++;
    collect();
    assert_int_equal(calls(), 10);
    assert_int_equal(damaged(), 0);
    assert_int_equal(
        maker_number(&maker, "SELECT COUNT(*) FROM coverage WHERE detail LIKE '%checksum%'"), 1);
}

static void test_bad_chunk_header(void **state) {
    (void)state;
    write_calls(1, 10);
    write_calls(2, 10);
    maker.thread[1].chunk->committed = LS_CHUNK_MIN + 8;
    collect();
    assert_int_equal(calls(), 10);
    assert_int_equal(damaged(), LS_CHUNK_MIN);
}

static void test_bad_slots(void **state) {
    (void)state;
    write_calls(1, 10);
    write_calls(2, 10);
    write_calls(3, 10);
    maker.slot[1].offset = maker.slot[0].offset; /* over another one */
    maker.slot[2].size = 12345;
    maker.header->slots = UINT32_MAX;
    collect();
    assert_int_equal(calls(), 10);
    assert_int_equal(damaged(), 2 * LS_CHUNK_MIN);
}

static void test_cut_off(void **state) {
    (void)state;
    write_calls(1, 10);
    write_calls(2, 10);
    assert_int_equal(
        ftruncate(maker.fd, (off_t)(maker.slot[1].offset + FIRST_CALL + 3 * CALL_SIZE + 20)), 0);
    collect();
    assert_int_equal(calls(), 13);
    assert_int_equal(damaged(), 7 * CALL_SIZE);
}

static void test_cut_off_before_a_chunk(void **state) {
    (void)state;
    write_calls(1, 10);
    write_calls(2, 10);
    assert_int_equal(ftruncate(maker.fd, (off_t)maker.slot[1].offset), 0);
    collect();
    assert_int_equal(calls(), 10);
    assert_int_equal(damaged(), LS_CHUNK_MIN);
}

static void refused(const char *what) {
    (void)what;
    assert_int_equal(maker_collect(&maker), LS_EXIT_INPUT);
    assert_int_equal(access(maker.trace, F_OK), -1);
    assert_int_equal(access(maker.spool, F_OK), 0);
}

static void test_bad_headers(void **state) {
    (void)state;
    write_calls(1, 10);
    maker.header->version++;
    refused("version");
    maker.header->version--;
    maker.header->table_hash++;
    refused("table");
    maker.header->table_hash--;
    maker.header->header_size = 8;
    refused("header size");
    maker.header->header_size = LS_SPOOL_HEADER_SIZE;
    maker.header->magic[3] = 'X';
    refused("magic");
    assert_int_equal(ftruncate(maker.fd, 4000), 0);
    refused("cut off in the header");
    assert_int_equal(ftruncate(maker.fd, 0), 0);
    refused("empty");
}

/* Sizes that no device has: sums of them must not overflow in whoever reads the trace. */
static void test_impossible_sizes(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaMalloc, 10, 11, 0x1000, INT64_MAX);
    maker_call(&maker, 1, cudaMalloc, 20, 21, 0x2000, UINT64_MAX);
    maker_call(&maker, 1, cudaMalloc, 30, 31, 0x3000, INT64_MAX);
    collect();
    assert_int_equal(maker_number(&maker, "SELECT SUM(size) = 3 * (1 << 50) FROM allocation"), 1);
}

static void write_mixture(unsigned *seed) {
    const uint64_t address[] = {0x401000, 0x402000, 0x7f0000001234};
    maker_module(&maker, 1, 0, 0x400000, 0x400000, 0x500000, "/proc/self/exe", NULL, 0);
    maker_stack(&maker, 1, 1, 0, 3, address);
    maker_kernel(&maker, 2, 1, "_ZN1a1bILi3EEEvPf");
    maker_text(&maker, 2, LS_REC_META, "key", "value", NULL);
    maker_text(&maker, 2, LS_REC_COVERAGE, "a", "on", "b");
    maker_lost(&maker, 3, LS_LOST_CAP, 3, 1, 2);
    for (uint64_t i = 0; i < 200; i++) {
        unsigned t = 1 + (unsigned)rand_r(seed) % 3;
        uint64_t p = 0x1000 * ((unsigned)rand_r(seed) % 20 + 1);
        maker_call(&maker, t, cudaMalloc, 20 * i, 20 * i + 5, p, 4096);
        maker_call_with(&maker, t, cudaMemcpy, 20 * i + 6, 20 * i + 7, 1, 0, 0, 0, p, p + 1, 8, 4);
        maker_call(&maker, t, cudaFree, 20 * i + 8, 20 * i + 9, p);
        if (rand_r(seed) % 16 == 0)
            maker_seal(&maker, t);
    }
    maker_gpu_clock(&maker, 4, 5, 10, 0);
    maker_gpu_state(&maker, 4, 6, LS_GPU_STATE_ON, "on");
    for (uint32_t i = 1; i <= 60; i++) {
        unsigned t = 1 + (unsigned)rand_r(seed) % 5;
        maker_launch(&maker, 1 + t % 3, 30 * i, 30 * i + 5, t % 2 ? LS_CALL_NESTED : 0, i);
        maker_gpu(&maker, 4, 1 + (enum ls_gpu_kind)(i % (LS_GPU_KINDS - 1)), 1, i % 256,
                  (struct ls_rec_gpu){.start = MADE_GPU + 30 * i,
                                      .end = MADE_GPU + 30 * i + 9,
                                      .correlation = i,
                                      .value = {1, 2, 3, 4}});
        if (i % 20 == 0)
            maker_gpu_clock(&maker, 4, 30 * i, 10, 30 * i);
    }
    maker_gpu_state(&maker, 4, 3000, LS_GPU_STATE_OFF, "off");
    maker_call(&maker, 1, cudaMallocArray, 9000, 9001, 0x9000, 10, 4, 0, 0x2020, 0);
    maker_call(&maker, 1, cudaDeviceReset, 9010, 9011, 0);
}

/* Shapes, operands, and what conversions are told from. */
static void write_layouts(unsigned *seed) {
    static const int64_t product[LS_PRODUCT_VALUES] = {4, 5, 6, 6, 6, 4, 24, 30, 20, 3, 1, 0};
    static const int64_t other[11] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    maker_kernel(&maker, 2, 2, "_ZN5cudnn3ops16nchwToNhwcKernelIfEEvv");
    for (uint32_t i = 1; i <= 40; i++) {
        unsigned t = 1 + (unsigned)rand_r(seed) % 3;
        maker_tensor_shape(&maker, t, 4 * i, FLOAT32, 4, 2, 3, 4, 5, 60, 20, 5, 1);
        maker_shape(&maker, t,
                    &(struct ls_rec_shape){
                        .id = 4 * i + 1, .kind = LS_SHAPE_PRODUCT, .dtype = LS_DTYPE_FLOAT16},
                    LS_PRODUCT_VALUES, product);
        maker_shape(
            &maker, t,
            &(struct ls_rec_shape){.id = 4 * i + 2, .kind = LS_SHAPE_CONVOLUTION, .dims = 2}, 11,
            other);
        maker_call_operands(&maker, t, cublasSgemm_v2, 30 * i, 30 * i + 20, 0, 0, 0, 0x77,
                            MADE_OPERAND(PRODUCT, 4 * i + 1, 0), MADE_OPERAND(A, 4 * i + 1, 1),
                            MADE_OPERAND(X, 4 * i, 0x1000), MADE_OPERAND(X, 4 * i + 2, 0));
        maker_call_operands(&maker, t, cudaLaunchKernel, 30 * i + 22, 30 * i + 25, 0, 0, i, 2,
                            MADE_OPERAND(DST, 4 * i, 0), MADE_OPERAND(SRC, 4 * i, 0));
    }
}

/* Bytes changed at random, most of them where there is something. */
static void test_scribbled_over(void **state) {
    for (unsigned round = 0; round < 90; round++) {
        unsigned seed = 1000 + round;
        if (round % 3 == 2)
            write_layouts(&seed);
        write_mixture(&seed);
        unsigned flips = 1 + (unsigned)rand_r(&seed) % 40;
        for (unsigned i = 0; i < flips; i++) {
            uint64_t at;
            switch (rand_r(&seed) % 4) {
            case 0: /* header, but not what names the spool and the trace */
                at = offsetof(struct ls_spool_header, cap) +
                     (unsigned)rand_r(&seed) % (offsetof(struct ls_spool_header, trace_path) -
                                                offsetof(struct ls_spool_header, cap));
                break;
            case 1:
                at = 4096 + (unsigned)rand_r(&seed) % 320;
                break;
            default:
                at = LS_SPOOL_HEADER_SIZE +
                     (unsigned)rand_r(&seed) % (maker.header->end - LS_SPOOL_HEADER_SIZE) % 9000;
                break;
            }
            maker.map[at] = (uint8_t)rand_r(&seed);
        }
        if (rand_r(&seed) % 4 == 0)
            assert_int_equal(ftruncate(maker.fd, LS_SPOOL_HEADER_SIZE + rand_r(&seed) % 100000), 0);
        collect();
        maker_ask(&maker, "SELECT SUM(duration_ns), SUM(queued_ns) FROM kernel_run");
        maker_ask(&maker, "SELECT SUM(total_ns) FROM gpu_time");
        maker_ask(&maker, "SELECT SUM(bytes) FROM gpu_copy");
        maker_ask(&maker, "SELECT SUM(bytes), SUM(span) FROM tensor_operand");
        maker_ask(&maker, "SELECT SUM(gpu_ns), SUM(count) FROM layout_conversion");
        maker_ask(&maker, "SELECT SUM(gpu_ns) FROM library_call");
        teardown(state);
        setup(state);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_bad_record),
        TEST(test_damaged_counters),
        TEST(test_wrong_checksum),
        TEST(test_bad_chunk_header),
        TEST(test_bad_slots),
        TEST(test_cut_off),
        TEST(test_cut_off_before_a_chunk),
        TEST(test_bad_headers),
        TEST(test_impossible_sizes),
        TEST(test_scribbled_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
