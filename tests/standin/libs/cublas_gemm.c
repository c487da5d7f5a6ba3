/*
 * cublas_gemm.c - the matrix products of cuBLAS: every entry point checks its arguments as the
 * real library does, logs them in one form, and puts a kernel without arithmetic on the stream.
 * Any thread; not safe in a signal handler.
 *
 * Fields: handle stream op_a op_b m n k a a_type lda stride_a b b_type ldb stride_b c c_type ldc
 * stride_c batch compute. The batched (array) functions log the arrays' addresses, and no strides.
 */
#include <stdio.h>

#include "cublas.h"

struct gemm {
    cublasHandle_t handle;
    int op_a, op_b;
    int64_t m, n, k;
    const void *alpha, *beta;
    const void *a, *b, *c;
    int a_type, b_type, c_type;
    int64_t lda, ldb, ldc;
    bool strided, array;
    int64_t stride_a, stride_b, stride_c;
    int64_t batch;
    int compute;
};

size_t cublas_element_size(int data_type) {
    switch (data_type) {
    case CUDA_R_8I:
    case CUDA_R_8U:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
        return 1;
    case CUDA_R_16F:
    case CUDA_R_16BF:
    case CUDA_C_8I:
        return 2;
    case CUDA_R_32F:
    case CUDA_R_32I:
        return 4;
    case CUDA_R_64F:
    case CUDA_C_32F:
        return 8;
    case CUDA_C_64F:
        return 16;
    default:
        return 0;
    }
}

/* The combinations of cublasGemmEx's documentation: A and B share a type. */
static bool types_supported(const struct gemm *g) {
    int ab = g->a_type, c = g->c_type;
    if (ab != g->b_type)
        return false;
    switch (g->compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
        return ab == CUDA_R_16F && c == CUDA_R_16F;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
        return ab == CUDA_R_8I && c == CUDA_R_32I;
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
        if (ab == CUDA_C_8I || ab == CUDA_C_32F)
            return c == CUDA_C_32F;
        if (ab == CUDA_R_16F || ab == CUDA_R_16BF)
            return c == ab || c == CUDA_R_32F;
        return (ab == CUDA_R_8I || ab == CUDA_R_32F) && c == CUDA_R_32F;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
        return (ab == CUDA_R_64F || ab == CUDA_C_64F) && c == ab;
    default: /* the fast and emulated forms of single precision */
        return (ab == CUDA_R_32F || ab == CUDA_C_32F) && c == ab;
    }
}

static int64_t at_least_one(int64_t value) {
    return value > 1 ? value : 1;
}

