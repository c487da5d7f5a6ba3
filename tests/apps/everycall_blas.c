/*
 * everycall_blas.c - everycall's part on cuBLAS, cuBLASLt, NCCL and cuFFT: every call once with
 * success and once refused. One block of device memory does for all operands.
 */
#include "everycall.h"

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, int compute, int scale);
cublasStatus_t cublasLtMatrixTransformDescCreate(cublasLtMatrixTransformDesc_t *desc, int scale);
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, int type, uint64_t rows,
                                          uint64_t columns, int64_t ld);
cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, int mode);

enum { N2 = 2, F32 = 0, COMPUTE_F32 = 68, ADD = 0, FLOAT32 = 7 };

static void *m; /* device memory for every operand */
static cublasHandle_t h;
static float one[8] = {1};

/* As it is meant, and without a handle; of a function and of its twin with 64-bit sizes. */
#define CALL(name, ...)                                                                            \
    do {                                                                                           \
        CHECK(name(h, __VA_ARGS__));                                                               \
        REFUSED(name(NULL, __VA_ARGS__));                                                          \
    } while (0)
#define CALLS(name, ...)                                                                           \
    do {                                                                                           \
        CALL(name, __VA_ARGS__);                                                                   \
        CALL(name##_64, __VA_ARGS__);                                                              \
    } while (0)
#define IN(T) (const T *)m
#define OUT(T) (T *)m
#define LIST(T) (const T *const *)m
#define OUTS(T) (T *const *)m
#define FACTOR(T) (const T *)one

#define GEMM(name, T)                                                                              \
    CALLS(name, 0, 1, N2, N2, N2, FACTOR(T), IN(T), N2, IN(T), N2, FACTOR(T), OUT(T), N2)
#define GEMM_STRIDED(name, T)                                                                      \
    CALLS(name, 0, 1, N2, N2, N2, FACTOR(T), IN(T), N2, 4, IN(T), N2, 4, FACTOR(T), OUT(T), N2, 4, \
          3)
#define GEMM_BATCHED(name, T)                                                                      \
    CALLS(name, 0, 1, N2, N2, N2, FACTOR(T), LIST(T), N2, LIST(T), N2, FACTOR(T), OUTS(T), N2, 3)
#define GEMM_ALL(letter, plain, T)                                                                 \
    GEMM(plain, T);                                                                                \
    GEMM_STRIDED(cublas##letter##gemmStridedBatched, T);                                           \
    GEMM_BATCHED(cublas##letter##gemmBatched, T)

static void products(void) {
    GEMM_ALL(S, cublasSgemm_v2, float);
    GEMM_ALL(D, cublasDgemm_v2, double);
    GEMM_ALL(C, cublasCgemm_v2, cuComplex);
    GEMM_ALL(Z, cublasZgemm_v2, cuDoubleComplex);
    GEMM_ALL(H, cublasHgemm, __half);
    GEMM(cublasCgemm3m, cuComplex);
    GEMM(cublasZgemm3m, cuDoubleComplex);
    GEMM_STRIDED(cublasCgemm3mStridedBatched, cuComplex);
    GEMM_BATCHED(cublasCgemm3mBatched, cuComplex);

    const void *const *list = (const void *const *)m;
    CALLS(cublasSgemmEx, 0, 0, N2, N2, N2, one, m, F32, N2, m, F32, N2, one, m, F32, N2);
    CALLS(cublasCgemmEx, 0, 0, N2, N2, N2, FACTOR(cuComplex), m, 4, N2, m, 4, N2, FACTOR(cuComplex),
          m, 4, N2);
    CALLS(cublasCgemm3mEx, 0, 0, N2, N2, N2, FACTOR(cuComplex), m, 4, N2, m, 4, N2,
          FACTOR(cuComplex), m, 4, N2);
    CALLS(cublasGemmEx, 0, 0, N2, N2, N2, one, m, F32, N2, m, F32, N2, one, m, F32, N2, COMPUTE_F32,
          -1);
    CALLS(cublasGemmStridedBatchedEx, 0, 0, N2, N2, N2, one, m, F32, N2, 4, m, F32, N2, 4, one, m,
          F32, N2, 4, 3, COMPUTE_F32, -1);
    CALLS(cublasGemmBatchedEx, 0, 0, N2, N2, N2, one, list, F32, N2, list, F32, N2, one,
          (void *const *)m, F32, N2, 3, COMPUTE_F32, -1);
    REFUSED(cublasGemmEx(h, 0, 0, N2, N2, N2, one, m, F32, N2, m, F32, N2, one, m, F32, N2,
                         COMPUTE_F32 + 2, -1));
    REFUSED(cublasSgemm_v2(h, 7, -1, -1, N2, N2, one, m, N2, m, N2, one, m, N2));
    CHECK(cublasSetPointerMode_v2(h, 1)); /* factors in device memory */
    CHECK(cublasSgemm_v2(h, 0, 0, N2, N2, N2, m, m, N2, m, N2, m, m, N2));
    CHECK(cublasSetPointerMode_v2(h, 0));
}

/* Two groups, of three products and of one. */
static void groups(void) {
    const int ops[] = {0, 1}, two[] = {N2, N2}, counts[] = {3, 1};
    const int64_t two_64[] = {N2, N2}, counts_64[] = {3, 1};
#define GROUPED(name, T, TWO, COUNTS)                                                              \
    CALL(name, ops, ops, TWO, TWO, TWO, FACTOR(T), LIST(T), TWO, LIST(T), TWO, FACTOR(T), OUTS(T), \
         TWO, 2, COUNTS);                                                                          \
    REFUSED(name(h, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,  \
                 2, NULL))
#define GROUPED_EX(name, TWO, COUNTS)                                                              \
    CALL(name, ops, ops, TWO, TWO, TWO, one, LIST(void), F32, TWO, LIST(void), F32, TWO, one,      \
         OUTS(void), F32, TWO, 2, COUNTS, COMPUTE_F32)
    GROUPED(cublasSgemmGroupedBatched, float, two, counts);
    GROUPED(cublasSgemmGroupedBatched_64, float, two_64, counts_64);
    GROUPED(cublasDgemmGroupedBatched, double, two, counts);
    GROUPED(cublasDgemmGroupedBatched_64, double, two_64, counts_64);
    GROUPED_EX(cublasGemmGroupedBatchedEx, two, counts);
    GROUPED_EX(cublasGemmGroupedBatchedEx_64, two_64, counts_64);
}

#define GEMV_BATCHES(letters, T, Y, S)                                                             \
    CALLS(cublas##letters##gemvBatched, 1, N2, 3, FACTOR(S), LIST(T), N2, LIST(T), 1, FACTOR(S),   \
          OUTS(Y), 1, 4);                                                                          \
    CALLS(cublas##letters##gemvStridedBatched, 1, N2, 3, FACTOR(S), IN(T), N2, 6, IN(T), 1, 3,     \
          FACTOR(S), OUT(Y), 2, 6, 4)
#define GEMV_ALL(letter, T)                                                                        \
    CALLS(cublas##letter##gemv_v2, 0, N2, 3, FACTOR(T), IN(T), N2, IN(T), 1, FACTOR(T), OUT(T),    \
          -2);                                                                                     \
    GEMV_BATCHES(letter, T, T, T)
#define GER(name, T) CALLS(name, N2, 3, FACTOR(T), IN(T), 1, IN(T), 2, OUT(T), N2)

static void vectors(void) {
    GEMV_ALL(S, float);
    GEMV_ALL(D, double);
    GEMV_ALL(C, cuComplex);
    GEMV_ALL(Z, cuDoubleComplex);
    GEMV_BATCHES(HSH, __half, __half, float);
    GEMV_BATCHES(HSS, __half, float, float);
    GEMV_BATCHES(TST, __nv_bfloat16, __nv_bfloat16, float);
    GEMV_BATCHES(TSS, __nv_bfloat16, float, float);
    GER(cublasSger_v2, float);
    GER(cublasDger_v2, double);
    GER(cublasCgeru_v2, cuComplex);
    GER(cublasCgerc_v2, cuComplex);
    GER(cublasZgeru_v2, cuDoubleComplex);
    GER(cublasZgerc_v2, cuDoubleComplex);
    REFUSED(cublasSgemv_v2(h, 0, N2, N2, one, m, N2, m, 0, one, m, 1));
    REFUSED(cublasSger_v2(h, N2, 3, one, m, 1, m, 1, m, 1));
}

#define GEAM(name, T)                                                                              \
    CALLS(name, 1, 0, N2, 3, FACTOR(T), IN(T), 3, FACTOR(T), IN(T), N2, OUT(T), N2)
#define SYMM(name, T)                                                                              \
    CALLS(name, 1, 0, N2, 3, FACTOR(T), IN(T), 3, IN(T), N2, FACTOR(T), OUT(T), N2)
#define SYRK(name, T, S) CALLS(name, 0, 1, N2, 3, FACTOR(S), IN(T), 3, FACTOR(S), OUT(T), N2)
#define SYRK_EX(name, S) CALLS(name, 0, 0, N2, 3, FACTOR(S), m, 4, N2, FACTOR(S), m, 4, N2)
#define TRSM_ALL(letter, T)                                                                        \
    CALLS(cublas##letter##trsm_v2, 0, 1, 0, 0, N2, 3, FACTOR(T), IN(T), N2, OUT(T), N2);           \
    CALLS(cublas##letter##trsmBatched, 1, 1, 0, 0, N2, 3, FACTOR(T), LIST(T), 3, OUTS(T), N2, 4)
#define DGMM(name, T) CALLS(name, 0, N2, 3, IN(T), N2, IN(T), 1, OUT(T), N2)

static void matrices(void) {
    GEAM(cublasSgeam, float);
    GEAM(cublasDgeam, double);
    GEAM(cublasCgeam, cuComplex);
    GEAM(cublasZgeam, cuDoubleComplex);
    SYMM(cublasSsymm_v2, float);
    SYMM(cublasDsymm_v2, double);
    SYMM(cublasCsymm_v2, cuComplex);
    SYMM(cublasZsymm_v2, cuDoubleComplex);
    SYMM(cublasChemm_v2, cuComplex);
    SYMM(cublasZhemm_v2, cuDoubleComplex);
    SYRK(cublasSsyrk_v2, float, float);
    SYRK(cublasDsyrk_v2, double, double);
    SYRK(cublasCsyrk_v2, cuComplex, cuComplex);
    SYRK(cublasZsyrk_v2, cuDoubleComplex, cuDoubleComplex);
    SYRK(cublasCherk_v2, cuComplex, float);
    SYRK(cublasZherk_v2, cuDoubleComplex, double);
    SYRK_EX(cublasCsyrkEx, cuComplex);
    SYRK_EX(cublasCsyrk3mEx, cuComplex);
    SYRK_EX(cublasCherkEx, float);
    SYRK_EX(cublasCherk3mEx, float);
    TRSM_ALL(S, float);
    TRSM_ALL(D, double);
    TRSM_ALL(C, cuComplex);
    TRSM_ALL(Z, cuDoubleComplex);
    DGMM(cublasSdgmm, float);
    DGMM(cublasDdgmm, double);
    DGMM(cublasCdgmm, cuComplex);
    DGMM(cublasZdgmm, cuDoubleComplex);
    REFUSED(cublasStrsm_v2(h, 0, 9, 0, 0, N2, N2, one, m, N2, m, N2));
}

/* Between strided host memory and the device, and back. */
static void copies(void) {
    float *host = (float *)pageable, *fast = (float *)pinned;
#define VECTOR(name, to, from, ...)                                                                \
    CHECK(name(8, 4, from, 2, to, 1 __VA_ARGS__));                                                 \
    CHECK(name##_64(8, 4, from, 1, to, 3 __VA_ARGS__));                                            \
    REFUSED(name(8, 4, from, 0, to, 1 __VA_ARGS__));                                               \
    REFUSED(name##_64(8, 0, from, 1, to, 1 __VA_ARGS__))
#define MATRIX(name, to, from, ...)                                                                \
    CHECK(name(4, 3, 4, from, 5, to, 4 __VA_ARGS__));                                              \
    CHECK(name##_64(4, 3, 4, from, 4, to, 6 __VA_ARGS__));                                         \
    REFUSED(name(4, 3, 4, from, 3, to, 4 __VA_ARGS__));                                            \
    REFUSED(name##_64(4, 3, 4, from, 4, to, 3 __VA_ARGS__))
    VECTOR(cublasSetVector, m, host);
    VECTOR(cublasGetVector, host, m);
    VECTOR(cublasSetVectorAsync, m, fast, , stream);
    VECTOR(cublasGetVectorAsync, host, m, , stream);
    MATRIX(cublasSetMatrix, m, fast);
    MATRIX(cublasGetMatrix, host, m);
    MATRIX(cublasSetMatrixAsync, m, host, , stream);
    MATRIX(cublasGetMatrixAsync, fast, m, , stream);
    CHECK(cudaStreamSynchronize(stream));
}

static void lt(void) {
    cublasLtHandle_t lt = NULL;
    cublasLtMatmulDesc_t desc = NULL;
    cublasLtMatrixTransformDesc_t transform = NULL;
    cublasLtMatrixLayout_t layout = NULL;
    unsigned char garbage[512];
    memset(garbage, 0xa5, sizeof garbage);
    CHECK(cublasLtCreate(&lt));
    REFUSED(cublasLtCreate(NULL));
    CHECK(cublasLtMatmulDescCreate(&desc, COMPUTE_F32, F32));
    CHECK(cublasLtMatrixTransformDescCreate(&transform, F32));
    CHECK(cublasLtMatrixLayoutCreate(&layout, F32, N2, N2, N2));
    CHECK(cublasLtMatmul(lt, desc, one, m, layout, m, layout, one, m, layout, m, layout, NULL, NULL,
                         0, stream));
    REFUSED(cublasLtMatmul(lt, desc, NULL, m, layout, m, layout, one, m, layout, m, layout, NULL,
                           NULL, 0, stream));
    REFUSED(cublasLtMatmul(lt, NULL, one, m, NULL, m, NULL, one, m, NULL, m, NULL, NULL, NULL, 0,
                           stream));
    REFUSED(cublasLtMatmul(lt, (cublasLtMatmulDesc_t)(void *)garbage, one, m,
                           (cublasLtMatrixLayout_t)(void *)garbage, m, layout, one, m, layout, m,
                           NULL, NULL, NULL, 0, stream));
    CHECK(
        cublasLtMatrixTransform(lt, transform, one, m, layout, one, m, layout, m, layout, stream));
    REFUSED(cublasLtMatrixTransform(lt, NULL, one, m, layout, one, m, layout, m, layout, stream));
    CHECK(cublasLtDestroy(lt));
    REFUSED(cublasLtDestroy(NULL));
}

static void blas(void) {
    CHECK(cublasCreate_v2(&h));
    CHECK(cublasSetStream_v2(h, stream));
    for (int i = 0; i < 3; i++)
        CHECK(cublasSetMathMode(h, i / 2));
    REFUSED(cublasSetMathMode(NULL, 1));
    products();
    groups();
    vectors();
    matrices();
    copies();
    CHECK(cublasDestroy_v2(h));
    lt();
}

static void communicators(void) {
    ncclComm_t comm = NULL, part = NULL;
    ncclUniqueId id = {{0}};
    CHECK(ncclCommInitRank(&comm, 2, id, 1));
    CHECK(ncclCommSplit(comm, 0, 0, &part, NULL));
    CHECK(ncclCommFinalize(part));
    CHECK(ncclCommAbort(part));
    CHECK(ncclAllGather(m, m, 8, FLOAT32, comm, stream));
    CHECK(ncclCommDestroy(comm));
    CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, NULL));
    CHECK(ncclCommDestroy(comm));
    CHECK(ncclCommInitRankScalable(&comm, 1, 0, 1, &id, NULL));
    CHECK(ncclCommDestroy(comm));
    REFUSED(ncclCommInitRank(NULL, 1, id, 0));
    REFUSED(ncclCommInitRankConfig(&comm, 1, id, 5, NULL));
    REFUSED(ncclCommInitRankScalable(NULL, 1, 0, 1, &id, NULL));
    REFUSED(ncclCommInitAll(NULL, 1, NULL));
    REFUSED(ncclCommSplit(NULL, 0, 0, &part, NULL));
    REFUSED(ncclCommFinalize(NULL));
    REFUSED(ncclCommAbort(NULL));
    REFUSED(ncclCommDestroy(NULL));
}

static void exchanges(void) {
    ncclComm_t comm = NULL;
    CHECK(ncclCommInitAll(&comm, 1, NULL));
    CHECK(ncclAllReduce(m, m, 8, FLOAT32, ADD, comm, stream));
    CHECK(ncclBroadcast(m, m, 8, FLOAT32, 0, comm, stream));
    CHECK(ncclBcast(m, 8, FLOAT32, 0, comm, stream));
    CHECK(ncclReduce(m, m, 8, FLOAT32, ADD, 0, comm, stream));
    CHECK(ncclAllGather(m, m, 8, FLOAT32, comm, stream));
    CHECK(ncclReduceScatter(m, m, 8, FLOAT32, ADD, comm, stream));
    CHECK(ncclSend(m, 8, FLOAT32, 0, comm, stream));
    CHECK(ncclRecv(m, 8, FLOAT32, 0, comm, stream));
    REFUSED(ncclAllReduce(m, pageable, 8, FLOAT32, ADD, comm, stream));
    REFUSED(ncclAllGather(m, m, 8, 99, comm, stream));
    CHECK(ncclCommDestroy(comm));
}

static void plans(void) {
    enum { C2C = 0x29, C32F = 4 };
    cufftHandle plan = -1;
    int n[] = {4, 4};
    long long n64[] = {4, 4};
    size_t size = 0;
#define MADE(name, ...)                                                                            \
    CHECK(cufftCreate(&plan));                                                                     \
    CHECK(name(plan, __VA_ARGS__));                                                                \
    REFUSED(name(plan, __VA_ARGS__)); /* it is made */                                             \
    CHECK(cufftDestroy(plan))
    MADE(cufftMakePlan1d, 8, C2C, 2, &size);
    MADE(cufftMakePlan2d, 8, 4, C2C, &size);
    MADE(cufftMakePlan3d, 8, 4, 2, C2C, &size);
    MADE(cufftMakePlanMany, 2, n, NULL, 1, 16, NULL, 1, 16, C2C, 3, &size);
    MADE(cufftMakePlanMany64, 2, n64, n64, 2, 32, n64, 1, 16, C2C, 3, &size);
    MADE(cufftXtMakePlanMany, 2, n64, NULL, 1, 16, C32F, NULL, 1, 16, C32F, 3, &size, C32F);
#define PLANNED(name, ...)                                                                         \
    CHECK(name(&plan, __VA_ARGS__));                                                               \
    CHECK(cufftDestroy(plan));                                                                     \
    REFUSED(name(NULL, __VA_ARGS__))
    PLANNED(cufftPlan1d, 8, C2C, 2);
    PLANNED(cufftPlan2d, 8, 4, C2C);
    PLANNED(cufftPlan3d, 8, 4, 2, C2C);
    PLANNED(cufftPlanMany, 2, n, NULL, 1, 16, NULL, 1, 16, C2C, 3);
    REFUSED(cufftPlan1d(&plan, 8, 999, 1));
    REFUSED(cufftPlanMany(&plan, 9, n, NULL, 1, 16, NULL, 1, 16, C2C, 3));
    REFUSED(cufftCreate(NULL));
    REFUSED(cufftDestroy(99));
    CHECK(cufftCreate(&plan));
    for (int i = 0; i < 3; i++) {
        CHECK(cufftSetStream(plan, i ? stream : NULL));
        CHECK(cufftSetWorkArea(plan, i ? m : NULL));
    }
    CHECK(cufftDestroy(plan));
    REFUSED(cufftSetStream(plan, NULL));
    REFUSED(cufftSetWorkArea(plan, m));
}

static void transforms(void) {
    enum { R2C = 0x2a, C2R = 0x2c, C2C = 0x29, D2Z = 0x6a, Z2D = 0x6c, Z2Z = 0x69 };
    cufftHandle plan = -1;
#define TRANSFORM(type, call, ...)                                                                 \
    CHECK(cufftPlan1d(&plan, 8, type, 1));                                                         \
    CHECK(call(plan, __VA_ARGS__));                                                                \
    CHECK(cufftDestroy(plan));                                                                     \
    REFUSED(call(plan, __VA_ARGS__))
    TRANSFORM(C2C, cufftExecC2C, (cufftComplex *)m, (cufftComplex *)m, -1);
    TRANSFORM(R2C, cufftExecR2C, (cufftReal *)m, (cufftComplex *)m);
    TRANSFORM(C2R, cufftExecC2R, (cufftComplex *)m, (cufftReal *)m);
    TRANSFORM(Z2Z, cufftExecZ2Z, (cufftDoubleComplex *)m, (cufftDoubleComplex *)m, -1);
    TRANSFORM(D2Z, cufftExecD2Z, (cufftDoubleReal *)m, (cufftDoubleComplex *)m);
    TRANSFORM(Z2D, cufftExecZ2D, (cufftDoubleComplex *)m, (cufftDoubleReal *)m);
    TRANSFORM(C2C, cufftXtExec, m, m, -1);
}

void blas_calls(void) {
    CHECK(cudaMalloc(&m, 1 << 16));
    blas();
    communicators();
    exchanges();
    plans();
    transforms();
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(m));
}
