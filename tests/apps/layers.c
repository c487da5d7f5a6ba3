/*
 * layers.c - a small network by cuDNN's old API, forward and backward, as frameworks of that time
 * wrote it: descriptors with and without strides of their own (Ex), channels last and first,
 * groups, algorithms asked for and searched for, batch normalisation, pooling, softmax, dropout, an
 * LSTM; then descriptors used again, destroyed, never set, and calls that are refused. Prints
 * "done".
 */
#include "cuda_app.h"

enum { NCHW, NHWC, F32 = 0, F16 = 2, N = 2, C = 8, H = 6, W = 5, K = 12, ALGOS = 4 };

/* cudnnConvolutionFwdAlgoPerf_t and its likes. */
struct found {
    int algo, status;
    float time;
    size_t memory;
    int more[6];
};

int cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t,
                                           cudnnFilterDescriptor_t, cudnnConvolutionDescriptor_t,
                                           cudnnTensorDescriptor_t, int, int *, struct found *);
int cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t, cudnnTensorDescriptor_t,
                                            cudnnFilterDescriptor_t, cudnnConvolutionDescriptor_t,
                                            cudnnTensorDescriptor_t, int, size_t *);
int cudnnGetConvolutionNdForwardOutputDim(cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t,
                                          cudnnFilterDescriptor_t, int, int[]);
int cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t *);
int cudnnSetActivationDescriptor(cudnnActivationDescriptor_t, int, int, double);
int cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t);
int cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t *);
int cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t, cudnnHandle_t, float, void *, size_t,
                              unsigned long long);
int cudnnCreateTensorTransformDescriptor(cudnnTensorTransformDescriptor_t *);
int cudnnSetTensorTransformDescriptor(cudnnTensorTransformDescriptor_t, uint32_t, int,
                                      const int32_t[], const int32_t[], const uint32_t[], int);

static cudnnHandle_t handle;
static const float zero = 0, one = 1;
static char *memory; /* each operand has a piece of its own */
static size_t used;

static void *room(size_t bytes) {
    used = (used + 255) & ~(size_t)255;
    EXPECT(used + bytes < 64u << 20);
    used += bytes;
    return memory + used - bytes;
}

static cudnnTensorDescriptor_t tensor(int format, int type, int n, int c, int h, int w) {
    cudnnTensorDescriptor_t made;
    CHECK(cudnnCreateTensorDescriptor(&made));
    CHECK(cudnnSetTensor4dDescriptor(made, format, type, n, c, h, w));
    return made;
}

/* As Caffe and darknet do it: one convolution in both directions. */
static void convolution(int format, int type, int groups) {
    cudnnTensorDescriptor_t x = tensor(format, type, N, C, H, W), y, bias;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    cudnnActivationDescriptor_t relu;
    struct found found[ALGOS];
    int dims[4], count = 0;
    size_t size = 0;
    CHECK(cudnnCreateFilterDescriptor(&w));
    CHECK(cudnnSetFilter4dDescriptor(w, type, format, K, C / groups, 3, 3));
    CHECK(cudnnCreateConvolutionDescriptor(&conv));
    CHECK(cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, 1, F32));
    CHECK(cudnnSetConvolutionGroupCount(conv, groups));
    CHECK(cudnnSetConvolutionMathType(conv, 1));
    CHECK(cudnnGetConvolutionNdForwardOutputDim(conv, x, w, 4, dims));
    y = tensor(format, type, dims[0], dims[1], dims[2], dims[3]);
    bias = tensor(NCHW, type, 1, K, 1, 1);
    CHECK(cudnnCreateActivationDescriptor(&relu));
    CHECK(cudnnSetActivationDescriptor(relu, 1, 0, 0));

    CHECK(cudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, conv, y, ALGOS, &count, found));
    EXPECT(count > 0);
    CHECK(cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, conv, y, found[0].algo, &size));
    void *space = room(size), *xs = room(8192), *ws = room(8192), *ys = room(8192),
         *bs = room(8192);
    CHECK(
        cudnnFindConvolutionForwardAlgorithm(handle, x, w, conv, y, ALGOS, &count, (void *)found));
    CHECK(cudnnFindConvolutionForwardAlgorithmEx(handle, x, xs, w, ws, conv, y, ys, ALGOS, &count,
                                                 (void *)found, space, size));
    CHECK(cudnnConvolutionForward(handle, &one, x, xs, w, ws, conv, found[0].algo, space, size,
                                  &zero, y, ys));
    CHECK(cudnnAddTensor(handle, &one, bias, bs, &one, y, ys));
    CHECK(cudnnConvolutionBiasActivationForward(handle, &one, x, xs, w, ws, conv, 0, NULL, 0, &zero,
                                                y, ys, bias, bs, relu, y, ys));
    CHECK(cudnnActivationForward(handle, relu, &one, y, ys, &zero, y, ys));
    CHECK(cudnnActivationBackward(handle, relu, &one, y, ys, y, room(8192), y, ys, &zero, y, ys));
    CHECK(cudnnConvolutionBackwardBias(handle, &one, y, ys, &one, bias, bs));
    CHECK(cudnnConvolutionBackwardFilter(handle, &one, x, xs, y, ys, conv, 0, NULL, 0, &one, w,
                                         room(8192)));
    CHECK(cudnnConvolutionBackwardData(handle, &one, w, ws, y, ys, conv, 0, NULL, 0, &zero, x,
                                       room(8192)));
    CHECK(cudnnDestroyActivationDescriptor(relu));
    CHECK(cudnnDestroyConvolutionDescriptor(conv));
    CHECK(cudnnDestroyFilterDescriptor(w));
    CHECK(cudnnDestroyTensorDescriptor(bias));
    CHECK(cudnnDestroyTensorDescriptor(y));
    CHECK(cudnnDestroyTensorDescriptor(x));
}

