/*
 * everycall_library.c - everycall's third part: the libraries' calls. One tensor and one block of
 * device memory do for all operands: what is asked is only that every call is there, once with
 * success and once refused.
 */
#include "everycall.h"

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *tensor);
cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, int format, int type,
                                         int n, int c, int h, int w);
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *filter);
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, int type, int format,
                                         int k, int c, int h, int w);
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *convolution);
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h,
                                              int pad_w, int u, int v, int dilation_h,
                                              int dilation_w, int mode, int type);
cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t *data);
cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t data, int type, int layout,
                                        int max_length, int batch, int vector, const int lengths[],
                                        void *padding);
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, int compute, int scale);
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, int type, uint64_t rows,
                                          uint64_t columns, int64_t ld);
ncclResult_t ncclCommInitAll(ncclComm_t *comms, int count, const int *devices);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
cufftResult cufftPlan1d(cufftHandle *plan, int nx, int type, int batch);
cufftResult cufftDestroy(cufftHandle plan);

enum { N2 = 2, F32 = 0, COMPUTE_F32 = 68, ADD = 0, FLOAT32 = 7 };

static void *m; /* device memory for every operand */
static float one[8] = {1};

/* A product of 2 x 2 matrices: with a handle, and without. */
#define GEMM(name, type)                                                                           \
    do {                                                                                           \
        CHECK(name(h, 0, 0, N2, N2, N2, (type *)one, (type *)m, N2, (type *)m, N2, (type *)one,    \
                   (type *)m, N2));                                                                \
        REFUSED(name(NULL, 0, 0, N2, N2, N2, (type *)one, (type *)m, N2, (type *)m, N2,            \
                     (type *)one, (type *)m, N2));                                                 \
    } while (0)
#define GEMM_STRIDED(name, type)                                                                   \
    do {                                                                                           \
        CHECK(name(h, 0, 0, N2, N2, N2, (type *)one, (type *)m, N2, 4, (type *)m, N2, 4,           \
                   (type *)one, (type *)m, N2, 4, 3));                                             \
        REFUSED(name(h, 0, 0, N2, N2, N2, (type *)one, (type *)m, 1, 4, (type *)m, N2, 4,          \
                     (type *)one, (type *)m, N2, 4, 3));                                           \
    } while (0)
#define GEMM_BATCHED(name, type)                                                                   \
    do {                                                                                           \
        CHECK(name(h, 0, 0, N2, N2, N2, (type *)one, (const type *const *)m, N2,                   \
                   (const type *const *)m, N2, (type *)one, (type *const *)m, N2, 3));             \
        REFUSED(name(h, 0, 0, -1, N2, N2, (type *)one, (const type *const *)m, N2,                 \
                     (const type *const *)m, N2, (type *)one, (type *const *)m, N2, 3));           \
    } while (0)

static void products(void) {
    cublasHandle_t h = NULL;
    CHECK(cublasCreate_v2(&h));
    CHECK(cublasSetStream_v2(h, stream));
    GEMM(cublasSgemm_v2, float);
    GEMM(cublasDgemm_v2, double);
    GEMM(cublasCgemm_v2, cuComplex);
    GEMM(cublasZgemm_v2, cuDoubleComplex);
    GEMM(cublasHgemm, __half);
    GEMM_STRIDED(cublasSgemmStridedBatched, float);
    GEMM_STRIDED(cublasDgemmStridedBatched, double);
    GEMM_STRIDED(cublasCgemmStridedBatched, cuComplex);
    GEMM_STRIDED(cublasZgemmStridedBatched, cuDoubleComplex);
    GEMM_STRIDED(cublasHgemmStridedBatched, __half);
    GEMM_BATCHED(cublasSgemmBatched, float);
    GEMM_BATCHED(cublasDgemmBatched, double);
    GEMM_BATCHED(cublasCgemmBatched, cuComplex);
    GEMM_BATCHED(cublasZgemmBatched, cuDoubleComplex);
    GEMM_BATCHED(cublasHgemmBatched, __half);

    const void *const *list = (const void *const *)m;
    CHECK(cublasSgemmEx(h, 0, 0, N2, N2, N2, one, m, F32, N2, m, F32, N2, one, m, F32, N2));
    CHECK(cublasCgemmEx(h, 0, 0, N2, N2, N2, (cuComplex *)one, m, 4, N2, m, 4, N2, (cuComplex *)one,
                        m, 4, N2));
    CHECK(cublasGemmEx(h, 0, 0, N2, N2, N2, one, m, F32, N2, m, F32, N2, one, m, F32, N2,
                       COMPUTE_F32, -1));
    CHECK(cublasGemmStridedBatchedEx(h, 0, 0, N2, N2, N2, one, m, F32, N2, 4, m, F32, N2, 4, one, m,
                                     F32, N2, 4, 3, COMPUTE_F32, -1));
    CHECK(cublasGemmBatchedEx(h, 0, 0, N2, N2, N2, one, list, F32, N2, list, F32, N2, one,
                              (void *const *)m, F32, N2, 3, COMPUTE_F32, -1));
    REFUSED(cublasGemmEx(h, 0, 0, N2, N2, N2, one, m, F32, N2, m, F32, N2, one, m, F32, N2,
                         COMPUTE_F32 + 2, -1));
    CHECK(cublasDestroy_v2(h));
}

