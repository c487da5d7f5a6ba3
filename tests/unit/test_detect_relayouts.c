/*
 * test_detect_relayouts.c - the detectors of copies that change a layout: broadcast-materialised,
 * cancelling-pair, persistent-strided-operand, copy-before-call. One finding for each copy.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "spool_fixture.h"

#define MIB UINT64_C(0x100000)
#define AT(n) (UINT64_C(0x10000000) * (n))
#define STEP 10000000 /* ns */
#define STEPS 8

/* 512 x 512, and what it is called in the spool. */
enum { PLAIN = 1, TURNED, HALF, EXPANDED, NHWC, NCHW_OF_NHWC, STEPPED, MATRIX };

static int setup_shapes(void **state) {
    setup(state);
    for (uint64_t i = 1; i <= 8; i++)
        maker_call(&maker, 1, cudaMalloc, i, i + 1, AT(i), 64 * MIB);
    maker_tensor_shape(&maker, 1, PLAIN, FLOAT32, 2, 512, 512, 512, 1);
    maker_tensor_shape(&maker, 1, TURNED, FLOAT32, 2, 512, 512, 1, 512);
    maker_tensor_shape(&maker, 1, HALF, FLOAT16, 2, 512, 512, 512, 1);
    maker_tensor_shape(&maker, 1, EXPANDED, FLOAT32, 2, 512, 512, 0, 1);
    maker_tensor_shape(&maker, 1, NHWC, FLOAT32, 3, 4, 256, 256, 65536, 256, 1);
    maker_tensor_shape(&maker, 1, NCHW_OF_NHWC, FLOAT32, 3, 4, 256, 256, 65536, 1, 256);
    maker_tensor_shape(&maker, 1, STEPPED, FLOAT32, 1, 262144, 2);
    maker_kernel(&maker, 1, 1, "copy");
    return 0;
}

static void copied(uint64_t at, uint32_t to, uint64_t dst, uint32_t from, uint64_t src) {
    maker_call_operands(&maker, 1, cudaLaunchKernel, at, at + 1, 0, 0, 0, 1,
                        MADE_OPERAND(DST, to, dst), MADE_OPERAND(SRC, from, src));
}

static void multiplied(uint64_t at, uint32_t shape, uint64_t address) {
    maker_call_operands(&maker, 1, cublasSgemm_v2, at, at + 1, 0, 0, 0, 0x77,
                        MADE_OPERAND(A, shape, address), MADE_OPERAND(C_OUT, PLAIN, AT(8)));
}

static void reduced(uint64_t at, uint32_t shape, uint64_t address) {
    maker_call_operands(&maker, 1, ncclAllReduce, at, at + 1, 0, 0, 0, 0x77,
                        MADE_OPERAND(SEND, shape, address), MADE_OPERAND(RECV, shape, address));
}

/* Something else in each step, so that it has an end. */
static void detect(void) {
    struct ls_trace trace;
    char sql[200];
    maker_call(&maker, 1, cudaSetDevice, STEP * (STEPS + 1), STEP * (STEPS + 1) + 1, 0);
    collect();
    assert_int_equal(ls_trace_open(&trace, maker.trace), LS_EXIT_OK);
    sqlite3_exec(trace.db, "DELETE FROM step", NULL, NULL, NULL);
    for (int i = 1; i <= STEPS; i++) {
        snprintf(sql, sizeof sql,
                 "INSERT INTO step(id, loop, source, start_ns, end_ns, launches) VALUES(%d, 1, "
                 "'marked', %d, %d, 2)",
                 i, i * STEP, (i + 1) * STEP);
        assert_int_equal(sqlite3_exec(trace.db, sql, NULL, NULL, NULL), SQLITE_OK);
    }
    assert_int_equal(ls_detect_run(&trace), LS_EXIT_OK);
    ls_trace_close(&trace);
}

#define KINDS                                                                                      \
    "('broadcast-materialised', 'cancelling-pair', 'persistent-strided-operand', "                 \
    "'copy-before-call')"

/* Kind, count and bytes in MiB of all findings about copies. */
static const char *told(void) {
    return maker_ask(&maker, "SELECT COALESCE(group_concat(kind || ' ' || count || ' ' || (bytes >>"
                             " 20), ', '), 'nothing') FROM finding WHERE kind IN " KINDS);
}

