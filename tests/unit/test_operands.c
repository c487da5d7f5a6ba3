/*
 * test_operands.c - shapes and operands become rows, and conversions are found among kernels.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdlib.h>

#include <cmocka.h>

#include "collect.h"
#include "spool_fixture.h"

static const char nchw_to_nhwc[] = "_ZN5cudnn3ops16nchwToNhwcKernelIfEEvv";
static const char strided_copy[] =
    "_ZN2at6native18elementwise_kernelINS0_23direct_copy_kernel_cudaEEEvi";
static const char plain_copy[] =
    "_ZN2at6native29vectorized_elementwise_kernelINS0_24float16_copy_kernel_cudaEEEvi";
static const char convolution[] = "cudnn_infer_ampere_scudnn_128x32_relu_nhwc_small_nn_v1";

/* A product of m x k and k x n, op(A) transposed. */
static void product(unsigned thread, uint32_t number, int64_t batch) {
    int64_t value[LS_PRODUCT_VALUES] = {[LS_PRODUCT_M] = 4,
                                        [LS_PRODUCT_N] = 5,
                                        [LS_PRODUCT_K] = 6,
                                        [LS_PRODUCT_LDA] = 8,
                                        [LS_PRODUCT_LDB] = 6,
                                        [LS_PRODUCT_LDC] = 4,
                                        [LS_PRODUCT_BATCH] = batch,
                                        [LS_PRODUCT_OP_A] = 1,
                                        [LS_PRODUCT_DTYPE_B] = LS_DTYPE_FLOAT16,
                                        [LS_PRODUCT_DTYPE_C] = LS_DTYPE_FLOAT32,
                                        [LS_PRODUCT_COMPUTE] = 68};
    if (batch > 1) {
        value[LS_PRODUCT_STRIDE_A] = 32;
        value[LS_PRODUCT_STRIDE_C] = 20;
    }
    maker_shape(
        &maker, thread,
        &(struct ls_rec_shape){.id = number, .kind = LS_SHAPE_PRODUCT, .dtype = LS_DTYPE_FLOAT16},
        LS_PRODUCT_VALUES, value);
}

static void gemm(unsigned thread, uint64_t start, uint64_t end, unsigned flags, uint32_t shape) {
    maker_call_operands(&maker, thread, cublasSgemm_v2, start, end, flags, 0, 0, 0x77,
                        MADE_OPERAND(PRODUCT, shape, 0), MADE_OPERAND(A, shape, 0x1000),
                        MADE_OPERAND(B, shape, 0x2010), MADE_OPERAND(C_OUT, shape, 0x9000));
}

static void test_product(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaMalloc, 1, 2, 0x2000, 4096);
    product(1, 7, 1);
    gemm(1, 10, 20, 0, 7);
    gemm(1, 31, 32, LS_CALL_NESTED, 7);
    product(1, 9, 3);
    gemm(1, 30, 40, 0, 9);
    collect();
    assert_string_equal(
        maker_ask(&maker, "SELECT group_concat(call_id||':'||m||n||k||op_a||op_b||lda||ldb||ldc||"
                          "'x'||batch||' '||stride_a||' '||stride_b||' '||stride_c||' '||dtype||"
                          "' '||dtype_c||' '||compute) FROM gemm_call"),
        "2:456TN864x1 0 0 0 float16 float32 68,4:456TN864x3 32 0 20 float16 float32 68");
    assert_string_equal(
        maker_ask(&maker, "SELECT group_concat(role||dims||strides||layout||dtype||direction,' ') "
                          "FROM tensor_operand WHERE call_id=2"),
        "a[6,4][1,8]column-majorfloat16in b[6,5][1,6]column-majorfloat16in "
        "c[4,5][1,4]column-majorfloat32out");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(role||dims||layout,' ') FROM "
                                          "tensor_operand WHERE call_id=4"),
                        "a[6,4,3]column-major b[6,5,3]broadcast c[4,5,3]column-major");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(COALESCE(allocation,'-')) FROM "
                                          "tensor_operand WHERE call_id=2"),
                        "-,1,-");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM library_call"), 2);
    assert_int_equal(maker_number(&maker, "SELECT id FROM library_call_nested"), 3);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM shape WHERE told IS NULL"), 6);
}