static void lt_product(void) {
    cublasLtHandle_t h = NULL;
    cublasLtMatmulDesc_t desc = NULL;
    cublasLtMatrixLayout_t layout = NULL;
    CHECK(cublasLtCreate(&h));
    CHECK(cublasLtMatmulDescCreate(&desc, COMPUTE_F32, F32));
    CHECK(cublasLtMatrixLayoutCreate(&layout, F32, N2, N2, N2));
    CHECK(cublasLtMatmul(h, desc, one, m, layout, m, layout, one, m, layout, m, layout, NULL, NULL,
                         0, stream));
    REFUSED(cublasLtMatmul(h, desc, NULL, m, layout, m, layout, one, m, layout, m, layout, NULL,
                           NULL, 0, stream));
    CHECK(cublasLtDestroy(h));
}

static void convolutions(cudnnHandle_t h, cudnnTensorDescriptor_t t) {
    cudnnFilterDescriptor_t w = NULL;
    cudnnConvolutionDescriptor_t conv = NULL;
    cudnnTensorDescriptor_t bias = NULL;
    CHECK(cudnnCreateFilterDescriptor(&w));
    CHECK(cudnnSetFilter4dDescriptor(w, F32, 0, 2, 2, 3, 3));
    CHECK(cudnnCreateConvolutionDescriptor(&conv));
    CHECK(cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, 1, F32));
    CHECK(cudnnCreateTensorDescriptor(&bias));
    CHECK(cudnnSetTensor4dDescriptor(bias, 0, F32, 1, 2, 1, 1));
    CHECK(cudnnConvolutionForward(h, one, t, m, w, m, conv, 0, NULL, 0, one, t, m));
    CHECK(cudnnConvolutionBiasActivationForward(h, one, t, m, w, m, conv, 0, NULL, 0, one, t, m,
                                                bias, m, NULL, t, m));
    CHECK(cudnnConvolutionBackwardData(h, one, w, m, t, m, conv, 0, NULL, 0, one, t, m));
    CHECK(cudnnConvolutionBackwardFilter(h, one, t, m, t, m, conv, 0, NULL, 0, one, w, m));
    CHECK(cudnnConvolutionBackwardBias(h, one, t, m, one, bias, m));
    REFUSED(cudnnConvolutionForward(h, one, t, NULL, w, m, conv, 0, NULL, 0, one, t, m));
    REFUSED(cudnnBackendExecute(h, NULL, NULL));
}

static void layers(cudnnHandle_t h, cudnnTensorDescriptor_t t) {
    CHECK(cudnnBatchNormalizationForwardTraining(h, 1, one, one, t, m, t, m, t, m, m, 0.1, m, m,
                                                 1e-5, m, m));
    CHECK(cudnnBatchNormalizationForwardTrainingEx(h, 1, 0, one, one, t, m, NULL, NULL, t, m, t, m,
                                                   m, 0.1, m, m, 1e-5, m, m, NULL, NULL, 0, NULL,
                                                   0));
    CHECK(cudnnBatchNormalizationForwardInference(h, 1, one, one, t, m, t, m, t, m, m, m, m, 1e-5));
    CHECK(cudnnBatchNormalizationBackward(h, 1, one, one, one, one, t, m, t, m, t, m, t, m, m, m,
                                          1e-5, m, m));
    CHECK(cudnnBatchNormalizationBackwardEx(h, 1, 0, one, one, one, one, t, m, t, m, t, m, NULL,
                                            NULL, t, m, t, m, m, m, m, 1e-5, m, m, NULL, NULL, 0,
                                            NULL, 0));
    CHECK(cudnnPoolingForward(h, NULL, one, t, m, one, t, m));
    CHECK(cudnnPoolingBackward(h, NULL, one, t, m, t, m, t, m, one, t, m));
    CHECK(cudnnSoftmaxForward(h, 1, 1, one, t, m, one, t, m));
    CHECK(cudnnSoftmaxBackward(h, 1, 1, one, t, m, t, m, one, t, m));
    CHECK(cudnnActivationForward(h, NULL, one, t, m, one, t, m));
    CHECK(cudnnActivationBackward(h, NULL, one, t, m, t, m, t, m, one, t, m));
    CHECK(cudnnLRNCrossChannelForward(h, NULL, 0, one, t, m, one, t, m));
    CHECK(cudnnLRNCrossChannelBackward(h, NULL, 0, one, t, m, t, m, t, m, one, t, m));
    CHECK(cudnnDropoutForward(h, NULL, t, m, t, m, m, 64));
    CHECK(cudnnDropoutBackward(h, NULL, t, m, t, m, m, 64));
    CHECK(cudnnTransformTensor(h, one, t, m, one, t, m));
    CHECK(cudnnAddTensor(h, one, t, m, one, t, m));
    CHECK(cudnnOpTensor(h, NULL, one, t, m, one, t, m, one, t, m));
    CHECK(cudnnReduceTensor(h, NULL, NULL, 0, NULL, 0, one, t, m, one, t, m));
    CHECK(cudnnScaleTensor(h, t, m, one));
    CHECK(cudnnSpatialTfGridGeneratorForward(h, NULL, m, m));
    CHECK(cudnnSpatialTfGridGeneratorBackward(h, NULL, m, m));
    CHECK(cudnnSpatialTfSamplerForward(h, NULL, one, t, m, m, one, t, m));
    CHECK(cudnnSpatialTfSamplerBackward(h, NULL, one, t, m, one, t, m, one, t, m, m, one, m));
    REFUSED(cudnnPoolingForward(h, NULL, one, t, m, one, NULL, m));
    REFUSED(cudnnAddTensor(h, one, t, pageable, one, t, m));
}

