/*
 * test_detect_bucket_copy.c - bucket-copy: copies out of what ranks have just reduced.
 */

#include "made_layouts.h"

#define BUCKET 0x7f0000000000u
#define GRADIENT 0x7f1000000000u
#define BYTES (4 << 20)

enum { WHOLE = 5, HALF, TURNED, COPY = 2 };

static void shapes(void) {
    made_line(1, 7);
    made_line(2, 9);
    maker_kernel(&maker, 1, COPY,
                 "_ZN2at6native18elementwise_kernelINS0_23direct_copy_kernel_cudaEEEvi");
    maker_tensor_shape(&maker, 1, WHOLE, FLOAT32, 1, BYTES / 4, 1);
    maker_tensor_shape(&maker, 1, HALF, FLOAT32, 2, 512, BYTES / 8 / 512, 1, 512);
    maker_tensor_shape(&maker, 1, TURNED, FLOAT32, 2, 512, BYTES / 8 / 512, BYTES / 8 / 512, 1);
    maker_call(&maker, 1, cudaMalloc, 10, 11, BUCKET, BYTES);
    maker_call(&maker, 1, cudaMalloc, 20, 21, GRADIENT, BYTES);
}

static void reduce(int32_t status) {
    maker_operands(
        &maker, 1, LS_API_ncclAllReduce, made_now, made_now + 1000, status, 1, 0,
        (const uint64_t[LS_FIELD_MAX]){0},
        MADE_OPERANDS(MADE_OPERAND(SEND, WHOLE, BUCKET), MADE_OPERAND(RECV, WHOLE, BUCKET)));
    made_now += 2000;
}

static void copied(uint64_t dst, uint64_t src, uint64_t bytes) {
    maker_call_with(&maker, 1, cudaMemcpyAsync, made_now, made_now + 500, 2, 0, 0, 0, dst, src,
                    bytes, 3, 0);
    made_now += 1000;
}

static void test_out_of_the_bucket(void **state) {
    (void)state;
    shapes();
    for (int i = 0; i < 20; i++) {
        reduce(0);
        copied(GRADIENT, BUCKET, BYTES / 2);
        copied(GRADIENT + BYTES / 2, BUCKET + BYTES / 2, BYTES / 2);
    }
    made_detect();
    assert_string_equal(made_found("'bucket-copy'"), "bucket-copy problem train.py:9 f 40");
    assert_string_equal(made_evidence("bucket-copy", "reductions"), "20");
    assert_string_equal(made_evidence("bucket-copy", "held_twice"), "4194304");
    assert_string_equal(made_evidence("bucket-copy", "by_kernels"), "0");
}

/* By kernels, where it lies in other strides. */
static void test_by_kernels(void **state) {
    (void)state;
    shapes();
    for (int i = 0; i < 20; i++) {
        reduce(0);
        made_call_of(
            LS_API_cudaLaunchKernel, 2, COPY,
            MADE_OPERANDS(MADE_OPERAND(DST, HALF, GRADIENT), MADE_OPERAND(SRC, HALF, BUCKET)),
            MADE_KERNELS(COPY), MADE_NS(2000));
    }
    made_detect();
    assert_string_equal(made_found("'bucket-copy'"), "bucket-copy problem train.py:9 f 20");
    assert_string_equal(made_evidence("bucket-copy", "by_kernels"), "20");
}

/* A result that ranks share, put into another order: no view of it would be that. */
static void test_turned_on_the_way(void **state) {
    (void)state;
    shapes();
    for (int i = 0; i < 20; i++) {
        reduce(0);
        made_call_of(
            LS_API_cudaLaunchKernel, 2, COPY,
            MADE_OPERANDS(MADE_OPERAND(DST, TURNED, GRADIENT), MADE_OPERAND(SRC, HALF, BUCKET)),
            MADE_KERNELS(COPY), MADE_NS(2000));
    }
    made_detect();
    assert_string_equal(made_found("'bucket-copy'"), "");
}

/* Reductions of two sizes by turns, in one place: one takes the other's, and none is forgotten. */
static void test_of_other_sizes(void **state) {
    (void)state;
    shapes();
    for (int i = 0; i < 20; i++) {
        reduce(0);
        copied(GRADIENT, BUCKET, BYTES);
        maker_operands(
            &maker, 1, LS_API_ncclAllReduce, made_now, made_now + 1000, 0, 1, 0,
            (const uint64_t[LS_FIELD_MAX]){0},
            MADE_OPERANDS(MADE_OPERAND(SEND, HALF, BUCKET), MADE_OPERAND(RECV, HALF, BUCKET)));
        made_now += 2000;
    }
    made_detect();
    assert_string_equal(made_found("'bucket-copy'"), "bucket-copy problem train.py:9 f 20");
    assert_string_equal(made_evidence("bucket-copy", "buckets"), "40");
    assert_string_equal(made_evidence("bucket-copy", "held_twice"), "0");
}

/* Into the bucket, within it, from elsewhere, before the first reduction, after a failed one. */
static void test_other_copies(void **state) {
    (void)state;
    shapes();
    copied(GRADIENT, BUCKET, BYTES);
    for (int i = 0; i < 20; i++) {
        reduce(5);
        copied(GRADIENT, BUCKET, BYTES);
    }
    for (int i = 0; i < 20; i++) {
        reduce(0);
        copied(BUCKET, GRADIENT, BYTES);
        copied(BUCKET, BUCKET + BYTES / 2, BYTES / 2);
        copied(GRADIENT, GRADIENT + BYTES / 2, BYTES / 2);
    }
    made_detect();
    assert_string_equal(made_found("'bucket-copy'"), "");
}

/* What happens a few times is how a program begins. */
static void test_a_few(void **state) {
    (void)state;
    shapes();
    for (int i = 0; i < 7; i++) {
        reduce(0);
        copied(GRADIENT, BUCKET, BYTES);
    }
    made_detect();
    assert_string_equal(made_found("'bucket-copy'"), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_out_of_the_bucket, made_setup, teardown),
        cmocka_unit_test_setup_teardown(test_by_kernels, made_setup, teardown),
        cmocka_unit_test_setup_teardown(test_turned_on_the_way, made_setup, teardown),
        cmocka_unit_test_setup_teardown(test_of_other_sizes, made_setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_copies, made_setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_few, made_setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
