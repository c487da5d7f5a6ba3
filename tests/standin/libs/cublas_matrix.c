/*
 * cublas_matrix.c - matrices and vectors beside gemm: gemv, ger, geam, symm, hemm, syrk, herk,
 * trsm, dgmm. Arguments are checked as the real library does, logged in cublas_gemm.c's form, and a
 * kernel without arithmetic is put on the stream. Any thread; not safe in a signal handler.
 *
 * Fields: handle stream, op_a op_b side m n k as far as the function has them, and for each matrix
 * `a a_type lda stride_a`, for each vector `x x_type incx stride_x`; batch.
 */
#include <stdio.h>

#include "cublas.h"

struct operand {
    char letter;
    const void *address;
    int type;
    int64_t rows, columns, step, stride; /* step: the leading dimension, or the increment */
    bool vector;
};

struct work {
    cublasHandle_t handle;
    const char *name;
    int op_a, op_b, side; /* -1: it has none */
    int64_t m, n, k;      /* -1: it has none */
    struct operand operand[3];
    int64_t batch;
    bool strided, array;
    bool wrong; /* an argument that only the function knows */
};

/* What each function begins with, and overrides as far as it has it. */
#pragma GCC diagnostic ignored "-Woverride-init"
#define NONE .op_a = -1, .op_b = -1, .side = -1, .m = -1, .n = -1, .k = -1

static void put_named(struct standin_call *call, const char *before, char letter, const char *after,
                      int64_t value) {
    char key[16];
    snprintf(key, sizeof key, "%s%c%s", before, letter, after);
    standin_put_signed(call, key, value);
}

static void put_op(struct standin_call *call, const char *key, int op) {
    if (op >= 0)
        standin_put_text(call, key,
                         op == CUBLAS_OP_N   ? "N"
                         : op == CUBLAS_OP_T ? "T"
                         : op == CUBLAS_OP_C ? "C"
                                             : "?");
}

static void put_work(struct standin_call *call, const struct work *w) {
    put_op(call, "op_a", w->op_a);
    put_op(call, "op_b", w->op_b);
    if (w->side >= 0)
        standin_put_signed(call, "side", w->side);
    standin_put_signed(call, "m", w->m);
    standin_put_signed(call, "n", w->n);
    if (w->k >= 0)
        standin_put_signed(call, "k", w->k);
    for (int i = 0; i < 3 && w->operand[i].letter; i++) {
        const struct operand *o = &w->operand[i];
        put_named(call, "", o->letter, "", (int64_t)(uintptr_t)o->address);
        put_named(call, "", o->letter, "_type", o->type);
        put_named(call, o->vector ? "inc" : "ld", o->letter, "", o->step);
        if (w->strided)
            put_named(call, "stride_", o->letter, "", o->stride);
    }
    standin_put_signed(call, "batch", w->batch);
}

static bool in_reach(const struct work *w, const struct operand *o) {
    if (w->array)
        return standin_reachable(o->address, (uint64_t)w->batch * sizeof(void *));
    int64_t step = o->step < 0 ? -o->step : o->step;
    int64_t last = o->vector ? (o->rows - 1) * step + 1 : (o->columns - 1) * step + o->rows;
    if (o->rows == 0 || o->columns == 0)
        return true;
    return standin_reachable(o->address, (uint64_t)((w->batch - 1) * o->stride + last) *
                                             cublas_element_size(o->type));
}

static int run(const struct work *w) {
    bool empty = w->batch == 0;
    if (w->wrong || w->op_a > CUBLAS_OP_C || w->op_b > CUBLAS_OP_C || w->side > 1 || w->batch < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 3 && w->operand[i].letter; i++) {
        const struct operand *o = &w->operand[i];
        if (o->rows < 0 || o->columns < 0 ||
            (o->vector ? o->step == 0 : o->step < (o->rows > 1 ? o->rows : 1)))
            return CUBLAS_STATUS_INVALID_VALUE;
        empty |= o->rows == 0 || o->columns == 0;
    }
    if (empty)
        return CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < 3 && w->operand[i].letter; i++)
        if (!in_reach(w, &w->operand[i]))
            return CUBLAS_STATUS_EXECUTION_FAILED;
    char kernel[64];
    snprintf(kernel, sizeof kernel, "%s_kernel", w->name);
    return cublas_launch(w->handle, kernel);
}

