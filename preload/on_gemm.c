/*
 * on_gemm.c - see on_gemm.h.
 */
#include "on_gemm.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "layoutspy/api.h"
#include "operand.h"
#include "resolve.h"
#include "shape.h"

enum { OP_N, OP_T, OP_C };

/* ---- types ------------------------------------------------------------------------------------
 */

#define CUDA_TYPES 64

uint8_t ls_cuda_dtype(int type) {
/* The last place takes those that have no number. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
    static const uint8_t dtypes[CUDA_TYPES] = {
#define DTYPE(ID, name, bits, cuda, cudnn, nccl)                                                   \
    [(cuda) < 0 ? CUDA_TYPES - 1 : (cuda)] = LS_DTYPE_##ID,
#include "layoutspy/dtype.def"
    };
#pragma GCC diagnostic pop
    return type >= 0 && type < CUDA_TYPES - 1 ? dtypes[type] : LS_DTYPE_UNKNOWN;
}

static bool is_complex(int type) {
    return type == LS_CUDA_C_32F || type == LS_CUDA_C_64F;
}

int ls_scale_type(int compute, int type_c) {
    switch (compute) {
    case 64: /* 16F, and pedantic */
    case 65:
        return LS_CUDA_R_16F;
    case 70: /* 64F, pedantic, emulated */
    case 71:
    case 79:
        return is_complex(type_c) ? LS_CUDA_C_64F : LS_CUDA_R_64F;
    case 72: /* 32I, and pedantic */
    case 73:
        return LS_CUDA_R_32I;
    case 68: /* 32F, pedantic, and by faster types */
    case 69:
    case 74:
    case 75:
    case 77:
    case 78:
        return is_complex(type_c) ? LS_CUDA_C_32F : LS_CUDA_R_32F;
    default:
        return LS_CUDA_TYPE_NONE;
    }
}

/* By the bits, without the sign. */
bool ls_is_zero(const void *factor, int type) {
    uint64_t wide[2] = {0};
    uint32_t word[2] = {0};
    uint16_t half = 0;
    switch (type) {
    case LS_CUDA_R_32F:
    case LS_CUDA_C_32F:
        memcpy(word, factor, type == LS_CUDA_R_32F ? 4 : 8);
        return !(word[0] << 1) && !(word[1] << 1);
    case LS_CUDA_R_64F:
    case LS_CUDA_C_64F:
        memcpy(wide, factor, type == LS_CUDA_R_64F ? 8 : 16);
        return !(wide[0] << 1) && !(wide[1] << 1);
    case LS_CUDA_R_16F:
    case LS_CUDA_R_16BF:
        memcpy(&half, factor, 2);
        return !(uint16_t)(half << 1);
    case LS_CUDA_R_32I:
        memcpy(word, factor, 4);
        return !word[0];
    default:
        return false;
    }
}

/* ---- beta -------------------------------------------------------------------------------------
 */

/* Whether the handle's factors lie in host memory, asked of the library. */
static bool factors_on_host(const void *handle) {
    static int (*_Atomic get)(const void *, int *);
    int (*ask)(const void *, int *) = atomic_load_explicit(&get, memory_order_acquire);
    int mode = -1, saved = errno;
    if (!ask) {
        ask = (int (*)(const void *, int *))ls_resolve_other(LS_LIB_CUBLAS,
                                                             "cublasGetPointerMode_v2");
        atomic_store_explicit(&get, ask, memory_order_release);
    }
    bool known = ask && ask(handle, &mode) == 0;
    errno = saved;
    return known && mode == 0;
}

/* Programs mostly have beta on the stack, in the function that calls: that can be read whatever the
 * handle was told, and costs no question. */
#define NEAR 4096
static bool on_stack(const void *address) {
    return (uintptr_t)address - (uintptr_t)__builtin_frame_address(0) < NEAR;
}

/* Only of a call that succeeded and had something to compute did the library itself look at it. */
static bool beta_is_zero(int status, const void *handle, const void *beta, int scale) {
    return status == 0 && beta && (on_stack(beta) || factors_on_host(handle)) &&
           ls_is_zero(beta, scale);
}

static bool writes_only(int status, const struct ls_blas *call) {
    return call->m > 0 && call->n > 0 && call->batch > 0 &&
           beta_is_zero(status, call->handle, call->beta, call->scale);
}

/* ---- shapes -----------------------------------------------------------------------------------
 */

uint32_t ls_product_shape(const struct ls_blas *call) {
    struct ls_shape shape = {.kind = LS_SHAPE_PRODUCT,
                             .dtype = ls_cuda_dtype(call->type_a),
                             .dtype_told = call->type_a,
                             .values = LS_PRODUCT_VALUES,
                             .value = {[LS_PRODUCT_M] = call->m,
                                       [LS_PRODUCT_N] = call->n,
                                       [LS_PRODUCT_K] = call->k,
                                       [LS_PRODUCT_LDA] = call->lda,
                                       [LS_PRODUCT_LDB] = call->ldb,
                                       [LS_PRODUCT_LDC] = call->ldc,
                                       [LS_PRODUCT_STRIDE_A] = call->stride_a,
                                       [LS_PRODUCT_STRIDE_B] = call->stride_b,
                                       [LS_PRODUCT_STRIDE_C] = call->stride_c,
                                       [LS_PRODUCT_BATCH] = call->batch,
                                       [LS_PRODUCT_OP_A] = call->op_a,
                                       [LS_PRODUCT_OP_B] = call->op_b,
                                       [LS_PRODUCT_DTYPE_B] = ls_cuda_dtype(call->type_b),
                                       [LS_PRODUCT_DTYPE_C] = ls_cuda_dtype(call->type_c),
                                       [LS_PRODUCT_COMPUTE] = call->compute}};
    return ls_shape_number(&shape);
}

