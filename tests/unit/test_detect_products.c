/*
 * test_detect_products.c - gemm-loop, batch-degraded, misaligned, cudnn-bypassed.
 */

#include <stdlib.h>
#include <string.h>

#include "made_layouts.h"

#define ALL "'gemm-loop','batch-degraded','misaligned','cudnn-bypassed'"

enum { GEMM = 1, COPY, IM2COL, RELU, ALIGN1 };

static void names(void) {
    maker_kernel(&maker, 1, GEMM, "ampere_sgemm_32x32_nn");
    maker_kernel(&maker, 1, COPY,
                 "_ZN2at6native18elementwise_kernelINS0_23direct_copy_kernel_cudaEEEvi");
    maker_kernel(&maker, 1, IM2COL, "_ZN2at6native13vol2col_kernelI6floatEEvv");
    maker_kernel(&maker, 1, RELU, "relu_kernel");
    maker_kernel(&maker, 1, ALIGN1, "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_nn_align1");
    made_line(1, 7);
    made_line(2, 9);
}

static void product(uint32_t number, enum ls_dtype dtype, int64_t m, int64_t n, int64_t k,
                    int64_t batch) {
    int64_t value[LS_PRODUCT_VALUES] = {
        [LS_PRODUCT_M] = m,         [LS_PRODUCT_N] = n,
        [LS_PRODUCT_K] = k,         [LS_PRODUCT_LDA] = m,
        [LS_PRODUCT_LDB] = k,       [LS_PRODUCT_LDC] = m,
        [LS_PRODUCT_BATCH] = batch, [LS_PRODUCT_DTYPE_B] = (int64_t)dtype,
        [LS_PRODUCT_COMPUTE] = 68,  [LS_PRODUCT_DTYPE_C] = (int64_t)dtype};
    if (batch > 1) {
        value[LS_PRODUCT_STRIDE_A] = m * k;
        value[LS_PRODUCT_STRIDE_B] = k * n;
        value[LS_PRODUCT_STRIDE_C] = m * n;
    }
    maker_shape(&maker, 1,
                &(struct ls_rec_shape){.id = number, .kind = LS_SHAPE_PRODUCT, .dtype = dtype},
                LS_PRODUCT_VALUES, value);
}

static uint32_t stack = 1; /* that gemm() is called from */

static void gemm(uint32_t shape, uint64_t a, uint64_t b, uint64_t c, unsigned kernels,
                 const uint32_t *kernel, const uint64_t *ns) {
    made_call_of(LS_API_cublasSgemm_v2, stack, 0x77,
                 MADE_OPERANDS(MADE_OPERAND(PRODUCT, shape, 0), MADE_OPERAND(A, shape, a),
                               MADE_OPERAND(B, shape, b), MADE_OPERAND(C_OUT, shape, c)),
                 kernels, kernel, ns);
}

static void launch(uint32_t kernel, unsigned count, const struct ls_operand *operand) {
    made_call_of(LS_API_cudaLaunchKernel, 2, kernel, count, operand, MADE_KERNELS(kernel),
                 MADE_NS(2000));
}

/* ---- gemm-loop ---- */

static void test_loop(void **state) {
    (void)state;
    names();
    product(5, LS_DTYPE_FLOAT32, 32, 32, 32, 1);
    for (uint64_t i = 0; i < 320; i++) {
        if (i % 32 == 0)
            launch(RELU, MADE_OPERANDS(MADE_OPERAND(ARGUMENT, 0, 0x9000)));
        gemm(5, 0x10000 + 4096 * i, 0x800000 + 4096 * i, 0x1000000 + 4096 * i, MADE_KERNELS(GEMM),
             MADE_NS(3000));
    }
    made_detect();
    assert_string_equal(made_found(ALL), "gemm-loop problem train.py:7 f 320");
    assert_string_equal(made_evidence("gemm-loop", "rows"), "10");
    assert_string_equal(made_evidence("gemm-loop", "longest"), "32");
    assert_string_equal(made_evidence("gemm-loop", "evenly_apart"), "1");
    assert_string_equal(made_evidence("gemm-loop", "same_a"), "0");
    assert_string_equal(made_evidence("gemm-loop", "product.m"), "32");
}