static const char *word(const char *column) {
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT %s FROM finding WHERE kind IN " KINDS, column);
    return maker_ask(&maker, sql);
}

#define EACH_STEP(at) for (uint64_t at = STEP; at <= STEPS * STEP; at += STEP)

static void test_before_a_product(void **state) {
    (void)state;
    EACH_STEP(at) {
        maker_call(&maker, 1, cudaMalloc, at + 1, at + 2, AT(9), 64 * MIB);
        copied(at + 10, PLAIN, AT(2), TURNED, AT(9));
        multiplied(at + 20, PLAIN, AT(2));
        maker_call(&maker, 1, cudaFree, at + 30, at + 31, AT(9));
    }
    detect();
    assert_string_equal(told(), "copy-before-call 8 8");
    assert_string_equal(word("title"), "8.00 MiB copied 8 times for cublasSgemm_v2 (operand a): "
                                       "the source is a permuted view");
    assert_string_equal(word("json_extract(evidence, '$.confidence')"), "estimated");
    assert_string_equal(word("json_extract(evidence, '$.copy.as_read.source_strides')"), "[1,512]");
}

static void test_made_once_and_read_often(void **state) {
    (void)state;
    copied(STEP + 1, PLAIN, AT(2), TURNED, AT(1));
    EACH_STEP(at)
    multiplied(at + 20, PLAIN, AT(2));
    detect();
    assert_string_equal(told(), "nothing");
}

/* Steps that are told by repetition begin anywhere in the loop's body. */
static void test_step_begins_between_copy_and_reader(void **state) {
    (void)state;
    EACH_STEP(at) {
        maker_call(&maker, 1, cudaMalloc, at + 30, at + 31, AT(9), 64 * MIB);
        copied(at + 40, PLAIN, AT(2), TURNED, AT(9));
        multiplied(at + STEP + 10, PLAIN, AT(2));
        maker_call(&maker, 1, cudaFree, at + STEP + 20, at + STEP + 21, AT(9));
    }
    detect();
    assert_string_equal(told(), "copy-before-call 8 8");
}

static void test_memory_that_stays(void **state) {
    (void)state;
    EACH_STEP(at) {
        copied(at + 10, PLAIN, AT(2), TURNED, AT(1));
        multiplied(at + 20, PLAIN, AT(2));
        copied(at + 30, PLAIN, AT(4), STEPPED, AT(3));
        multiplied(at + 40, PLAIN, AT(4));
        maker_call(&maker, 1, cudaMemcpyAsync, at + 50, at + 51, AT(3), 0x7000, 64, 1, 0);
    }
    detect();
    assert_string_equal(told(), "persistent-strided-operand 16 16");
    assert_string_equal(word("json_extract(evidence, '$.sources')"), "2");
    assert_string_equal(word("json_extract(evidence, '$.rewritten')"), "7");
    assert_non_null(strstr(word("title"), "in 8 steps"));
}

static void test_expanded(void **state) {
    (void)state;
    EACH_STEP(at) {
        copied(at + 10, PLAIN, AT(2), EXPANDED, AT(1));
        multiplied(at + 20, PLAIN, AT(2));
        /* What a product adds to is the result's own memory. */
        copied(at + 30, PLAIN, AT(3), EXPANDED, AT(1));
        maker_call_operands(&maker, 1, cublasSgemm_v2, at + 40, at + 41, 0, 0, 0, 0x77,
                            MADE_OPERAND(A, PLAIN, AT(4)), MADE_OPERAND(C, PLAIN, AT(3)));
    }
    detect();
    assert_string_equal(told(), "broadcast-materialised 8 8");
    assert_string_equal(word("json_extract(evidence, '$.factor')"), "512");
    assert_string_equal(word("json_extract(evidence, '$.source_bytes')"), "2048");
}

static void test_there_and_back(void **state) {
    (void)state;
    EACH_STEP(at) {
        copied(at + 10, NHWC, AT(2), NCHW_OF_NHWC, AT(1));
        copied(at + 20, NHWC, AT(3), NCHW_OF_NHWC, AT(2));
        copied(at + 30, NHWC, AT(4), NCHW_OF_NHWC, AT(3)); /* of three the first two */
    }
    detect();
    assert_string_equal(told(), "cancelling-pair 8 16");
    assert_non_null(strstr(word("title"), "8 pairs of copies"));
}