static void add(struct ls_thread *self, enum ls_role_id role, const struct ls_blas *call,
                uint32_t shape, const void *address) {
    ls_operand_add(self, role, call->array ? LS_OPERAND_ARRAY : 0, shape, (uintptr_t)address);
}

/* Column-major. Of an array of addresses one matrix: the product says how many there are. */
static void matrix(struct ls_thread *self, enum ls_role_id role, const struct ls_blas *call,
                   int type, int64_t rows, int64_t columns, int64_t ld, int64_t stride,
                   const void *address) {
    bool stacked = !call->array && call->batch > 1;
    struct ls_shape shape = {.kind = LS_SHAPE_MATRIX,
                             .dims = stacked ? 3 : 2,
                             .dtype = ls_cuda_dtype(type),
                             .dtype_told = type,
                             .values = stacked ? 6 : 4,
                             .value = {rows, columns}};
    int64_t *next = shape.value + 2;
    if (stacked)
        *next++ = call->batch;
    *next++ = 1;
    *next++ = ld;
    if (stacked)
        *next = stride;
    add(self, role, call, ls_shape_number(&shape), address);
}

static void vector(struct ls_thread *self, enum ls_role_id role, const struct ls_blas *call,
                   int type, int64_t size, int64_t increment, int64_t stride, const void *address) {
    bool stacked = !call->array && call->batch > 1;
    struct ls_shape shape = {.kind = LS_SHAPE_TENSOR,
                             .dims = stacked ? 2 : 1,
                             .dtype = ls_cuda_dtype(type),
                             .dtype_told = type,
                             .values = stacked ? 4 : 2,
                             .value = {size}};
    int64_t *next = shape.value + 1;
    if (stacked)
        *next++ = call->batch;
    *next++ = increment;
    if (stacked)
        *next = stride;
    add(self, role, call, ls_shape_number(&shape), address);
}

static void product(struct ls_thread *self, const struct ls_blas *call) {
    ls_operand_add(self, LS_ROLE_PRODUCT, 0, ls_product_shape(call), 0);
}

/* ---- calls ------------------------------------------------------------------------------------
 */

static void gemm(struct ls_thread *self, const struct ls_blas *call, bool out) {
    uint32_t shape = ls_product_shape(call);
    ls_operand_add(self, LS_ROLE_PRODUCT, 0, shape, 0);
    add(self, LS_ROLE_A, call, shape, call->a);
    add(self, LS_ROLE_B, call, shape, call->b);
    add(self, out ? LS_ROLE_C_OUT : LS_ROLE_C, call, shape, call->c);
}

void ls_gemm(struct ls_thread *self, int status, const struct ls_blas *call) {
    if (!ls_session.env.layouts)
        return;
    gemm(self, call, writes_only(status, call));
}

/* y = op(A) x + beta y: a product with one column. */
void ls_gemv(struct ls_thread *self, int status, const struct ls_blas *call) {
    const bool plain = call->op_a == OP_N;
    struct ls_blas as = *call;
    as.m = plain ? call->m : call->n;
    as.k = plain ? call->n : call->m;
    as.n = 1;
    product(self, &as);
    matrix(self, LS_ROLE_A, call, call->type_a, call->m, call->n, call->lda, call->stride_a,
           call->a);
    vector(self, LS_ROLE_VECTOR_X, call, call->type_b, as.k, call->ldb, call->stride_b, call->b);
    vector(self, writes_only(status, call) ? LS_ROLE_Y : LS_ROLE_VECTOR_Y, call, call->type_c, as.m,
           call->ldc, call->stride_c, call->c);
}

/* A = x y' + A; b is x, c is y. */
void ls_ger(struct ls_thread *self, const struct ls_blas *call) {
    matrix(self, LS_ROLE_A_INOUT, call, call->type_a, call->m, call->n, call->lda, 0, call->a);
    vector(self, LS_ROLE_VECTOR_X, call, call->type_b, call->m, call->ldb, 0, call->b);
    vector(self, LS_ROLE_Y_IN, call, call->type_c, call->n, call->ldc, 0, call->c);
}