/* Results are copied away from the same temporary each time: still a loop. */
static void test_loop_with_copies(void **state) {
    (void)state;
    names();
    product(5, LS_DTYPE_FLOAT32, 32, 32, 32, 1);
    maker_tensor_shape(&maker, 1, 6, FLOAT32, 2, 32, 32, 32, 1);
    for (uint64_t i = 0; i < 160; i++) {
        gemm(5, 0x10000, 0x800000 + 4096 * i, 0x1000000, MADE_KERNELS(GEMM), MADE_NS(3000));
        launch(COPY, MADE_OPERANDS(MADE_OPERAND(DST, 6, 0x2000000 + 4096 * i),
                                   MADE_OPERAND(SRC, 6, 0x1000000)));
    }
    made_detect();
    assert_string_equal(made_found(ALL), "gemm-loop problem train.py:7 f 160");
    assert_string_equal(made_evidence("gemm-loop", "same_a"), "1");
}

/* Each reads what the last one wrote; or other kernels work between; or the matrices are large. */
static void test_no_loop(void **state) {
    (void)state;
    names();
    product(5, LS_DTYPE_FLOAT32, 32, 32, 32, 1);
    product(6, LS_DTYPE_FLOAT32, 4096, 4096, 4096, 1);
    for (uint64_t i = 0; i < 40; i++)
        gemm(5, 0x10000, 0x800000 + 4096 * i, 0x801000 + 4096 * i, MADE_KERNELS(GEMM),
             MADE_NS(3000));
    for (uint64_t i = 0; i < 40; i++) {
        gemm(5, 0x10000, 0x800000 + 4096 * i, 0x1000000 + 4096 * i, MADE_KERNELS(GEMM),
             MADE_NS(3000));
        launch(RELU, MADE_OPERANDS(MADE_OPERAND(ARGUMENT, 0, 0x9000)));
    }
    for (uint64_t i = 0; i < 40; i++)
        gemm(6, 0x10000000 * i, 0x800000000, 0x1000000000 + 0x10000000 * i, MADE_KERNELS(GEMM),
             MADE_NS(900000));
    for (uint64_t i = 0; i < 3; i++) /* q, k, v */
        gemm(5, 0x10000 * i, 0x800000, 0x900000 + 4096 * i, MADE_KERNELS(GEMM), MADE_NS(3000));
    made_detect();
    assert_string_equal(made_found(ALL), "");
}

/* ---- batch-degraded ---- */

static void batches(unsigned kernels) {
    uint32_t kernel[32];
    uint64_t ns[32];
    names();
    product(5, LS_DTYPE_FLOAT32, 32, 32, 32, 32);
    for (unsigned i = 0; i < 32; i++) {
        kernel[i] = GEMM;
        ns[i] = 3000;
    }
    for (uint64_t i = 0; i < 10; i++)
        gemm(5, 0x10000, 0x800000, 0x1000000 + 0x100000 * i, kernels, kernel, ns);
    made_detect();
}

static void test_degraded(void **state) {
    (void)state;
    batches(32);
    assert_string_equal(made_found(ALL), "batch-degraded problem train.py:7 f 10");
    assert_string_equal(made_evidence("batch-degraded", "kernels_per_call"), "32.0");
}

static void test_batched(void **state) {
    (void)state;
    batches(2);
    assert_string_equal(made_found(ALL), "");
}

/* ---- misaligned ---- */

static void test_misaligned(void **state) {
    (void)state;
    names();
    product(5, LS_DTYPE_BFLOAT16, 50257, 1024, 768, 1);
    product(6, LS_DTYPE_BFLOAT16, 50304, 1024, 768, 1);
    product(7, LS_DTYPE_FLOAT32, 50257, 1024, 768, 1);
    for (uint32_t i = 0; i < 30; i++)
        gemm(5 + i % 3, 0x10000, 0x800000, 0x90000000, MADE_KERNELS(i % 3 ? GEMM : ALIGN1),
             MADE_NS(900000));
    gemm(5, 0x10000, 0x800000, 0x90000000, MADE_KERNELS(GEMM), MADE_NS(3000)); /* too short */
    made_detect();
    assert_string_equal(made_found(ALL), "misaligned problem train.py:7 f 10");
    assert_string_equal(made_evidence("misaligned", "off"), "lda 50257, ldc 50257");
    assert_string_equal(made_evidence("misaligned", "kernel_align"), "1");
    assert_int_equal(maker_number(&maker, "SELECT gain_ns FROM finding"), 2700000);
}

