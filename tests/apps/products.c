/*
 * products.c - products, exchanges and transforms whose operands a test knows: see
 * tests/e2e/test_products.py.
 */
#include "cuda_app.h"

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, int mode);
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, int compute, int scale);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, int attribute,
                                              const void *value, size_t size);
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, int type, uint64_t rows,
                                          uint64_t columns, int64_t ld);
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, int attribute,
                                                const void *value, size_t size);
cublasStatus_t cublasLtMatrixTransformDescCreate(cublasLtMatrixTransformDesc_t *desc, int scale);

enum { N, T, C, F32 = 0, F16 = 2, BF16 = 14, COMPUTE_F32 = 68 };

static const float one = 1, zero;
static char *m;
#define AT(offset) (void *)(m + (offset))

static void blas(void) {
    cublasHandle_t h = NULL;
    float beta = 0, host[64] = {0};
    double unit = 1;
    CHECK(cublasCreate_v2(&h));
    CHECK(cublasSgemm_v2(h, T, N, 3, 4, 5, &one, AT(0), 8, AT(4096), 5, &beta, AT(8192), 3));
    CHECK(cublasSgemm_v2(h, N, C, 3, 4, 5, &one, AT(0), 3, AT(4096), 4, &one, AT(8192), 6));
    CHECK(cublasSetPointerMode_v2(h, 1));
    CHECK(cublasSgemm_v2(h, N, N, 3, 4, 5, AT(0), AT(0), 3, AT(4096), 5, AT(64), AT(8192), 3));
    CHECK(cublasSetPointerMode_v2(h, 0));
    CHECK(cublasGemmEx(h, T, T, 3, 4, 5, &one, AT(2), BF16, 5, AT(4098), BF16, 4, &zero, AT(8192),
                       F32, 3, COMPUTE_F32, -1));
    CHECK(cublasGemmStridedBatchedEx_64(h, N, N, 3, 4, 5, &one, AT(0), F16, 3, 0, AT(4096), F16, 5,
                                        20, &zero, AT(8192), F16, 3, 12, 7, COMPUTE_F32, -1));
    CHECK(cublasDgemmStridedBatched(h, N, T, 3, 4, 5, &unit, AT(0), 3, 15, AT(4096), 4, 20, &unit,
                                    AT(8192), 3, 12, 1));
    CHECK(cublasSgemv_v2(h, T, 3, 5, &one, AT(0), 4, AT(4096), 1, &one, AT(8192), 2));
    CHECK(cublasSgeam(h, T, N, 3, 4, &one, AT(0), 4, &zero, AT(4096), 3, AT(4096), 3));
    CHECK(cublasSgeam(h, N, N, 3, 4, &one, AT(0), 3, &one, AT(4096), 3, AT(8192), 3));
    CHECK(cublasDtrsm_v2(h, 1, 0, N, 0, 3, 4, &unit, AT(0), 4, AT(8192), 3));
    EXPECT(cublasSgemm_v2(h, N, N, 3, 4, 5, &one, AT(0), 2, AT(4096), 5, &one, AT(8192), 3) != 0);
    CHECK(cublasSetMatrix(3, 5, 4, host, 7, AT(0), 3));
    CHECK(cublasGetVector(8, 4, AT(0), 3, host, 1));
    for (int i = 1; i < 30; i++) /* each of another size */
        CHECK(cublasSgemm_v2(h, N, N, i, 4, 5, &one, AT(0), i, AT(4096), 5, &zero, AT(8192), i));
    CHECK(cublasDestroy_v2(h));
}

