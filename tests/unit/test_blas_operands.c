/*
 * test_blas_operands.c - operands of cuBLAS's, NCCL's and cuFFT's calls, as the rows tell them.
 * Nothing is recorded: what the thread gathered is looked at.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "preload/on_exchange.h"
#include "preload/on_gemm.h"
#include "preload/on_transform.h"
#include "preload/shape.h"
#include "preload/state.h"

static struct ls_thread self;

static int setup(void **state) {
    (void)state;
    ls_live_page();
    ls_session.env.layouts = true;
    self.operand_count = 0;
    return 0;
}

static enum ls_role_id role(unsigned i) {
    assert_true(i < self.operand_count);
    return (enum ls_role_id)LS_OPERAND_ROLE(self.operand[i].what);
}

static const struct ls_shape *shape(unsigned i) {
    assert_true(i < self.operand_count);
    return ls_shape_at(LS_OPERAND_SHAPE(self.operand[i].what));
}

static void assert_values(unsigned i, enum ls_shape_kind kind, unsigned count, ...) {
    va_list values;
    const struct ls_shape *told = shape(i);
    assert_non_null(told);
    assert_int_equal(told->kind, kind);
    assert_int_equal(told->values, count);
    va_start(values, count);
    for (unsigned v = 0; v < count; v++)
        assert_int_equal(told->value[v], va_arg(values, int));
    va_end(values);
}

static const struct ls_blas plain = {.a = (void *)0x1000,
                                     .b = (void *)0x2000,
                                     .c = (void *)0x3000,
                                     .m = 4,
                                     .n = 5,
                                     .k = 6,
                                     .lda = 7,
                                     .ldb = 8,
                                     .ldc = 9,
                                     .batch = 1,
                                     .op_a = 1,
                                     .op_b = 2,
                                     .type_a = LS_CUDA_R_16F,
                                     .type_b = LS_CUDA_R_32F,
                                     .type_c = LS_CUDA_R_64F,
                                     .compute = 68};

static void test_product(void **state) {
    (void)state;
    struct ls_blas call = plain;
    call.stride_a = 10;
    call.stride_b = -11;
    call.batch = 3;
    ls_gemm(&self, 0, &call);
    assert_int_equal(self.operand_count, 4);
    assert_values(0, LS_SHAPE_PRODUCT, LS_PRODUCT_VALUES, 4, 5, 6, 7, 8, 9, 10, -11, 0, 3, 1, 2,
                  LS_DTYPE_FLOAT32, LS_DTYPE_FLOAT64, 68);
    assert_int_equal(shape(0)->dtype, LS_DTYPE_FLOAT16);
    assert_int_equal(role(0), LS_ROLE_PRODUCT);
    assert_int_equal(self.operand[0].address, 0);
    const enum ls_role_id roles[] = {LS_ROLE_A, LS_ROLE_B, LS_ROLE_C};
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(role(i + 1), roles[i]);
        assert_ptr_equal(shape(i + 1), shape(0));
        assert_int_equal(self.operand[i + 1].address, 0x1000 * (i + 1));
        assert_int_equal(LS_OPERAND_FLAGS(self.operand[i + 1].what), 0);
    }
}

static enum ls_role_id role_of_c(int status, const struct ls_blas *call) {
    self.operand_count = 0;
    ls_gemm(&self, status, call);
    return role(3);
}

static void test_beta(void **state) {
    (void)state;
    struct ls_blas call = plain;
    float beta = 0;
    call.beta = &beta;
    call.scale = LS_CUDA_R_32F;
    assert_int_equal(role_of_c(0, &call), LS_ROLE_C_OUT);
    assert_int_equal(role_of_c(14, &call), LS_ROLE_C); /* a call that failed looked at nothing */
    beta = -0.0f;
    assert_int_equal(role_of_c(0, &call), LS_ROLE_C_OUT);
    beta = 1e-40f;
    assert_int_equal(role_of_c(0, &call), LS_ROLE_C);
    beta = 0;
    call.m = 0; /* nothing to compute */
    call.beta = (void *)8;
    assert_int_equal(role_of_c(0, &call), LS_ROLE_C);
    call.m = 4; /* far from the stack, and there is no library to ask */
    assert_int_equal(role_of_c(0, &call), LS_ROLE_C);
    call.beta = NULL;
    assert_int_equal(role_of_c(0, &call), LS_ROLE_C);
}

