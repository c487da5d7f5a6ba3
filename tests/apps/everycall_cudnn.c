/*
 * everycall_cudnn.c - everycall's part for cuDNN's calls beyond everycall_library.c: searches for
 * algorithms, changes of layout, and what the simulated device refuses.
 */
#include "everycall.h"

static float one[8] = {1};

static void searches(cudnnHandle_t h, cudnnTensorDescriptor_t t, void *m) {
    cudnnFilterDescriptor_t w = NULL;
    cudnnConvolutionDescriptor_t conv = NULL;
    char found[8][48];
    int count = 0;
    void *out = found;
    CHECK(cudnnCreateFilterDescriptor(&w));
    CHECK(cudnnSetFilter4dDescriptor(w, 0, 0, 2, 2, 3, 3));
    CHECK(cudnnCreateConvolutionDescriptor(&conv));
    CHECK(cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, 1, 0));
    CHECK(cudnnFindConvolutionForwardAlgorithm(h, t, w, conv, t, 8, &count, out));
    CHECK(cudnnFindConvolutionBackwardDataAlgorithm(h, w, t, conv, t, 8, &count, out));
    CHECK(cudnnFindConvolutionBackwardFilterAlgorithm(h, t, t, conv, w, 8, &count, out));
    CHECK(cudnnFindConvolutionForwardAlgorithmEx(h, t, m, w, m, conv, t, m, 8, &count, out, m, 64));
    CHECK(cudnnFindConvolutionBackwardDataAlgorithmEx(h, w, m, t, m, conv, t, m, 8, &count, out, m,
                                                      64));
    CHECK(cudnnFindConvolutionBackwardFilterAlgorithmEx(h, t, m, t, m, conv, w, m, 8, &count, out,
                                                        m, 64));
    REFUSED(cudnnFindConvolutionForwardAlgorithm(h, t, NULL, conv, t, 8, &count, out));
    REFUSED(cudnnIm2Col(h, t, m, w, conv, m));
    REFUSED(cudnnReorderFilterAndBias(h, w, 0, m, m, 0, NULL, NULL));
    CHECK(cudnnTransformFilter(h, NULL, one, w, m, one, w, m));
    CHECK(cudnnDestroyConvolutionDescriptor(conv));
    CHECK(cudnnDestroyFilterDescriptor(w));
}

/* Old ones: the simulated device does none of these. */
static void refused(cudnnHandle_t h, cudnnTensorDescriptor_t t, void *m) {
    REFUSED(cudnnNormalizationForwardInference(h, 1, 0, 0, one, one, t, m, t, m, m, t, m, m, NULL,
                                               NULL, NULL, t, m, 1e-5, 1));
    REFUSED(cudnnNormalizationForwardTraining(h, 1, 0, 0, one, one, t, m, t, m, m, 0.1, t, m, m,
                                              1e-5, m, m, NULL, NULL, NULL, t, m, NULL, 0, NULL, 0,
                                              1));
    REFUSED(cudnnNormalizationBackward(h, 1, 0, 0, one, one, one, one, t, m, t, m, t, m, NULL, NULL,
                                       t, m, t, m, m, m, m, 1e-5, t, m, m, NULL, NULL, 0, NULL, 0,
                                       1));
    REFUSED(cudnnDivisiveNormalizationForward(h, NULL, 0, one, t, m, m, m, m, one, t, m));
    REFUSED(cudnnDivisiveNormalizationBackward(h, NULL, 0, one, t, m, m, m, m, m, one, t, m, m));
    REFUSED(cudnnMultiHeadAttnForward(h, NULL, 0, NULL, NULL, NULL, NULL, NULL, m, NULL, NULL, m,
                                      NULL, m, NULL, m, 64, m, 64, m, 0, NULL));
    REFUSED(cudnnMultiHeadAttnBackwardData(h, NULL, NULL, NULL, NULL, NULL, NULL, m, NULL, m, m,
                                           NULL, m, m, NULL, m, m, 64, m, 64, m, 64, m));
    REFUSED(cudnnMultiHeadAttnBackwardWeights(h, NULL, 0, NULL, m, NULL, m, NULL, m, NULL, m, 64, m,
                                              m, 64, m, 64, m));
    REFUSED(cudnnBackendPopulateCudaGraph(h, NULL, NULL, NULL));
    REFUSED(cudnnBackendUpdateCudaGraph(h, NULL, NULL, NULL));
    REFUSED(cudnnCTCLoss(h, t, m, NULL, NULL, NULL, m, t, m, 0, NULL, m, 64));
    REFUSED(cudnnCTCLoss_v8(h, 0, NULL, t, m, NULL, NULL, NULL, m, t, m, 64, m));
}

void cudnn_calls(cudnnHandle_t h, cudnnTensorDescriptor_t t, void *m) {
    searches(h, t, m);
    CHECK(cudnnTransformTensorEx(h, NULL, one, t, m, one, t, m));
    CHECK(cudnnSetTensor(h, t, m, one));
    REFUSED(cudnnTransformTensorEx(h, NULL, one, t, NULL, one, t, m));
    refused(h, t, m);
}