static int check_arguments(const struct gemm *g) {
    if (g->op_a < CUBLAS_OP_N || g->op_a > CUBLAS_OP_C || g->op_b < CUBLAS_OP_N ||
        g->op_b > CUBLAS_OP_C || g->m < 0 || g->n < 0 || g->k < 0 || g->batch < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (g->lda < at_least_one(g->op_a == CUBLAS_OP_N ? g->m : g->k) ||
        g->ldb < at_least_one(g->op_b == CUBLAS_OP_N ? g->k : g->n) || g->ldc < at_least_one(g->m))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!g->alpha || !g->beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!types_supported(g))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

/* Whether a stack of column-major matrices lies in memory that kernels reach. */
static bool in_reach(const struct gemm *g, const void *matrix, int type, int64_t rows, int64_t cols,
                     int64_t ld, int64_t stride) {
    if (rows == 0 || cols == 0)
        return true;
    if (g->array)
        return standin_reachable(matrix, (uint64_t)g->batch * sizeof(void *));
    int64_t elements = (g->batch - 1) * stride + (cols - 1) * ld + rows;
    return standin_reachable(matrix, (uint64_t)elements * cublas_element_size(type));
}

/* A real device finds a stray operand when the kernel runs; here the launch fails. */
static bool operands_in_reach(const struct gemm *g) {
    bool plain_a = g->op_a == CUBLAS_OP_N, plain_b = g->op_b == CUBLAS_OP_N;
    return in_reach(g, g->a, g->a_type, plain_a ? g->m : g->k, plain_a ? g->k : g->m, g->lda,
                    g->stride_a) &&
           in_reach(g, g->b, g->b_type, plain_b ? g->k : g->n, plain_b ? g->n : g->k, g->ldb,
                    g->stride_b) &&
           in_reach(g, g->c, g->c_type, g->m, g->n, g->ldc, g->stride_c);
}

static const char *op_name(int op) {
    return op == CUBLAS_OP_N ? "N" : op == CUBLAS_OP_T ? "T" : op == CUBLAS_OP_C ? "C" : "?";
}

static void put_gemm(struct standin_call *call, const struct gemm *g) {
    standin_put_text(call, "op_a", op_name(g->op_a));
    standin_put_text(call, "op_b", op_name(g->op_b));
    standin_put_signed(call, "m", g->m);
    standin_put_signed(call, "n", g->n);
    standin_put_signed(call, "k", g->k);
    lib_put_pointer(call, "a", g->a);
    standin_put_signed(call, "a_type", g->a_type);
    standin_put_signed(call, "lda", g->lda);
    lib_put_pointer(call, "b", g->b);
    standin_put_signed(call, "b_type", g->b_type);
    standin_put_signed(call, "ldb", g->ldb);
    lib_put_pointer(call, "c", g->c);
    standin_put_signed(call, "c_type", g->c_type);
    standin_put_signed(call, "ldc", g->ldc);
    if (g->strided) {
        standin_put_signed(call, "stride_a", g->stride_a);
        standin_put_signed(call, "stride_b", g->stride_b);
        standin_put_signed(call, "stride_c", g->stride_c);
    }
    standin_put_signed(call, "batch", g->batch);
    standin_put_signed(call, "compute", g->compute);
}

static int run(const struct gemm *g) {
    int status = check_arguments(g);
    if (status || g->m == 0 || g->n == 0 || g->batch == 0)
        return status;
    if (!operands_in_reach(g))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    char kernel[64];
    snprintf(kernel, sizeof kernel, "cublas_gemm_%d_%c%c_kernel", g->a_type, *op_name(g->op_a),
             *op_name(g->op_b));
    double m = (double)g->m, n = (double)g->n, k = (double)g->k, batch = (double)g->batch;
    standin_work(batch * ((m * k + k * n) * (double)cublas_element_size(g->a_type) +
                          m * n * (double)cublas_element_size(g->c_type)),
                 2 * batch * m * n * k);
    return cublas_launch(g->handle, kernel);
}

static int gemm(const char *name, const void *caller, struct gemm g) {
    struct standin_call call;
    standin_enter(&call, name, caller);
    int status = cublas_check_handle(&call, g.handle);
    if (cublas_handle_live(g.handle))
        lib_put_pointer(&call, "stream", g.handle->stream);
    put_gemm(&call, &g);
    if (status == 0)
        status = run(&g);
    return standin_leave(&call, status);
}

/* ---- the entry points ---- */

/* What each of them passes on as it is; `batch` and the rest follow. */
#define COMMON                                                                                     \
    .handle = handle, .op_a = transa, .op_b = transb, .m = m, .n = n, .k = k, .alpha = alpha,      \
    .beta = beta, .lda = lda, .ldb = ldb, .ldc = ldc
#define SAME_TYPE(t) .a_type = t, .b_type = t, .c_type = t
#define GEMM(...) return gemm(__func__, __builtin_return_address(0), (struct gemm){__VA_ARGS__})
#define HEAD(INT)                                                                                  \
    cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, INT m, INT n, INT k

#define PLAIN(name, INT, T, type, comp)                                                            \
    STANDIN_EXPORT cublasStatus_t name(HEAD(INT), const T *alpha, const T *A, INT lda, const T *B, \
                                       INT ldb, const T *beta, T *C, INT ldc) {                    \
        GEMM(COMMON, .a = A, .b = B, .c = C, SAME_TYPE(type), .batch = 1, .compute = comp);        \
    }
#define STRIDED(name, INT, T, type, comp)                                                          \
    STANDIN_EXPORT cublasStatus_t name(HEAD(INT), const T *alpha, const T *A, INT lda,             \
                                       long long int strideA, const T *B, INT ldb,                 \
                                       long long int strideB, const T *beta, T *C, INT ldc,        \
                                       long long int strideC, INT batchCount) {                    \
        GEMM(COMMON, .a = A, .b = B, .c = C, SAME_TYPE(type), .strided = true,                     \
             .stride_a = strideA, .stride_b = strideB, .stride_c = strideC, .batch = batchCount,   \
             .compute = comp);                                                                     \
    }
#define BATCHED(name, INT, T, type, comp)                                                          \
    STANDIN_EXPORT cublasStatus_t name(HEAD(INT), const T *alpha, const T *const A[], INT lda,     \
                                       const T *const B[], INT ldb, const T *beta, T *const C[],   \
                                       INT ldc, INT batchCount) {                                  \
        GEMM(COMMON, .a = A, .b = B, .c = C, SAME_TYPE(type), .array = true, .batch = batchCount,  \
             .compute = comp);                                                                     \
    }
#define EX_SCALED(name, INT, T, comp)                                                              \
    STANDIN_EXPORT cublasStatus_t name(                                                            \
        HEAD(INT), const T *alpha, const void *A, cudaDataType Atype, INT lda, const void *B,      \
        cudaDataType Btype, INT ldb, const T *beta, void *C, cudaDataType Ctype, INT ldc) {        \
        GEMM(COMMON, .a = A, .b = B, .c = C, .a_type = Atype, .b_type = Btype, .c_type = Ctype,    \
             .batch = 1, .compute = comp);                                                         \
    }
#define EX(name, INT)                                                                              \
    STANDIN_EXPORT cublasStatus_t name(                                                            \
        HEAD(INT), const void *alpha, const void *A, cudaDataType Atype, INT lda, const void *B,   \
        cudaDataType Btype, INT ldb, const void *beta, void *C, cudaDataType Ctype, INT ldc,       \
        cublasComputeType_t computeType, cublasGemmAlgo_t algo) {                                  \
        (void)algo;                                                                                \
        GEMM(COMMON, .a = A, .b = B, .c = C, .a_type = Atype, .b_type = Btype, .c_type = Ctype,    \
             .batch = 1, .compute = computeType);                                                  \
    }
#define EX_STRIDED(name, INT)                                                                      \
    STANDIN_EXPORT cublasStatus_t name(                                                            \
        HEAD(INT), const void *alpha, const void *A, cudaDataType Atype, INT lda,                  \
        long long int strideA, const void *B, cudaDataType Btype, INT ldb, long long int strideB,  \
        const void *beta, void *C, cudaDataType Ctype, INT ldc, long long int strideC,             \
        INT batchCount, cublasComputeType_t computeType, cublasGemmAlgo_t algo) {                  \
        (void)algo;                                                                                \
        GEMM(COMMON, .a = A, .b = B, .c = C, .a_type = Atype, .b_type = Btype, .c_type = Ctype,    \
             .strided = true, .stride_a = strideA, .stride_b = strideB, .stride_c = strideC,       \
             .batch = batchCount, .compute = computeType);                                         \
    }
#define EX_BATCHED(name, INT)                                                                      \
    STANDIN_EXPORT cublasStatus_t name(                                                            \
        HEAD(INT), const void *alpha, const void *const A[], cudaDataType Atype, INT lda,          \
        const void *const B[], cudaDataType Btype, INT ldb, const void *beta, void *const C[],     \
        cudaDataType Ctype, INT ldc, INT batchCount, cublasComputeType_t computeType,              \
        cublasGemmAlgo_t algo) {                                                                   \
        (void)algo;                                                                                \
        GEMM(COMMON, .a = A, .b = B, .c = C, .a_type = Atype, .b_type = Btype, .c_type = Ctype,    \
             .array = true, .batch = batchCount, .compute = computeType);                          \
    }

#define FAMILY(letter, plain, T, type, comp)                                                       \
    PLAIN(plain, int, T, type, comp)                                                               \
    PLAIN(plain##_64, int64_t, T, type, comp)                                                      \
    STRIDED(cublas##letter##gemmStridedBatched, int, T, type, comp)                                \
    STRIDED(cublas##letter##gemmStridedBatched_64, int64_t, T, type, comp)                         \
    BATCHED(cublas##letter##gemmBatched, int, T, type, comp)                                       \
    BATCHED(cublas##letter##gemmBatched_64, int64_t, T, type, comp)

FAMILY(S, cublasSgemm_v2, float, CUDA_R_32F, CUBLAS_COMPUTE_32F)
FAMILY(D, cublasDgemm_v2, double, CUDA_R_64F, CUBLAS_COMPUTE_64F)
FAMILY(C, cublasCgemm_v2, cuComplex, CUDA_C_32F, CUBLAS_COMPUTE_32F)
FAMILY(Z, cublasZgemm_v2, cuDoubleComplex, CUDA_C_64F, CUBLAS_COMPUTE_64F)
FAMILY(H, cublasHgemm, __half, CUDA_R_16F, CUBLAS_COMPUTE_16F)

PLAIN(cublasCgemm3m, int, cuComplex, CUDA_C_32F, CUBLAS_COMPUTE_32F)
PLAIN(cublasCgemm3m_64, int64_t, cuComplex, CUDA_C_32F, CUBLAS_COMPUTE_32F)
BATCHED(cublasCgemm3mBatched, int, cuComplex, CUDA_C_32F, CUBLAS_COMPUTE_32F)
BATCHED(cublasCgemm3mBatched_64, int64_t, cuComplex, CUDA_C_32F, CUBLAS_COMPUTE_32F)
STRIDED(cublasCgemm3mStridedBatched, int, cuComplex, CUDA_C_32F, CUBLAS_COMPUTE_32F)
STRIDED(cublasCgemm3mStridedBatched_64, int64_t, cuComplex, CUDA_C_32F, CUBLAS_COMPUTE_32F)
PLAIN(cublasZgemm3m, int, cuDoubleComplex, CUDA_C_64F, CUBLAS_COMPUTE_64F)
PLAIN(cublasZgemm3m_64, int64_t, cuDoubleComplex, CUDA_C_64F, CUBLAS_COMPUTE_64F)

EX_SCALED(cublasSgemmEx, int, float, CUBLAS_COMPUTE_32F)
EX_SCALED(cublasSgemmEx_64, int64_t, float, CUBLAS_COMPUTE_32F)
EX_SCALED(cublasCgemmEx, int, cuComplex, CUBLAS_COMPUTE_32F)
EX_SCALED(cublasCgemmEx_64, int64_t, cuComplex, CUBLAS_COMPUTE_32F)
EX_SCALED(cublasCgemm3mEx, int, cuComplex, CUBLAS_COMPUTE_32F)
EX_SCALED(cublasCgemm3mEx_64, int64_t, cuComplex, CUBLAS_COMPUTE_32F)

EX(cublasGemmEx, int)
EX(cublasGemmEx_64, int64_t)
EX_STRIDED(cublasGemmStridedBatchedEx, int)
EX_STRIDED(cublasGemmStridedBatchedEx_64, int64_t)
EX_BATCHED(cublasGemmBatchedEx, int)
EX_BATCHED(cublasGemmBatchedEx_64, int64_t)

/* ---- groups: a line has the first one's sizes, and lists of all
 * ---------------------------------- */

#define GROUPS_MOST 32

struct groups {
    cublasHandle_t handle;
    int64_t count;
    const void *alpha, *beta;
    struct gemm group[GROUPS_MOST];
};

static void put_list(struct standin_call *call, const char *key, const struct groups *groups,
                     size_t field) {
    char text[GROUPS_MOST * 21] = "";
    int used = 0;
    for (int64_t i = 0; i < groups->count && i < GROUPS_MOST; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s%lld", i ? "," : "",
                         *(const long long *)((const char *)&groups->group[i] + field));
    standin_put_text(call, key, text);
}

static int run_groups(const struct groups *groups) {
    if (groups->count < 0 || groups->count > GROUPS_MOST || !groups->alpha || !groups->beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int64_t i = 0; i < groups->count; i++) {
        int status = run(&groups->group[i]);
        if (status)
            return status;
    }
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t start_groups(const char *name, const void *caller, const struct groups *g) {
    struct standin_call call;
    standin_enter(&call, name, caller);
    int status = cublas_check_handle(&call, g->handle);
    if (cublas_handle_live(g->handle))
        lib_put_pointer(&call, "stream", g->handle->stream);
    put_list(&call, "group_m", g, offsetof(struct gemm, m));
    put_list(&call, "group_n", g, offsetof(struct gemm, n));
    put_list(&call, "group_k", g, offsetof(struct gemm, k));
    put_list(&call, "group_a", g, offsetof(struct gemm, a));
    put_list(&call, "group_b", g, offsetof(struct gemm, b));
    put_list(&call, "group_c", g, offsetof(struct gemm, c));
    put_list(&call, "group_lda", g, offsetof(struct gemm, lda));
    put_list(&call, "group_ldb", g, offsetof(struct gemm, ldb));
    put_list(&call, "group_ldc", g, offsetof(struct gemm, ldc));
    put_list(&call, "group_batch", g, offsetof(struct gemm, batch));
    standin_put_signed(&call, "a_type", g->group[0].a_type);
    standin_put_signed(&call, "c_type", g->group[0].c_type);
    return (cublasStatus_t)standin_leave(&call, status ? status : run_groups(g));
}

/* Without the arrays there is nothing to look at; a wrong one crashes, as in the real library. */
#define GROUPS(type_a_, type_b_, type_c_, compute_)                                                \
    struct groups groups = {.handle = handle,                                                      \
                            .count = transa_array && transb_array && m_array && n_array &&         \
                                             k_array && lda_array && ldb_array && ldc_array &&     \
                                             group_size                                            \
                                         ? group_count                                             \
                                         : -1,                                                     \
                            .alpha = alpha_array,                                                  \
                            .beta = beta_array};                                                   \
    int64_t before = 0;                                                                            \
    for (int64_t i = 0; i < groups.count && i < GROUPS_MOST; i++) {                                \
        groups.group[i] = (struct gemm){.handle = handle,                                          \
                                        .op_a = transa_array[i],                                   \
                                        .op_b = transb_array[i],                                   \
                                        .m = m_array[i],                                           \
                                        .n = n_array[i],                                           \
                                        .k = k_array[i],                                           \
                                        .alpha = alpha_array,                                      \
                                        .beta = beta_array,                                        \
                                        .a = Aarray + before,                                      \
                                        .b = Barray + before,                                      \
                                        .c = Carray + before,                                      \
                                        .a_type = type_a_,                                         \
                                        .b_type = type_b_,                                         \
                                        .c_type = type_c_,                                         \
                                        .lda = lda_array[i],                                       \
                                        .ldb = ldb_array[i],                                       \
                                        .ldc = ldc_array[i],                                       \
                                        .array = true,                                             \
                                        .batch = group_size[i],                                    \
                                        .compute = compute_};                                      \
        before += group_size[i];                                                                   \
    }                                                                                              \
    return start_groups(__func__, __builtin_return_address(0), &groups)
#define GROUPED_HEAD(INT)                                                                          \
    cublasHandle_t handle, const cublasOperation_t transa_array[],                                 \
        const cublasOperation_t transb_array[], const INT m_array[], const INT n_array[],          \
        const INT k_array[]
#define GROUPED(name, INT, T, type, comp)                                                          \
    STANDIN_EXPORT cublasStatus_t name(                                                            \
        GROUPED_HEAD(INT), const T alpha_array[], const T *const Aarray[], const INT lda_array[],  \
        const T *const Barray[], const INT ldb_array[], const T beta_array[], T *const Carray[],   \
        const INT ldc_array[], INT group_count, const INT group_size[]) {                          \
        GROUPS(type, type, type, comp);                                                            \
    }
#define GROUPED_EX(name, INT)                                                                      \
    STANDIN_EXPORT cublasStatus_t name(                                                            \
        GROUPED_HEAD(INT), const void *alpha_array, const void *const Aarray[],                    \
        cudaDataType Atype, const INT lda_array[], const void *const Barray[], cudaDataType Btype, \
        const INT ldb_array[], const void *beta_array, void *const Carray[], cudaDataType Ctype,   \
        const INT ldc_array[], INT group_count, const INT group_size[],                            \
        cublasComputeType_t computeType) {                                                         \
        GROUPS(Atype, Btype, Ctype, computeType);                                                  \
    }
GROUPED(cublasSgemmGroupedBatched, int, float, CUDA_R_32F, CUBLAS_COMPUTE_32F)
GROUPED(cublasSgemmGroupedBatched_64, int64_t, float, CUDA_R_32F, CUBLAS_COMPUTE_32F)
GROUPED(cublasDgemmGroupedBatched, int, double, CUDA_R_64F, CUBLAS_COMPUTE_64F)
GROUPED(cublasDgemmGroupedBatched_64, int64_t, double, CUDA_R_64F, CUBLAS_COMPUTE_64F)
GROUPED_EX(cublasGemmGroupedBatchedEx, int)
GROUPED_EX(cublasGemmGroupedBatchedEx_64, int64_t)