static void test_address_off(void **state) {
    (void)state;
    names();
    product(6, LS_DTYPE_BFLOAT16, 50304, 1024, 768, 1);
    for (uint32_t i = 0; i < 10; i++)
        gemm(6, 0x10002, 0x800000, 0x90000000, MADE_KERNELS(GEMM), MADE_NS(900000));
    made_detect();
    assert_string_equal(made_found(ALL), "misaligned problem train.py:7 f 10");
    assert_string_equal(made_evidence("misaligned", "off"), "an address");
}

/* ---- shapes that change from call to call ---- */

/* Decoding: a token more in each step makes another shape, on one line, and each alone is below
 * all shares. */
enum { STEPS = 2000 };

static int64_t all(const char *column) {
    char sql[200];
    snprintf(sql, sizeof sql, "SELECT SUM(%s) FROM finding WHERE kind IN (" ALL ")", column);
    return maker_number(&maker, sql);
}

static void test_misaligned_grows(void **state) {
    (void)state;
    names();
    made_line(3, 7);
    for (uint32_t i = 0; i < STEPS; i++) {
        product(10 + i, LS_DTYPE_BFLOAT16, 2 * i + 3, 1024, 768, 1);
        stack = i % 2 ? 3 : 1; /* two of one line */
        gemm(10 + i, 0x10000, 0x800000, 0x90000000, MADE_KERNELS(GEMM), MADE_NS(50000 + i));
        gemm(10 + i, 0x10000, 0x800000, 0x90000000, MADE_KERNELS(GEMM), MADE_NS(50000 + i));
    }
    stack = 1;
    made_detect();
    assert_string_equal(made_found(ALL), "misaligned problem train.py:7 f 4000");
    assert_string_equal(made_evidence("misaligned", "shapes"), "2000");
    assert_string_equal(made_evidence("misaligned", "product.m"), "4001");
    assert_string_equal(made_evidence("misaligned", "off"), "lda 4001, ldc 4001");
    assert_int_equal(all("time_ns"), 2 * (50000 * STEPS + STEPS * (STEPS - 1) / 2));
    assert_true(llabs(all("gain_ns") - all("time_ns") * 3 / 10) <= STEPS);
    assert_non_null(strstr(maker_ask(&maker, "SELECT title FROM finding WHERE kind='misaligned'"),
                           "4001 x 1024 x 768 and 1,999 other shapes in bfloat16"));
}

/* Of two types on one line each is one finding: what to pad to depends on it. */
static void test_misaligned_types(void **state) {
    (void)state;
    names();
    for (uint32_t i = 0; i < 40; i++) {
        product(10 + i, i % 2 ? LS_DTYPE_INT8 : LS_DTYPE_BFLOAT16, 2 * i + 3, 1024, 768, 1);
        gemm(10 + i, 0x10000, 0x800000, 0x90000000, MADE_KERNELS(GEMM), MADE_NS(50000 + i));
    }
    made_detect();
    assert_string_equal(made_found(ALL), "misaligned warning train.py:7 f 20, "
                                         "misaligned warning train.py:7 f 20");
    assert_string_equal(
        maker_ask(&maker, "SELECT group_concat(m) FROM (SELECT json_extract(evidence,'$.multiple')"
                          " AS m FROM finding WHERE kind='misaligned' ORDER BY m)"),
        "8,16");
}