static void lt(void) {
    cublasLtHandle_t h = NULL;
    cublasLtMatmulDesc_t plain = NULL, biased = NULL;
    cublasLtMatrixTransformDesc_t transform = NULL;
    cublasLtMatrixLayout_t a = NULL, b = NULL, d = NULL, half = NULL, row = NULL, stacked_b = NULL,
                           stacked_d = NULL;
    const int32_t epilogue = 32 | 4 | 128, row_order = 1, batch = 2; /* GELU, its input, a bias */
    const int64_t ld = 8, stride_a = 15, stride_b = 20, stride_d = 12;
    const void *bias = AT(512), *aux = AT(1024);
    CHECK(cublasLtCreate(&h));
    CHECK(cublasLtMatmulDescCreate(&plain, COMPUTE_F32, F32));
    CHECK(cublasLtMatmulDescCreate(&biased, COMPUTE_F32, F32));
    CHECK(cublasLtMatmulDescSetAttribute(biased, 7, &epilogue, sizeof epilogue));
    CHECK(cublasLtMatmulDescSetAttribute(biased, 8, &bias, sizeof bias));
    CHECK(cublasLtMatmulDescSetAttribute(biased, 11, &aux, sizeof aux));
    CHECK(cublasLtMatmulDescSetAttribute(biased, 12, &ld, sizeof ld));
    CHECK(cublasLtMatrixLayoutCreate(&a, F32, 3, 5, 3));
    CHECK(cublasLtMatrixLayoutCreate(&b, F32, 5, 4, 5));
    CHECK(cublasLtMatrixLayoutCreate(&d, F32, 3, 4, 3));
    CHECK(cublasLtMatrixLayoutCreate(&half, F16, 3, 4, 3));
    CHECK(cublasLtMatrixLayoutCreate(&row, F32, 3, 5, 5));
    CHECK(cublasLtMatrixLayoutCreate(&stacked_b, F32, 5, 4, 5));
    CHECK(cublasLtMatrixLayoutCreate(&stacked_d, F32, 3, 4, 4));
    CHECK(cublasLtMatrixLayoutSetAttribute(row, 1, &row_order, sizeof row_order));
    CHECK(cublasLtMatrixLayoutSetAttribute(stacked_d, 1, &row_order, sizeof row_order));
    CHECK(cublasLtMatmul(h, plain, &one, AT(0), a, AT(4096), b, &zero, AT(8192), d, AT(8192), d,
                         NULL, NULL, 0, NULL));
    CHECK(cublasLtMatmul(h, biased, &one, AT(0), a, AT(4096), b, &one, AT(8192), half, AT(9000),
                         half, NULL, AT(16384), 4096, NULL));
    CHECK(cublasLtMatrixTransformDescCreate(&transform, F32));
    CHECK(cublasLtMatrixTransform(h, transform, &one, AT(0), d, &zero, NULL, NULL, AT(4096),
                                  stacked_d, NULL));
    CHECK(cublasLtMatrixLayoutSetAttribute(row, 5, &batch, sizeof batch));
    CHECK(cublasLtMatrixLayoutSetAttribute(row, 6, &stride_a, sizeof stride_a));
    CHECK(cublasLtMatrixLayoutSetAttribute(stacked_b, 5, &batch, sizeof batch));
    CHECK(cublasLtMatrixLayoutSetAttribute(stacked_b, 6, &stride_b, sizeof stride_b));
    CHECK(cublasLtMatrixLayoutSetAttribute(stacked_d, 5, &batch, sizeof batch));
    CHECK(cublasLtMatrixLayoutSetAttribute(stacked_d, 6, &stride_d, sizeof stride_d));
    CHECK(cublasLtMatmul(h, plain, &one, AT(0), row, AT(4096), stacked_b, &one, AT(8192), stacked_d,
                         AT(8192), stacked_d, NULL, NULL, 0, NULL));
    CHECK(cublasLtDestroy(h));
}

static void exchanges(void) {
    ncclComm_t comm = NULL;
    ncclUniqueId id = {{0}};
    CHECK(ncclCommInitRank(&comm, 4, id, 1));
    CHECK(ncclAllReduce(AT(0), AT(4096), 100, 7, 0, comm, NULL));
    CHECK(ncclAllGather(AT(0), AT(4096), 100, 9, comm, NULL));
    CHECK(ncclReduceScatter(AT(4096), AT(0), 100, 6, 0, comm, NULL));
    CHECK(ncclBcast(AT(0), 10, 8, 0, comm, NULL));
    CHECK(ncclSend(AT(0), 10, 0, 0, comm, NULL));
    CHECK(ncclRecv(AT(0), 10, 5, 0, comm, NULL));
    CHECK(ncclCommDestroy(comm));
}

static void transforms(void) {
    enum { R2C = 0x2a, C2C = 0x29, Z2D = 0x6c };
    int n[] = {4, 6}, square[] = {4, 4}, embed[] = {5, 6};
    cufftHandle plan = -1;
    CHECK(cufftPlanMany(&plan, 2, n, NULL, 1, 0, NULL, 1, 0, R2C, 3));
    CHECK(cufftExecR2C(plan, AT(0), AT(8192)));
    CHECK(cufftExecR2C(plan, AT(0), AT(0)));
    CHECK(cufftDestroy(plan));
    CHECK(cufftPlan1d(&plan, 16, Z2D, 1));
    CHECK(cufftExecZ2D(plan, AT(0), AT(8192)));
    CHECK(cufftDestroy(plan));
    CHECK(cufftPlanMany(&plan, 2, square, embed, 2, 100, square, 1, 16, C2C, 2));
    CHECK(cufftExecC2C(plan, AT(0), AT(8192), -1));
    CHECK(cufftDestroy(plan));
}

int main(void) {
    void *memory = NULL;
    CHECK(cudaMalloc(&memory, 1 << 16));
    m = memory;
    blas();
    lt();
    exchanges();
    transforms();
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(memory));
    puts("done");
    return 0;
}