static void test_tensors(void **state) {
    (void)state;
    maker_tensor_shape(&maker, 1, 1, FLOAT32, 4, 2, 3, 4, 5, 60, 20, 5, 1);
    maker_tensor_shape(&maker, 1, 2, BFLOAT16, 4, 2, 3, 4, 5, 60, 1, 15, 3);
    maker_shape(&maker, 1, &(struct ls_rec_shape){.id = 3, .kind = LS_SHAPE_CONVOLUTION, .dims = 2},
                11, (const int64_t[]){1, 1, 1, 1, 2, 2, 1, 1, 4, 1, 0});
    maker_shape(&maker, 1,
                &(struct ls_rec_shape){.id = 4,
                                       .kind = LS_SHAPE_TENSOR,
                                       .dims = 1,
                                       .flags = LS_SHAPE_UID,
                                       .uid = 'x',
                                       .dtype_told = 99},
                2, (const int64_t[]){7, 1});
    maker_call_operands(&maker, 1, cublasSgemm_v2, 10, 20, 0, 0, 0, 0x77,
                        MADE_OPERAND(CONVOLUTION, 3, 0), MADE_OPERAND(X, 1, 0x1000),
                        MADE_OPERAND(Q, 1, 0x1000), MADE_OPERAND(W, 2, 0x2000),
                        MADE_OPERAND(Y, 0, 0x3000), MADE_OPERAND(TENSOR, 4, 0x4000));
    collect();
    assert_string_equal(
        maker_ask(&maker, "SELECT group_concat(role||' '||layout||' '||dtype||' '||address,', ') "
                          "FROM tensor_operand"),
        "x nchw float32 4096, q row-major float32 4096, w nhwc bfloat16 8192, y unknown unknown "
        "12288, tensor row-major unknown 16384");
    assert_string_equal(maker_ask(&maker, "SELECT kind||detail FROM library_setting"),
                        "convolution{\"padding\":[1,1],\"padding_after\":[1,1],\"stride\":[2,2],"
                        "\"dilation\":[1,1],\"groups\":4,\"mode\":1,\"math\":0}");
    assert_int_equal(maker_number(&maker, "SELECT uid FROM tensor_operand WHERE uid NOT NULL"),
                     'x');
}

/* As many as there may be, and of a call that CUPTI numbered: more than one statement puts. */
static void test_many(void **state) {
    (void)state;
    struct ls_operand operand[LS_OPERANDS_MOST];
    maker_tensor_shape(&maker, 1, 1, FLOAT32, 1, 9, 1);
    for (unsigned i = 0; i < LS_OPERANDS_MOST; i++)
        operand[i] = MADE_OPERAND(TENSOR, 1, 0x1000 + i);
    operand[LS_OPERANDS_MOST - 1].what |= LS_OPERAND(0, LS_OPERAND_MORE, 0);
    for (unsigned n = 1; n <= LS_OPERANDS_MOST; n++)
        maker_operands(&maker, 1, LS_API_cublasSgemm_v2, 10 * n, 10 * n + 1, 0, 0, n,
                       (const uint64_t[LS_FIELD_MAX]){0x77}, n, operand);
    collect();
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM operand"),
                     LS_OPERANDS_MOST * (LS_OPERANDS_MOST + 1) / 2);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM operand WHERE position>=call OR "
                                          "address<>4096+position"),
                     0);
    assert_int_equal(maker_number(&maker, "SELECT position FROM operand WHERE flags"),
                     LS_OPERANDS_MOST - 1);
}

static enum ls_collected once(void) {
    char why[512];
    return ls_collect_once(maker.spool, maker.trace, 0, why, sizeof why);
}

/* What was told and derived under one collector is known to the next one, once. */
static void test_taken_up(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        if (i < 3)
            product(1 + i % 2, 7 + i, 1); /* alike but for the number: the same matrices */
        gemm(1 + i % 2, 100 * i + 10, 100 * i + 20, 0, 7 + i % 3);
        assert_int_equal(once(), LS_COLLECTED_LIVE);
        if (i == 3) /* the recording was started again: told once more */
            product(2, 7, 1);
    }
    maker.header->image++;
    assert_int_equal(once(), LS_COLLECTED);
    assert_string_equal(maker_ask(&maker, "PRAGMA integrity_check"), "ok");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM shape"), 6);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM product"), 3);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM gemm_call"), 6);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM operand"), 24);
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(DISTINCT dims) FROM tensor_operand"),
                        "[6,4],[6,5],[4,5]");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM sqlite_master WHERE name='raw_"
                                          "operand'"),
                     0);
}

/* A shape that another thread told is met after its first call: in the same drain, in the next one,
 * by the next collector, or never. */