/* C = alpha op(A) + beta op(B): k is 0. */
void ls_geam(struct ls_thread *self, int status, const struct ls_blas *call) {
    const bool plain_a = call->op_a == OP_N, plain_b = call->op_b == OP_N;
    product(self, call);
    matrix(self, LS_ROLE_A, call, call->type_a, plain_a ? call->m : call->n,
           plain_a ? call->n : call->m, call->lda, 0, call->a);
    matrix(self, writes_only(status, call) ? LS_ROLE_B_UNUSED : LS_ROLE_B, call, call->type_b,
           plain_b ? call->m : call->n, plain_b ? call->n : call->m, call->ldb, 0, call->b);
    matrix(self, LS_ROLE_C_OUT, call, call->type_c, call->m, call->n, call->ldc, 0, call->c);
}

/* The square matrix is as long as the side of the other one that it stands at. */
static int64_t square(const struct ls_blas *call) {
    return call->right ? call->n : call->m;
}

void ls_symm(struct ls_thread *self, int status, const struct ls_blas *call) {
    struct ls_blas as = *call;
    as.k = square(call);
    product(self, &as);
    matrix(self, LS_ROLE_A, call, call->type_a, as.k, as.k, call->lda, 0, call->a);
    matrix(self, LS_ROLE_B, call, call->type_b, call->m, call->n, call->ldb, 0, call->b);
    matrix(self, writes_only(status, call) ? LS_ROLE_C_OUT : LS_ROLE_C, call, call->type_c, call->m,
           call->n, call->ldc, 0, call->c);
}

/* C = op(A) op(A)' + beta C: n by n. */
void ls_syrk(struct ls_thread *self, int status, const struct ls_blas *call) {
    const bool plain = call->op_a == OP_N;
    struct ls_blas as = *call;
    as.m = call->n;
    as.op_b = plain ? call->op_b : OP_N;
    as.ldb = call->lda;
    product(self, &as);
    matrix(self, LS_ROLE_A, call, call->type_a, plain ? call->n : call->k,
           plain ? call->k : call->n, call->lda, 0, call->a);
    matrix(self, writes_only(status, &as) ? LS_ROLE_C_OUT : LS_ROLE_C, call, call->type_c, call->n,
           call->n, call->ldc, 0, call->c);
}

/* B becomes X of op(A) X = alpha B. */
void ls_trsm(struct ls_thread *self, const struct ls_blas *call) {
    struct ls_blas as = *call;
    as.k = square(call);
    as.ldc = call->ldb;
    product(self, &as);
    matrix(self, LS_ROLE_A, call, call->type_a, as.k, as.k, call->lda, 0, call->a);
    matrix(self, LS_ROLE_B_INOUT, call, call->type_b, call->m, call->n, call->ldb, 0, call->b);
}

/* C = A diag(x), or diag(x) A; b is x. */
void ls_dgmm(struct ls_thread *self, const struct ls_blas *call) {
    matrix(self, LS_ROLE_A, call, call->type_a, call->m, call->n, call->lda, 0, call->a);
    vector(self, LS_ROLE_VECTOR_X, call, call->type_b, square(call), call->ldb, 0, call->b);
    matrix(self, LS_ROLE_C_OUT, call, call->type_c, call->m, call->n, call->ldc, 0, call->c);
}

/* ---- groups -----------------------------------------------------------------------------------
 */

static int64_t at(const struct ls_blas_groups *call, const void *array, int64_t i) {
    return call->wide ? ((const int64_t *)array)[i] : ((const int *)array)[i];
}

static bool group_is_out(const struct ls_blas_groups *call, int64_t i) {
    static const uint8_t sizes[] = {[LS_CUDA_R_32F] = 4, [LS_CUDA_R_64F] = 8, [LS_CUDA_R_16F] = 2};
    if (call->scale < 0 || call->scale > LS_CUDA_R_16F || !call->beta)
        return false;
    const char *beta = (const char *)call->beta + i * sizes[call->scale];
    return at(call, call->m, i) > 0 && at(call, call->n, i) > 0 &&
           beta_is_zero(0, call->handle, beta, call->scale);
}

/* A group's products lie one behind the other in the arrays of addresses. */
void ls_gemm_grouped(struct ls_thread *self, int status, const struct ls_blas_groups *call) {
    struct ls_blas one = {.handle = call->handle,
                          .a = call->a,
                          .b = call->b,
                          .c = call->c,
                          .type_a = call->type_a,
                          .type_b = call->type_b,
                          .type_c = call->type_c,
                          .compute = call->compute,
                          .array = true};
    if (status != 0) { /* the host's arrays may be anything */
        add(self, LS_ROLE_A, &one, 0, call->a);
        add(self, LS_ROLE_B, &one, 0, call->b);
        add(self, LS_ROLE_C, &one, 0, call->c);
        return;
    }
    int64_t before = 0;
    for (int64_t i = 0; i < call->count && self->operand_count < LS_OPERANDS_MOST; i++) {
        one.op_a = call->op_a[i];
        one.op_b = call->op_b[i];
        one.m = at(call, call->m, i);
        one.n = at(call, call->n, i);
        one.k = at(call, call->k, i);
        one.lda = at(call, call->lda, i);
        one.ldb = at(call, call->ldb, i);
        one.ldc = at(call, call->ldc, i);
        one.batch = at(call, call->sizes, i);
        one.a = call->a + before;
        one.b = call->b + before;
        one.c = call->c + before;
        gemm(self, &one, group_is_out(call, i));
        before += one.batch;
    }
}