/* Read by a product, given to another kernel, or only a part of it: no pair. */
static void test_no_pair(void **state) {
    (void)state;
    EACH_STEP(at) {
        maker_call(&maker, 1, cudaMalloc, at + 1, at + 2, AT(9), 64 * MIB);
        copied(at + 10, NHWC, AT(2), NCHW_OF_NHWC, AT(9));
        maker_call_operands(&maker, 1, cudaLaunchKernel, at + 15, at + 16, 0, 0, 0, 1,
                            MADE_OPERAND(ARGUMENT, 0, AT(2)));
        copied(at + 20, NHWC, AT(3), NCHW_OF_NHWC, AT(2));
        copied(at + 30, NHWC, AT(4), NCHW_OF_NHWC, AT(9) + MIB);
        copied(at + 40, PLAIN, AT(5), TURNED, AT(4));
        maker_call(&maker, 1, cudaFree, at + 50, at + 51, AT(9));
    }
    detect();
    assert_string_equal(told(), "nothing");
}

/* Gradients in a bucket: as they lie, nothing; in another order, a copy for the reduction. */
static void test_buckets(void **state) {
    (void)state;
    EACH_STEP(at) {
        maker_call(&maker, 1, cudaMalloc, at + 1, at + 2, AT(9), 64 * MIB);
        copied(at + 10, PLAIN, AT(2), PLAIN, AT(9));
        copied(at + 11, PLAIN, AT(2) + MIB, TURNED, AT(9) + MIB);
        reduced(at + 20, PLAIN, AT(2));
        reduced(at + 21, PLAIN, AT(2) + MIB);
        maker_call(&maker, 1, cudaFree, at + 30, at + 31, AT(9));
    }
    detect();
    assert_string_equal(told(), "copy-before-call 8 8");
    assert_non_null(strstr(word("title"), "for ncclAllReduce (operand send)"));
    assert_non_null(strstr(word("advice"), "DistributedDataParallel"));
}

static void test_casts(void **state) {
    (void)state;
    EACH_STEP(at) {
        for (uint64_t i = 0; i < 400; i++)
            copied(at + 10 + 2 * i, HALF, AT(2), PLAIN, AT(1));
        multiplied(at + 2000, HALF, AT(2));
    }
    detect();
    assert_string_equal(told(), "nothing"); /* one cast in a step is read: too short to wonder */
}

static const char *skipped(void) {
    return maker_ask(&maker, "SELECT reason FROM skipped WHERE kind = 'copy-before-call'");
}

/* How often graphs ran it again is not known. */
static void test_graphs(void **state) {
    (void)state;
    copied(STEP + 10, PLAIN, AT(2), TURNED, AT(1));
    multiplied(STEP + 20, PLAIN, AT(2));
    EACH_STEP(at)
    maker_call(&maker, 1, cudaGraphLaunch, at + 100, at + 110, 0x88, 0);
    detect();
    assert_string_equal(skipped(), "8 launches of CUDA graphs ran again what was captured: a "
                                   "captured call counts once here at most, however often it ran");
}

/* By kernels alone, if at all. */
static void test_no_call_reads(void **state) {
    (void)state;
    for (uint64_t at = STEP; at < STEP + 10000; at += 10)
        copied(at, PLAIN, AT(2), TURNED, AT(1));
    detect();
    assert_string_equal(told(), "nothing");
    assert_non_null(strstr(skipped(), "no library's call read 1,000 copies into another layout "
                                      "(0.98 GiB, "));
    assert_non_null(strstr(skipped(), " by their bytes)"));
}

static void test_unknown(void **state) {
    (void)state;
    maker_call(&maker, 1, cublasSgemm_v2, 10, 11, 0x77);
    detect();
    assert_int_equal(maker_number(&maker,
                                  "SELECT COUNT(*) FROM skipped WHERE kind IN " KINDS
                                  " AND reason LIKE 'what libraries'' calls were given is not%'"),
                     4);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_shapes, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_before_a_product),
        TEST(test_made_once_and_read_often),
        TEST(test_step_begins_between_copy_and_reader),
        TEST(test_memory_that_stays),
        TEST(test_expanded),
        TEST(test_there_and_back),
        TEST(test_no_pair),
        TEST(test_buckets),
        TEST(test_casts),
        TEST(test_graphs),
        TEST(test_no_call_reads),
        TEST(test_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