static void recurrent(cudnnHandle_t h, cudnnTensorDescriptor_t t) {
    cudnnRNNDataDescriptor_t s = NULL;
    const int lengths[] = {2, 2};
    CHECK(cudnnCreateRNNDataDescriptor(&s));
    CHECK(cudnnSetRNNDataDescriptor(s, F32, 0, 2, 2, 2, lengths, one));
    CHECK(cudnnRNNForward(h, NULL, 1, NULL, s, m, s, m, t, m, m, t, m, m, 64, m, 64, m, 64, m));
    CHECK(cudnnRNNBackwardData_v8(h, NULL, NULL, s, m, m, s, m, t, m, m, m, t, m, m, m, 64, m, 64,
                                  m, 64, m));
    CHECK(cudnnRNNBackwardWeights_v8(h, NULL, 0, NULL, s, m, t, m, s, m, 64, m, 64, m, 64, m));
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
    CHECK(ncclCommDestroy(comm));
}

static void transforms(void) {
    enum { R2C = 0x2a, C2R = 0x2c, C2C = 0x29, D2Z = 0x6a, Z2D = 0x6c, Z2Z = 0x69 };
    cufftHandle plan = -1;
#define TRANSFORM(type, ...)                                                                       \
    CHECK(cufftPlan1d(&plan, 8, type, 1));                                                         \
    CHECK(__VA_ARGS__);                                                                            \
    CHECK(cufftDestroy(plan))
    TRANSFORM(C2C, cufftExecC2C(plan, (cufftComplex *)m, (cufftComplex *)m, -1));
    TRANSFORM(R2C, cufftExecR2C(plan, (cufftReal *)m, (cufftComplex *)m));
    TRANSFORM(C2R, cufftExecC2R(plan, (cufftComplex *)m, (cufftReal *)m));
    TRANSFORM(Z2Z, cufftExecZ2Z(plan, (cufftDoubleComplex *)m, (cufftDoubleComplex *)m, -1));
    TRANSFORM(D2Z, cufftExecD2Z(plan, (cufftDoubleReal *)m, (cufftDoubleComplex *)m));
    TRANSFORM(Z2D, cufftExecZ2D(plan, (cufftDoubleComplex *)m, (cufftDoubleReal *)m));
    TRANSFORM(C2C, cufftXtExec(plan, m, m, -1));
    REFUSED(cufftExecC2C(plan, (cufftComplex *)m, (cufftComplex *)m, -1));
}

void library_calls(void) {
    cudnnHandle_t h = NULL;
    cudnnTensorDescriptor_t t = NULL;

    CHECK(cudaMalloc(&m, 1 << 16));
    products();
    lt_product();
    CHECK(cudnnCreate(&h));
    for (int i = 0; i < 3; i++)
        CHECK(cudnnSetStream(h, stream));
    CHECK(cudnnCreateTensorDescriptor(&t));
    CHECK(cudnnSetTensor4dDescriptor(t, 0, F32, 1, 2, 4, 4));
    convolutions(h, t);
    layers(h, t);
    recurrent(h, t);
    cudnn_calls(h, t, m);
    CHECK(cudnnSetStream(h, NULL));
    CHECK(cudnnDestroy(h));
    REFUSED(cudnnDestroy(h));
    REFUSED(cudnnCreate(NULL));
    REFUSED(cudnnSetStream(h, NULL));
    exchanges();
    transforms();
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(m));
}