static void test_zeros(void **state) {
    (void)state;
    static const struct {
        int type, bytes;
    } types[] = {{LS_CUDA_R_32F, 4},  {LS_CUDA_R_64F, 8}, {LS_CUDA_R_16F, 2}, {LS_CUDA_C_32F, 8},
                 {LS_CUDA_C_64F, 16}, {LS_CUDA_R_32I, 4}, {LS_CUDA_R_16BF, 2}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        unsigned char value[17] = {0};
        value[types[i].bytes] = 0xff; /* is not looked at */
        assert_true(ls_is_zero(value, types[i].type));
        for (int byte = 0; byte < types[i].bytes; byte++) {
            value[byte] = 1;
            assert_false(ls_is_zero(value, types[i].type));
            value[byte] = 0;
        }
    }
    assert_false(ls_is_zero(NULL, LS_CUDA_TYPE_NONE));
}

static void test_types(void **state) {
    (void)state;
    assert_int_equal(ls_cuda_dtype(14), LS_DTYPE_BFLOAT16);
    assert_int_equal(ls_cuda_dtype(28), LS_DTYPE_FLOAT8_E4M3);
    for (int type = -3; type < 200; type++)
        if (type < 0 || type > 33)
            assert_int_equal(ls_cuda_dtype(type), LS_DTYPE_UNKNOWN);
    assert_int_equal(ls_scale_type(68, LS_CUDA_R_16F), LS_CUDA_R_32F);
    assert_int_equal(ls_scale_type(77, LS_CUDA_C_32F), LS_CUDA_C_32F);
    assert_int_equal(ls_scale_type(64, LS_CUDA_R_16F), LS_CUDA_R_16F);
    assert_int_equal(ls_scale_type(70, LS_CUDA_C_64F), LS_CUDA_C_64F);
    assert_int_equal(ls_scale_type(72, LS_CUDA_R_32I), LS_CUDA_R_32I);
    assert_int_equal(ls_scale_type(0, LS_CUDA_R_32F), LS_CUDA_TYPE_NONE);
}

static void test_gemv(void **state) {
    (void)state;
    struct ls_blas call = plain;
    call.batch = 2;
    call.stride_a = 40;
    call.stride_b = 41;
    call.stride_c = 42;
    call.ldc = -1;
    ls_gemv(&self, 0, &call);
    assert_int_equal(shape(0)->value[LS_PRODUCT_M], 5);
    assert_int_equal(shape(0)->value[LS_PRODUCT_N], 1);
    assert_int_equal(shape(0)->value[LS_PRODUCT_K], 4);
    assert_values(1, LS_SHAPE_MATRIX, 6, 4, 5, 2, 1, 7, 40);
    assert_values(2, LS_SHAPE_TENSOR, 4, 4, 2, 8, 41);
    assert_values(3, LS_SHAPE_TENSOR, 4, 5, 2, -1, 42);
    assert_int_equal(role(3), LS_ROLE_VECTOR_Y);
    call.array = true;
    self.operand_count = 0;
    ls_gemv(&self, 0, &call);
    assert_values(1, LS_SHAPE_MATRIX, 4, 4, 5, 1, 7);
    assert_int_equal(LS_OPERAND_FLAGS(self.operand[1].what), LS_OPERAND_ARRAY);
    assert_int_equal(shape(0)->value[LS_PRODUCT_BATCH], 2);
}

static void test_geam_reads_no_b_where_beta_is_0(void **state) {
    (void)state;
    struct ls_blas call = plain;
    double beta = 0;
    call.beta = &beta;
    call.scale = LS_CUDA_R_64F;
    ls_geam(&self, 0, &call);
    assert_values(1, LS_SHAPE_MATRIX, 4, 5, 4, 1, 7);
    assert_values(2, LS_SHAPE_MATRIX, 4, 5, 4, 1, 8);
    assert_values(3, LS_SHAPE_MATRIX, 4, 4, 5, 1, 9);
    assert_int_equal(role(2), LS_ROLE_B_UNUSED);
    beta = 1;
    self.operand_count = 0;
    ls_geam(&self, 0, &call);
    assert_int_equal(role(2), LS_ROLE_B);
}