static void test_told_late(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaFree, 50, 60, 0x1); /* thread 1's stream is read up to here first */
    product(1, 5, 1);
    gemm(2, 10, 20, 0, 5);
    gemm(2, 30, 35, 0, 6);
    gemm(2, 36, 37, 0, 8);
    assert_int_equal(once(), LS_COLLECTED_LIVE);
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(n) FROM (SELECT COUNT(shape) AS n "
                                          "FROM operand GROUP BY call)"),
                        "4,0,0");
    product(1, 6, 1);
    assert_int_equal(once(), LS_COLLECTED_LIVE);
    maker.header->image++;
    assert_int_equal(once(), LS_COLLECTED);
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(n) FROM (SELECT COUNT(shape) AS n "
                                          "FROM operand GROUP BY call)"),
                        "4,4,0");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM gemm_call"), 2);
    assert_string_equal(
        maker_ask(&maker, "SELECT group_concat(COALESCE(dims,'-')) FROM tensor_operand"),
        "[6,4],[6,5],[4,5],[6,4],[6,5],[4,5],-,-,-,-");
}

/* ---- conversions ---- */

static void launch(uint64_t start, unsigned flags, uint32_t correlation, uint64_t kernel) {
    maker_call_numbered(&maker, 1, cudaLaunchKernel, start, start + 5, flags, 0, correlation,
                        kernel, 2, 5, 6, 0);
}

static void run(uint64_t start, uint32_t correlation, uint64_t kernel) {
    maker_gpu(&maker, 4, LS_GPU_KERNEL, 0, 0,
              (struct ls_rec_gpu){.start = MADE_GPU + start,
                                  .end = MADE_GPU + start + 10,
                                  .correlation = correlation,
                                  .context = 1,
                                  .stream = 7,
                                  .value = {kernel, 0, 0, 0}});
}

static void name_kernels(void) {
    maker_kernel(&maker, 1, 1, nchw_to_nhwc);
    maker_kernel(&maker, 1, 2, strided_copy);
    maker_kernel(&maker, 1, 3, plain_copy);
    maker_kernel(&maker, 1, 4, convolution);
}

#define CONVERSIONS                                                                                \
    "SELECT group_concat(short||' '||count||' '||COALESCE(gpu_ns,'-')||' '||from_layout||' '||"    \
    "to_layout||' '||COALESCE(under_call,'-'),', ') FROM (SELECT * FROM layout_conversion ORDER "  \
    "BY short,from_layout,launches)"

/* Kernels that a library ran in its call, and one of the program's own; a convolution is none. */
static void test_conversions_that_ran(void **state) {
    (void)state;
    name_kernels();
    launch(12, LS_CALL_NESTED, 1, 1);
    launch(18, LS_CALL_NESTED, 2, 4);
    launch(24, LS_CALL_NESTED, 3, 1);
    maker_call(&maker, 1, cublasSgemm_v2, 10, 30, 0x77);
    launch(40, 0, 4, 2);
    launch(50, 0, 5, 3);
    maker_gpu_clock(&maker, 4, 60, 2, 60);
    for (uint32_t i = 0; i < 5; i++)
        run(20 + 10 * i, i + 1, (uint64_t[]){1, 4, 1, 2, 3}[i]);
    collect();
    assert_string_equal(maker_ask(&maker, CONVERSIONS),
                        "elementwise_kernel 1 10 unknown unknown -, nchwToNhwcKernel 2 20 nchw "
                        "nhwc cublasSgemm_v2");
    assert_int_equal(maker_number(&maker, "SELECT gpu_ns FROM library_call"), 30);
    assert_int_equal(maker_number(&maker, "SELECT SUM(launches) FROM layout_conversion"), 0);
}

/* Without GPU times: by the launches. Captured ones did not run. */
static void test_conversions_launched(void **state) {
    (void)state;
    name_kernels();
    launch(12, LS_CALL_NESTED, 0, 1);
    maker_call(&maker, 1, cublasSgemm_v2, 10, 30, 0x77);
    launch(40, 0, 0, 2);
    launch(50, LS_CALL_CAPTURING, 0, 2);
    launch(60, 0, 0, 4);
    collect();
    assert_string_equal(maker_ask(&maker, CONVERSIONS),
                        "elementwise_kernel 1 - unknown unknown -, nchwToNhwcKernel 1 - nchw nhwc "
                        "cublasSgemm_v2");
    assert_string_equal(maker_ask(&maker, "SELECT COALESCE(gpu_ns,'-') FROM library_call"), "-");
}

