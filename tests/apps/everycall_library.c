/*
 * everycall_library.c - everycall's part on cuDNN. One tensor and one block of
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

enum { F32 = 0 };

static void *m; /* device memory for every operand */
static float one[8] = {1};

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

void library_calls(void) {
    cudnnHandle_t h = NULL;
    cudnnTensorDescriptor_t t = NULL;

    CHECK(cudaMalloc(&m, 1 << 16));
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
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFree(m));
}