static void test_square_ones(void **state) {
    (void)state;
    struct ls_blas call = plain;
    call.right = true;
    ls_symm(&self, 0, &call);
    assert_int_equal(shape(0)->value[LS_PRODUCT_K], 5);
    assert_values(1, LS_SHAPE_MATRIX, 4, 5, 5, 1, 7);
    assert_values(2, LS_SHAPE_MATRIX, 4, 4, 5, 1, 8);
    self.operand_count = 0;
    call.right = false;
    ls_trsm(&self, &call);
    assert_int_equal(self.operand_count, 3);
    assert_values(1, LS_SHAPE_MATRIX, 4, 4, 4, 1, 7);
    assert_int_equal(role(2), LS_ROLE_B_INOUT);
    self.operand_count = 0;
    ls_syrk(&self, 0, &call); /* op(A) is A': A is 6 x 5, C is 5 x 5 */
    assert_int_equal(self.operand_count, 3);
    assert_int_equal(shape(0)->value[LS_PRODUCT_M], 5);
    assert_int_equal(shape(0)->value[LS_PRODUCT_OP_B], 0);
    assert_values(1, LS_SHAPE_MATRIX, 4, 6, 5, 1, 7);
    assert_values(2, LS_SHAPE_MATRIX, 4, 5, 5, 1, 9);
    self.operand_count = 0;
    ls_ger(&self, &call);
    assert_int_equal(role(0), LS_ROLE_A_INOUT);
    assert_values(1, LS_SHAPE_TENSOR, 2, 4, 8);
    assert_values(2, LS_SHAPE_TENSOR, 2, 5, 9);
    self.operand_count = 0;
    ls_dgmm(&self, &call);
    assert_values(1, LS_SHAPE_TENSOR, 2, 4, 8);
    assert_int_equal(role(2), LS_ROLE_C_OUT);
}

static void test_groups(void **state) {
    (void)state;
    enum { GROUPS = 30 };
    int ops[GROUPS], sizes[GROUPS];
    int64_t wide[GROUPS];
    for (int i = 0; i < GROUPS; i++) {
        ops[i] = i % 3;
        sizes[i] = i + 1;
        wide[i] = i + 1;
    }
    struct ls_blas_groups call = {.op_a = ops,
                                  .op_b = ops,
                                  .m = sizes,
                                  .n = sizes,
                                  .k = sizes,
                                  .lda = sizes,
                                  .ldb = sizes,
                                  .ldc = sizes,
                                  .sizes = sizes,
                                  .a = (void *)0x1000,
                                  .b = (void *)0x20000,
                                  .c = (void *)0x30000,
                                  .count = 2,
                                  .compute = -1};
    ls_gemm_grouped(&self, 0, &call);
    assert_int_equal(self.operand_count, 8);
    assert_int_equal(shape(4)->value[LS_PRODUCT_BATCH], 2);
    assert_int_equal(self.operand[5].address, 0x1008); /* behind the first group's one */
    assert_int_equal(LS_OPERAND_FLAGS(self.operand[5].what), LS_OPERAND_ARRAY);
    self.operand_count = 0;
    call.m = call.n = call.k = call.lda = call.ldb = call.ldc = call.sizes = wide;
    call.wide = true;
    call.count = GROUPS;
    ls_gemm_grouped(&self, 0, &call);
    assert_int_equal(self.operand_count, LS_OPERANDS_MOST);
    self.operand_count = 0;
    call.op_a = (void *)8; /* a call that failed: not looked at */
    ls_gemm_grouped(&self, 7, &call);
    assert_int_equal(self.operand_count, 3);
}

static void test_lines(void **state) {
    (void)state;
    const struct ls_shape *line = ls_shape_at(ls_nccl_line(9, 77));
    assert_int_equal(line->dtype, LS_DTYPE_BFLOAT16);
    assert_int_equal(line->value[0], 77);
    assert_int_equal(line->value[1], 1);
    assert_int_equal(ls_shape_at(ls_nccl_line(-1, 1))->dtype, LS_DTYPE_UNKNOWN);
    assert_int_equal(ls_shape_at(ls_nccl_line(12, 1))->dtype, LS_DTYPE_UNKNOWN);
    assert_int_equal(ls_nccl_lines((void *)8, 4, 9, 77), 0);
}

/* ---- transforms ---- */

enum { R2C = 0x2a, C2R = 0x2c, C2C = 0x29 };

static void transform(int plan, const void *in, const void *out) {
    self.operand_count = 0;
    ls_fft(&self, plan, in, out);
    assert_int_equal(self.operand_count, 2);
}