static void test_loop_grows(void **state) {
    (void)state;
    names();
    for (uint32_t i = 0; i < STEPS; i++) {
        product(10 + i, LS_DTYPE_FLOAT32, 8, i + 1, 32, 1);
        for (uint64_t k = 0; k < 8; k++)
            gemm(10 + i, 0x10000 + 0x10000 * k, 0x800000 + 0x10000 * k, 0x1000000 + 0x10000 * k,
                 MADE_KERNELS(GEMM), MADE_NS(3000));
    }
    made_detect();
    assert_string_equal(made_found(ALL), "gemm-loop problem train.py:7 f 16000");
    assert_string_equal(made_evidence("gemm-loop", "shapes"), "2000");
    assert_string_equal(made_evidence("gemm-loop", "rows"), "2000");
    assert_string_equal(made_evidence("gemm-loop", "longest"), "8");
    assert_string_equal(made_evidence("gemm-loop", "product.n"), "2000");
    assert_string_equal(made_evidence("gemm-loop", "evenly_apart"), "1");
    assert_true(all("gain_ns") > 0 && all("gain_ns") <= all("time_ns"));
}

static void test_degraded_grows(void **state) {
    (void)state;
    names();
    for (uint32_t i = 0; i < STEPS; i++) {
        product(10 + i, LS_DTYPE_FLOAT32, 8, i + 1, 32, 8);
        gemm(10 + i, 0x10000, 0x800000, 0x1000000, MADE_KERNELS(GEMM, GEMM, GEMM, GEMM),
             MADE_NS(3000, 3000, 3000, 3000));
    }
    made_detect();
    assert_string_equal(made_found(ALL), "batch-degraded problem train.py:7 f 2000");
    assert_string_equal(made_evidence("batch-degraded", "shapes"), "2000");
    assert_string_equal(made_evidence("batch-degraded", "kernels"), "8000");
    assert_string_equal(made_evidence("batch-degraded", "product.n"), "2000");
    assert_int_equal(all("time_ns"), STEPS * 4 * 3000);
}

/* ---- cudnn-bypassed ---- */

static void test_bypassed(void **state) {
    (void)state;
    names();
    product(5, LS_DTYPE_BFLOAT16, 512, 64, 1728, 1);
    for (uint64_t i = 0; i < 10; i++) {
        uint64_t columns = 0x10000000 + (i << 24);
        maker_call(&maker, 1, cudaMalloc, made_now, made_now + 10, columns, 8 << 20);
        made_now += 20;
        launch(IM2COL, MADE_OPERANDS(MADE_OPERAND(ARGUMENT, 0, 0x9000),
                                     MADE_OPERAND(ARGUMENT, 0, columns)));
        gemm(5, columns, 0x800000, 0x1000000, MADE_KERNELS(GEMM), MADE_NS(50000));
    }
    made_detect();
    assert_string_equal(made_found(ALL), "cudnn-bypassed problem train.py:9 f 10");
    assert_string_equal(made_evidence("cudnn-bypassed", "columns_bytes"), "8388608");
    assert_string_equal(made_evidence("cudnn-bypassed", "dtype"), "bfloat16");
    assert_string_equal(made_evidence("cudnn-bypassed", "linked_by"), "address");
}

/* Patches that no product reads. */
static void test_unfold(void **state) {
    (void)state;
    names();
    product(5, LS_DTYPE_BFLOAT16, 512, 64, 1728, 1);
    for (uint64_t i = 0; i < 10; i++) {
        launch(IM2COL, MADE_OPERANDS(MADE_OPERAND(ARGUMENT, 0, 0x5000000)));
        gemm(5, 0x10000, 0x800000, 0x1000000 + i * 0x100000, MADE_KERNELS(GEMM), MADE_NS(50000));
    }
    made_detect();
    assert_string_equal(made_found(ALL), "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, made_setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_loop),
        TEST(test_loop_with_copies),
        TEST(test_no_loop),
        TEST(test_degraded),
        TEST(test_batched),
        TEST(test_misaligned),
        TEST(test_address_off),
        TEST(test_bypassed),
        TEST(test_unfold),
        TEST(test_misaligned_grows),
        TEST(test_misaligned_types),
        TEST(test_loop_grows),
        TEST(test_degraded_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