/* Copies whose operands are known: what changes no layout is none, whatever the kernel. */
static void test_conversions_by_operands(void **state) {
    (void)state;
    name_kernels();
    maker_tensor_shape(&maker, 1, 1, FLOAT32, 2, 4, 5, 5, 1);
    maker_tensor_shape(&maker, 1, 2, FLOAT32, 2, 4, 5, 1, 4);
    maker_tensor_shape(&maker, 1, 3, FLOAT16, 2, 4, 5, 5, 1);
    maker_tensor_shape(&maker, 1, 4, FLOAT32, 2, 4, 5, 0, 1);
    maker_tensor_shape(&maker, 1, 5, FLOAT32, 2, 4, 5, 10, 1);
    static const uint32_t kernel[] = {2, 2, 3, 3, 2, 2}, src[] = {2, 1, 1, 2, 4, 5};
    for (uint32_t i = 0; i < 6; i++)
        maker_call_operands(&maker, 1, cudaLaunchKernel, 100 * i, 100 * i + 5, 0, 0, 0, kernel[i],
                            MADE_OPERAND(DST, i == 2 ? 3 : 1, 0x1000),
                            MADE_OPERAND(SRC, src[i], 0x2000));
    collect();
    assert_string_equal(maker_ask(&maker, CONVERSIONS),
                        "elementwise_kernel 1 - broadcast row-major -, elementwise_kernel 1 - "
                        "column-major row-major -, elementwise_kernel 1 - row-major row-major -, "
                        "vectorized_elementwise_kernel 1 - column-major row-major -");
}

/* A library's call that is a conversion: by its kernels, whatever their names, or else by itself.
 * One that only adds or scales is none. */
static void test_conversion_calls(void **state) {
    (void)state;
    name_kernels();
    maker_tensor_shape(&maker, 1, 1, FLOAT32, 4, 2, 3, 4, 5, 60, 20, 5, 1);
    maker_tensor_shape(&maker, 1, 2, FLOAT32, 4, 2, 3, 4, 5, 60, 1, 15, 3);
    launch(12, LS_CALL_NESTED, 1, 4);
    for (uint32_t i = 0; i < 3; i++)
        maker_call_operands(&maker, 1, cudnnTransformTensor, 10 + 100 * i, 30 + 100 * i, 0, 0, 0,
                            0x77, MADE_OPERAND(IMAGES_SRC, 1, 0x1000),
                            MADE_OPERAND(IMAGES_DST, 2 - i / 2, 0x2000));
    maker_gpu_clock(&maker, 4, 400, 2, 400);
    run(40, 1, 4);
    collect();
    assert_string_equal(maker_ask(&maker, CONVERSIONS),
                        "cudnnTransformTensor 1 - nchw nhwc cudnnTransformTensor, "
                        "cudnn_infer_ampere_scudnn_128x32_relu_nhwc_small_nn_v1 1 10 nchw nhwc "
                        "cudnnTransformTensor");
}

/* Runs without a row of their own are in the sums, by their kernels' totals. */
static void test_conversions_beyond_the_rows(void **state) {
    (void)state;
    setenv("LAYOUTSPY_KERNEL_ROWS", "4", 1);
    name_kernels();
    for (uint32_t i = 0; i < 10; i++) {
        launch(100 * i + 12, LS_CALL_NESTED, 2 * i + 1, 1);
        maker_call(&maker, 1, cublasSgemm_v2, 100 * i + 10, 100 * i + 30, 0x77);
        launch(100 * i + 40, 0, 2 * i + 2, 2);
    }
    maker_gpu_clock(&maker, 4, 1000, 2, 1000);
    for (uint32_t i = 0; i < 20; i++)
        run(100 * i / 2 + 45, i + 1, 1 + i % 2);
    run(960, 0, 1); /* of no call */
    collect();
    unsetenv("LAYOUTSPY_KERNEL_ROWS");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM gpu_work WHERE kind=1"), 4);
    assert_string_equal(
        maker_ask(&maker, "SELECT group_concat(short||count||' '||gpu_ns||' '||launches,', ') FROM "
                          "(SELECT short,SUM(count) AS count,SUM(gpu_ns) AS gpu_ns,SUM(launches) "
                          "AS launches FROM layout_conversion GROUP BY short ORDER BY short)"),
        "elementwise_kernel10 100 8, nchwToNhwcKernel11 110 8");
    assert_int_equal(maker_number(&maker, "SELECT SUM(gpu_ns) FROM library_call"), 100);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_ALIVE(name) cmocka_unit_test_setup_teardown(name, setup_alive, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_product),
        TEST(test_tensors),
        TEST(test_many),
        TEST_ALIVE(test_taken_up),
        TEST_ALIVE(test_told_late),
        TEST(test_conversions_that_ran),
        TEST(test_conversions_launched),
        TEST(test_conversions_by_operands),
        TEST(test_conversion_calls),
        TEST(test_conversions_beyond_the_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