static void test_plans(void **state) {
    (void)state;
    const void *here = (void *)0x1000, *there = (void *)0x9000;
    transform(5, here, there); /* not known */
    assert_null(shape(0));
    assert_int_equal(self.operand[1].address, 0x9000);
    ls_fft_made(0, 5, &(struct ls_fft){2, {4, 6}, 3, LS_FFT_TYPES(R2C)});
    transform(5, here, there);
    assert_values(0, LS_SHAPE_TENSOR, 6, 3, 4, 6, 24, 6, 1);
    assert_values(1, LS_SHAPE_TENSOR, 6, 3, 4, 4, 16, 4, 1);
    assert_int_equal(shape(0)->dtype, LS_DTYPE_FLOAT32);
    assert_int_equal(shape(1)->dtype, LS_DTYPE_COMPLEX64);
    transform(5, here, here); /* real rows with room for complex ones */
    assert_values(0, LS_SHAPE_TENSOR, 6, 3, 4, 6, 32, 8, 1);
    assert_values(1, LS_SHAPE_TENSOR, 6, 3, 4, 4, 16, 4, 1);
    ls_fft_made(7, 5, &(struct ls_fft){1, {9}, 1, LS_FFT_TYPES(C2C)}); /* refused */
    transform(5, here, there);
    assert_int_equal(shape(0)->dims, 3);
    ls_fft_gone(0, 5);
    transform(5, here, there);
    assert_null(shape(0));
    ls_fft_made(0, 5, &(struct ls_fft){1, {9}, 1, LS_FFT_TYPES(C2R)});
    transform(5, here, there);
    assert_values(0, LS_SHAPE_TENSOR, 2, 5, 1);
    assert_values(1, LS_SHAPE_TENSOR, 2, 9, 1);
    assert_int_equal(shape(1)->dtype, LS_DTYPE_FLOAT32);
}

static void test_many(void **state) {
    (void)state;
    const long long n[] = {4, 6}, in[] = {5, 7};
    const int narrow[] = {8};
    ls_fft_made_many(0, 6, &(struct ls_fft_many){2, n, in, NULL, 2, 100, 9, 9, 3, true, 4, 4});
    transform(6, (void *)0x10, (void *)0x20);
    assert_values(0, LS_SHAPE_TENSOR, 6, 3, 4, 6, 100, 14, 2);
    assert_values(1, LS_SHAPE_TENSOR, 6, 3, 4, 6, 24, 6, 1);
    ls_fft_made_many(0, 7,
                     &(struct ls_fft_many){1, narrow, narrow, narrow, 1, 16, 3, 40, 2, false,
                                           LS_FFT_TYPES(C2C)});
    transform(7, (void *)0x10, (void *)0x10);
    assert_values(0, LS_SHAPE_TENSOR, 4, 2, 8, 16, 1);
    assert_values(1, LS_SHAPE_TENSOR, 4, 2, 8, 40, 3);
    ls_fft_made_many(0, 8, &(struct ls_fft_many){.rank = 4, .size = n});
    ls_fft_made_many(0, 8, &(struct ls_fft_many){.rank = 1});
    transform(8, (void *)0x10, (void *)0x10);
    assert_null(shape(0));
}

static void test_many_plans(void **state) {
    (void)state;
    for (int plan = 0; plan < 20000; plan++) /* more than there is room for */
        ls_fft_made(0, plan, &(struct ls_fft){1, {plan + 1}, 1, LS_FFT_TYPES(C2C)});
    for (int plan = 0; plan < 20000; plan++) {
        transform(plan, (void *)0x10, (void *)0x20);
        if (shape(0))
            assert_int_equal(shape(0)->value[0], plan + 1);
        ls_fft_gone(0, plan);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_product, setup),
        cmocka_unit_test_setup(test_beta, setup),
        cmocka_unit_test_setup(test_zeros, setup),
        cmocka_unit_test_setup(test_types, setup),
        cmocka_unit_test_setup(test_gemv, setup),
        cmocka_unit_test_setup(test_geam_reads_no_b_where_beta_is_0, setup),
        cmocka_unit_test_setup(test_square_ones, setup),
        cmocka_unit_test_setup(test_groups, setup),
        cmocka_unit_test_setup(test_lines, setup),
        cmocka_unit_test_setup(test_plans, setup),
        cmocka_unit_test_setup(test_many, setup),
        cmocka_unit_test_setup(test_many_plans, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