static cublasStatus_t start(const char *name, const void *caller, struct work w) {
    struct standin_call call;
    standin_enter(&call, name, caller);
    int status = cublas_check_handle(&call, w.handle);
    if (cublas_handle_live(w.handle))
        lib_put_pointer(&call, "stream", w.handle->stream);
    w.name = name;
    put_work(&call, &w);
    if (status == 0)
        status = run(&w);
    return (cublasStatus_t)standin_leave(&call, status);
}

#define START(...)                                                                                 \
    return start(__func__, __builtin_return_address(0),                                            \
                 (struct work){NONE, .handle = handle, __VA_ARGS__})
#define MATRIX(letter, address, type, rows, columns, ld, ...)                                      \
    { letter, address, type, rows, columns, ld, __VA_ARGS__ }
#define VECTOR(letter, address, type, size, inc, stride)                                           \
    { letter, address, type, size, 1, inc, stride, true }
#define BOTH(FORM, name, ...)                                                                      \
    FORM(name, int, __VA_ARGS__)                                                                   \
    FORM(name##_64, int64_t, __VA_ARGS__)
#define EXPORT STANDIN_EXPORT cublasStatus_t

/* ---- gemv, ger ----------------------------------------------------------------------------------
 */

#define GEMV_HEAD(INT) cublasHandle_t handle, cublasOperation_t trans, INT m, INT n
#define GEMV(a_, sa, x_, sx, y_, sy, type, y_type, ...)                                            \
    START(.op_a = trans, .m = m, .n = n,                                                           \
          .operand = {MATRIX('a', a_, type, m, n, lda, sa),                                        \
                      VECTOR('x', x_, type, trans == CUBLAS_OP_N ? n : m, incx, sx),               \
                      VECTOR('y', y_, y_type, trans == CUBLAS_OP_N ? m : n, incy, sy)},            \
          .wrong = !alpha || !beta, __VA_ARGS__)
#define GEMV_PLAIN(name, INT, T, type)                                                             \
    EXPORT name(GEMV_HEAD(INT), const T *alpha, const T *A, INT lda, const T *x, INT incx,         \
                const T *beta, T *y, INT incy) {                                                   \
        GEMV(A, 0, x, 0, y, 0, type, type, .batch = 1);                                            \
    }
#define GEMV_BATCHED(name, INT, T, type, Y, y_type, S)                                             \
    EXPORT name(GEMV_HEAD(INT), const S *alpha, const T *const A[], INT lda, const T *const x[],   \
                INT incx, const S *beta, Y *const y[], INT incy, INT batchCount) {                 \
        GEMV(A, 0, x, 0, y, 0, type, y_type, .batch = batchCount, .array = true);                  \
    }
#define GEMV_STRIDED(name, INT, T, type, Y, y_type, S)                                             \
    EXPORT name(GEMV_HEAD(INT), const S *alpha, const T *A, INT lda, long long int strideA,        \
                const T *x, INT incx, long long int stridex, const S *beta, Y *y, INT incy,        \
                long long int stridey, INT batchCount) {                                           \
        GEMV(A, strideA, x, stridex, y, stridey, type, y_type, .batch = batchCount,                \
             .strided = true);                                                                     \
    }
#define GEMV_BATCHES(letters, ...)                                                                 \
    BOTH(GEMV_BATCHED, cublas##letters##gemvBatched, __VA_ARGS__)                                  \
    BOTH(GEMV_STRIDED, cublas##letters##gemvStridedBatched, __VA_ARGS__)
#define GEMV_ALL(letter, T, type)                                                                  \
    BOTH(GEMV_PLAIN, cublas##letter##gemv_v2, T, type)                                             \
    GEMV_BATCHES(letter, T, type, T, type, T)

GEMV_ALL(S, float, CUDA_R_32F)
GEMV_ALL(D, double, CUDA_R_64F)
GEMV_ALL(C, cuComplex, CUDA_C_32F)
GEMV_ALL(Z, cuDoubleComplex, CUDA_C_64F)
GEMV_BATCHES(HSH, __half, CUDA_R_16F, __half, CUDA_R_16F, float)
GEMV_BATCHES(HSS, __half, CUDA_R_16F, float, CUDA_R_32F, float)
GEMV_BATCHES(TST, __half, CUDA_R_16BF, __half, CUDA_R_16BF, float)
GEMV_BATCHES(TSS, __half, CUDA_R_16BF, float, CUDA_R_32F, float)

#define GER(name, INT, T, type)                                                                    \
    EXPORT name(cublasHandle_t handle, INT m, INT n, const T *alpha, const T *x, INT incx,         \
                const T *y, INT incy, T *A, INT lda) {                                             \
        START(.m = m, .n = n,                                                                      \
              .operand = {MATRIX('a', A, type, m, n, lda, 0), VECTOR('x', x, type, m, incx, 0),    \
                          VECTOR('y', y, type, n, incy, 0)},                                       \
              .wrong = !alpha, .batch = 1);                                                        \
    }
BOTH(GER, cublasSger_v2, float, CUDA_R_32F)
BOTH(GER, cublasDger_v2, double, CUDA_R_64F)
BOTH(GER, cublasCgeru_v2, cuComplex, CUDA_C_32F)
BOTH(GER, cublasCgerc_v2, cuComplex, CUDA_C_32F)
BOTH(GER, cublasZgeru_v2, cuDoubleComplex, CUDA_C_64F)
BOTH(GER, cublasZgerc_v2, cuDoubleComplex, CUDA_C_64F)

/* ---- matrices -----------------------------------------------------------------------------------
 */

#define OP_ROWS(op, rows, columns) ((op) == CUBLAS_OP_N ? (rows) : (columns))
#define GEAM(name, INT, T, type)                                                                   \
    EXPORT name(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, INT m,  \
                INT n, const T *alpha, const T *A, INT lda, const T *beta, const T *B, INT ldb,    \
                T *C, INT ldc) {                                                                   \
        START(.op_a = transa, .op_b = transb, .m = m, .n = n,                                      \
              .operand = {MATRIX('a', A, type, OP_ROWS(transa, m, n), OP_ROWS(transa, n, m), lda), \
                          MATRIX('b', B, type, OP_ROWS(transb, m, n), OP_ROWS(transb, n, m), ldb), \
                          MATRIX('c', C, type, m, n, ldc)},                                        \
              .wrong = !alpha || !beta, .batch = 1);                                               \
    }
BOTH(GEAM, cublasSgeam, float, CUDA_R_32F)
BOTH(GEAM, cublasDgeam, double, CUDA_R_64F)
BOTH(GEAM, cublasCgeam, cuComplex, CUDA_C_32F)
BOTH(GEAM, cublasZgeam, cuDoubleComplex, CUDA_C_64F)

static bool fill_wrong(cublasFillMode_t uplo) {
    return (int)uplo < 0 || (int)uplo > 2;
}
#define SQUARE(side) ((int)(side) == 1 ? n : m)

#define SYMM(name, INT, T, type)                                                                   \
    EXPORT name(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo, INT m, INT n, \
                const T *alpha, const T *A, INT lda, const T *B, INT ldb, const T *beta, T *C,     \
                INT ldc) {                                                                         \
        START(.side = (int)side, .m = m, .n = n,                                                   \
              .operand = {MATRIX('a', A, type, SQUARE(side), SQUARE(side), lda),                   \
                          MATRIX('b', B, type, m, n, ldb), MATRIX('c', C, type, m, n, ldc)},       \
              .wrong = !alpha || !beta || fill_wrong(uplo), .batch = 1);                           \
    }
BOTH(SYMM, cublasSsymm_v2, float, CUDA_R_32F)
BOTH(SYMM, cublasDsymm_v2, double, CUDA_R_64F)
BOTH(SYMM, cublasCsymm_v2, cuComplex, CUDA_C_32F)
BOTH(SYMM, cublasZsymm_v2, cuDoubleComplex, CUDA_C_64F)
BOTH(SYMM, cublasChemm_v2, cuComplex, CUDA_C_32F)
BOTH(SYMM, cublasZhemm_v2, cuDoubleComplex, CUDA_C_64F)

#define SYRK_BODY(a_type_, c_type_)                                                                \
    START(.op_a = trans, .m = n, .n = n, .k = k,                                                   \
          .operand = {MATRIX('a', A, a_type_, OP_ROWS(trans, n, k), OP_ROWS(trans, k, n), lda),    \
                      MATRIX('c', C, c_type_, n, n, ldc)},                                         \
          .wrong = !alpha || !beta || fill_wrong(uplo) || k < 0, .batch = 1)
#define SYRK(name, INT, T, type, S)                                                                \
    EXPORT name(cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t trans, INT n,      \
                INT k, const S *alpha, const T *A, INT lda, const S *beta, T *C, INT ldc) {        \
        SYRK_BODY(type, type);                                                                     \
    }
#define SYRK_EX(name, INT, S)                                                                      \
    EXPORT name(cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t trans, INT n,      \
                INT k, const S *alpha, const void *A, cudaDataType Atype, INT lda, const S *beta,  \
                void *C, cudaDataType Ctype, INT ldc) {                                            \
        SYRK_BODY((int)Atype, (int)Ctype);                                                         \
    }
BOTH(SYRK, cublasSsyrk_v2, float, CUDA_R_32F, float)
BOTH(SYRK, cublasDsyrk_v2, double, CUDA_R_64F, double)
BOTH(SYRK, cublasCsyrk_v2, cuComplex, CUDA_C_32F, cuComplex)
BOTH(SYRK, cublasZsyrk_v2, cuDoubleComplex, CUDA_C_64F, cuDoubleComplex)
BOTH(SYRK, cublasCherk_v2, cuComplex, CUDA_C_32F, float)
BOTH(SYRK, cublasZherk_v2, cuDoubleComplex, CUDA_C_64F, double)
BOTH(SYRK_EX, cublasCsyrkEx, cuComplex)
BOTH(SYRK_EX, cublasCsyrk3mEx, cuComplex)
BOTH(SYRK_EX, cublasCherkEx, float)
BOTH(SYRK_EX, cublasCherk3mEx, float)

#define TRSM_HEAD(INT)                                                                             \
    cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t uplo, cublasOperation_t trans,  \
        cublasDiagType_t diag, INT m, INT n
#define TRSM_BODY(type, ...)                                                                       \
    START(.op_a = trans, .side = (int)side, .m = m, .n = n,                                        \
          .operand = {MATRIX('a', A, type, SQUARE(side), SQUARE(side), lda),                       \
                      MATRIX('b', B, type, m, n, ldb)},                                            \
          .wrong = !alpha || fill_wrong(uplo) || (unsigned)diag > 1, __VA_ARGS__)
#define TRSM(name, INT, T, type)                                                                   \
    EXPORT name(TRSM_HEAD(INT), const T *alpha, const T *A, INT lda, T *B, INT ldb) {              \
        TRSM_BODY(type, .batch = 1);                                                               \
    }
#define TRSM_BATCHED(name, INT, T, type)                                                           \
    EXPORT name(TRSM_HEAD(INT), const T *alpha, const T *const A[], INT lda, T *const B[],         \
                INT ldb, INT batchCount) {                                                         \
        TRSM_BODY(type, .batch = batchCount, .array = true);                                       \
    }
#define TRSM_ALL(letter, T, type)                                                                  \
    BOTH(TRSM, cublas##letter##trsm_v2, T, type)                                                   \
    BOTH(TRSM_BATCHED, cublas##letter##trsmBatched, T, type)
TRSM_ALL(S, float, CUDA_R_32F)
TRSM_ALL(D, double, CUDA_R_64F)
TRSM_ALL(C, cuComplex, CUDA_C_32F)
TRSM_ALL(Z, cuDoubleComplex, CUDA_C_64F)

#define DGMM(name, INT, T, type)                                                                   \
    EXPORT name(cublasHandle_t handle, cublasSideMode_t mode, INT m, INT n, const T *A, INT lda,   \
                const T *x, INT incx, T *C, INT ldc) {                                             \
        START(.side = (int)mode, .m = m, .n = n,                                                   \
              .operand = {MATRIX('a', A, type, m, n, lda),                                         \
                          VECTOR('x', x, type, SQUARE(mode), incx, 0),                             \
                          MATRIX('c', C, type, m, n, ldc)},                                        \
              .batch = 1);                                                                         \
    }
BOTH(DGMM, cublasSdgmm, float, CUDA_R_32F)
BOTH(DGMM, cublasDdgmm, double, CUDA_R_64F)
BOTH(DGMM, cublasCdgmm, cuComplex, CUDA_C_32F)
BOTH(DGMM, cublasZdgmm, cuDoubleComplex, CUDA_C_64F)