/* Three dimensions, with strides of the program's own. */
static void volumes(void) {
    const int dims[] = {2, 4, 5, 6, 7}, strides[] = {4 * 5 * 6 * 8, 5 * 6 * 8, 6 * 8, 8, 1};
    const int last[] = {2, 4, 5, 6, 7}, window[] = {6, 4, 3, 3, 3}, ones[] = {1, 1, 1};
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    int out[5];
    CHECK(cudnnCreateTensorDescriptor(&x));
    CHECK(cudnnCreateTensorDescriptor(&y));
    CHECK(cudnnCreateFilterDescriptor(&w));
    CHECK(cudnnCreateConvolutionDescriptor(&conv));
    CHECK(cudnnSetTensorNdDescriptor(x, F32, 5, dims, strides));
    CHECK(cudnnSetFilterNdDescriptor(w, F32, NHWC, 5, window));
    CHECK(cudnnSetConvolutionNdDescriptor(conv, 3, ones, ones, ones, 1, F32));
    CHECK(cudnnGetConvolutionNdForwardOutputDim(conv, x, w, 5, out));
    CHECK(cudnnSetTensorNdDescriptorEx(y, NHWC, F32, 5, out));
    CHECK(cudnnConvolutionForward(handle, &one, x, room(65536), w, room(65536), conv, 0, NULL, 0,
                                  &zero, y, room(65536)));
    CHECK(cudnnSetTensorNdDescriptorEx(x, NCHW, F32, 5, last)); /* the same one, set again */
    CHECK(cudnnTransformTensor(handle, &one, x, room(65536), &zero, x, room(65536)));
    CHECK(cudnnDestroyConvolutionDescriptor(conv));
    CHECK(cudnnDestroyFilterDescriptor(w));
    CHECK(cudnnDestroyTensorDescriptor(y));
    CHECK(cudnnDestroyTensorDescriptor(x));
}

static void normalisation(void) {
    cudnnTensorDescriptor_t x = tensor(NHWC, F16, N, C, H, W), y, parameters;
    CHECK(cudnnCreateTensorDescriptor(&y));
    CHECK(cudnnSetTensor4dDescriptorEx(y, F16, N, C, H, W, C * H * W, 1, W * C, C));
    CHECK(cudnnCreateTensorDescriptor(&parameters));
    CHECK(cudnnDeriveBNTensorDescriptor(parameters, x, 1));
    void *in = room(8192), *out = room(8192), *scale = room(256), *shift = room(256);
    void *mean = room(256), *variance = room(256), *saved = room(256), *inverse = room(256);
    CHECK(cudnnBatchNormalizationForwardTraining(handle, 1, &one, &zero, x, in, y, out, parameters,
                                                 scale, shift, 0.1, mean, variance, 1e-5, saved,
                                                 inverse));
    CHECK(cudnnBatchNormalizationForwardTrainingEx(
        handle, 1, 0, &one, &zero, x, in, NULL, NULL, y, out, parameters, scale, shift, 0.1, mean,
        variance, 1e-5, saved, inverse, NULL, room(256), 256, room(256), 256));
    CHECK(cudnnBatchNormalizationForwardInference(handle, 1, &one, &zero, x, in, y, out, parameters,
                                                  scale, shift, mean, variance, 1e-5));
    CHECK(cudnnBatchNormalizationBackward(handle, 1, &one, &zero, &one, &zero, x, in, y, out, x,
                                          room(8192), parameters, scale, room(256), room(256), 1e-5,
                                          saved, inverse));
    CHECK(cudnnBatchNormalizationBackwardEx(handle, 1, 2, &one, &zero, &one, &zero, x, in, y, out,
                                            y, room(8192), y, room(8192), x, room(8192), parameters,
                                            scale, shift, room(256), room(256), 1e-5, saved,
                                            inverse, NULL, room(256), 256, room(256), 256));
    CHECK(cudnnDestroyTensorDescriptor(parameters));
    CHECK(cudnnDestroyTensorDescriptor(y));
    CHECK(cudnnDestroyTensorDescriptor(x));
}

static void others(void) {
    cudnnTensorDescriptor_t x = tensor(NCHW, F32, N, C, H, W), y = tensor(NCHW, F32, N, C, 3, 2);
    cudnnTensorDescriptor_t other;
    cudnnPoolingDescriptor_t pooling;
    cudnnTensorTransformDescriptor_t padding;
    const int32_t none[4] = {0}, more[4] = {0, 2, 1, 0};
    size_t size;
    void *xs = room(8192), *ys = room(8192), *reserve = room(8192), *to = room(65536);
    CHECK(cudnnCreatePoolingDescriptor(&pooling));
    CHECK(cudnnSetPooling2dDescriptor(pooling, 0, 0, 2, 2, 0, 0, 2, 2));
    CHECK(cudnnPoolingForward(handle, pooling, &one, x, xs, &zero, y, ys));
    CHECK(cudnnPoolingBackward(handle, pooling, &one, y, ys, y, ys, x, xs, &zero, x, room(8192)));
    CHECK(cudnnSoftmaxForward(handle, 1, 1, &one, x, xs, &zero, x, ys));
    CHECK(cudnnSoftmaxBackward(handle, 1, 1, &one, x, xs, x, ys, &one, x, xs));
    CHECK(cudnnLRNCrossChannelForward(handle, NULL, 0, &one, x, xs, &zero, x, ys));
    CHECK(cudnnDropoutForward(handle, NULL, x, xs, x, ys, reserve, 8192));
    CHECK(cudnnDropoutBackward(handle, NULL, x, xs, x, ys, reserve, 8192));
    CHECK(cudnnOpTensor(handle, NULL, &one, x, xs, &one, x, ys, &one, x, xs));
    CHECK(cudnnReduceTensor(handle, NULL, reserve, 64, ys, 64, &one, x, xs, &zero, x, xs));
    CHECK(cudnnScaleTensor(handle, x, xs, &one));
    CHECK(cudnnSetTensor(handle, x, xs, &one));
    CHECK(cudnnCreateTensorTransformDescriptor(&padding));
    CHECK(cudnnSetTensorTransformDescriptor(padding, 4, NHWC, none, more, NULL, 0));
    CHECK(cudnnCreateTensorDescriptor(&other));
    CHECK(cudnnInitTransformDest(padding, x, other, &size));
    CHECK(cudnnTransformTensorEx(handle, padding, &one, x, xs, &zero, other, to));
    CHECK(cudnnDestroyTensorDescriptor(other));
    CHECK(cudnnDestroyPoolingDescriptor(pooling));
    CHECK(cudnnDestroyTensorDescriptor(y));
    CHECK(cudnnDestroyTensorDescriptor(x));
}

static void recurrent(int layout) {
    enum { LENGTH = 4, BATCH = 3, INPUT = 8, HIDDEN = 16, BYTES = 65536 };
    const int lengths[BATCH] = {4, 3, 1}, dims[] = {1, BATCH, HIDDEN}, strides[] = {48, 16, 1};
    cudnnRNNDescriptor_t rnn;
    cudnnRNNDataDescriptor_t x, y;
    cudnnTensorDescriptor_t h;
    cudnnDropoutDescriptor_t dropout;
    float fill = 0;
    CHECK(cudnnCreateDropoutDescriptor(&dropout));
    CHECK(cudnnSetDropoutDescriptor(dropout, handle, 0, NULL, 0, 0));
    CHECK(cudnnCreateRNNDescriptor(&rnn));
    CHECK(cudnnSetRNNDescriptor_v8(rnn, 0, 2, 2, 0, 0, F32, F32, 0, INPUT, HIDDEN, HIDDEN, 1,
                                   dropout, 0));
    CHECK(cudnnCreateRNNDataDescriptor(&x));
    CHECK(cudnnCreateRNNDataDescriptor(&y));
    CHECK(cudnnSetRNNDataDescriptor(x, F32, layout, LENGTH, BATCH, INPUT, lengths, &fill));
    CHECK(cudnnSetRNNDataDescriptor(y, F32, layout, LENGTH, BATCH, HIDDEN, lengths, &fill));
    CHECK(cudnnCreateTensorDescriptor(&h));
    CHECK(cudnnSetTensorNdDescriptor(h, F32, 3, dims, strides));
    void *xs = room(BYTES), *ys = room(BYTES), *weights = room(BYTES), *space = room(BYTES),
         *reserve = room(BYTES), *hx = room(BYTES), *cx = room(BYTES);
    CHECK(cudnnRNNForward(handle, rnn, 1, NULL, x, xs, y, ys, h, hx, room(BYTES), h, cx,
                          room(BYTES), BYTES, weights, BYTES, space, BYTES, reserve));
    CHECK(cudnnRNNBackwardData_v8(handle, rnn, NULL, y, ys, room(BYTES), x, room(BYTES), h, hx,
                                  room(BYTES), room(BYTES), h, cx, room(BYTES), room(BYTES), BYTES,
                                  weights, BYTES, space, BYTES, reserve));
    CHECK(cudnnRNNBackwardWeights_v8(handle, rnn, 1, NULL, x, xs, h, hx, y, ys, BYTES, room(BYTES),
                                     BYTES, space, BYTES, reserve));
    CHECK(cudnnDestroyTensorDescriptor(h));
    CHECK(cudnnDestroyRNNDataDescriptor(y));
    CHECK(cudnnDestroyRNNDataDescriptor(x));
    CHECK(cudnnDestroyRNNDescriptor(rnn));
}

/* What is wrong is refused, and told as it is: NULL, no such type, never set, set wrongly. */
static void wrong(void) {
    cudnnTensorDescriptor_t x = tensor(NCHW, F32, 1, 2, 3, 4), unset;
    void *xs = room(8192), *ys = room(8192);
    CHECK(cudnnCreateTensorDescriptor(&unset));
    EXPECT(cudnnSetTensor4dDescriptor(NULL, NCHW, F32, 1, 2, 3, 4) != 0);
    EXPECT(cudnnSetTensor4dDescriptor(unset, NCHW, 99, 1, 2, 3, 4) != 0);
    EXPECT(cudnnSetTensor4dDescriptor(unset, 7, F32, 1, 2, 3, 4) != 0);
    EXPECT(cudnnSetTensor4dDescriptor(unset, NCHW, F32, 1, 0, 3, 4) != 0);
    EXPECT(cudnnCreateTensorDescriptor(NULL) != 0);
    EXPECT(cudnnSoftmaxForward(handle, 1, 1, &one, NULL, xs, &zero, x, ys) != 0);
    EXPECT(cudnnSoftmaxForward(handle, 1, 1, &one, unset, xs, &zero, x, ys) != 0);
    EXPECT(cudnnSoftmaxForward(handle, 1, 1, &one, x, NULL, &zero, x, ys) != 0);
    EXPECT(cudnnSoftmaxForward(NULL, 1, 1, NULL, x, xs, NULL, x, ys) != 0);
    EXPECT(cudnnAddTensor(handle, &one, x, &used, &one, x, xs) != 0);
    CHECK(cudnnSoftmaxForward(handle, 1, 1, &one, x, xs, &zero, x, ys));
    CHECK(cudnnDestroyTensorDescriptor(unset));
    CHECK(cudnnDestroyTensorDescriptor(x));
    CHECK(cudnnDestroyTensorDescriptor(NULL));
}

int main(void) {
    void *all;
    CHECK(cudaMalloc(&all, 64u << 20));
    memory = all;
    CHECK(cudnnCreate(&handle));
    convolution(NCHW, F32, 1);
    convolution(NHWC, F16, 1);
    convolution(NCHW, F32, 4);
    volumes();
    normalisation();
    others();
    for (int layout = 0; layout < 3; layout++)
        recurrent(layout);
    wrong();
    CHECK(cudnnDestroy(handle));
    CHECK(cudaFree(all));
    puts("done");
    return 0;
}
