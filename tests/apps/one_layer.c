/*
 * one_layer.c - one convolution of 128 channels with 3 x 3 filters and a stride of 2, in 16 bits,
 * channels last, at two sizes of the batch. Usage: one_layer BATCH OTHER_BATCH SIDE CALLS GROUPS.
 * Prints how many elements the larger input has.
 */
#include "cuda_app.h"

enum { NHWC = 1, BF16 = 9, F32 = 0, CHANNELS = 128 };

static cudnnHandle_t handle;
static const float zero = 0, one = 1;
static int side, groups;

static cudnnTensorDescriptor_t images(int n, int size, void **memory) {
    cudnnTensorDescriptor_t made;
    CHECK(cudnnCreateTensorDescriptor(&made));
    CHECK(cudnnSetTensor4dDescriptor(made, NHWC, BF16, n, CHANNELS, size, size));
    CHECK(cudaMalloc(memory, (size_t)n * CHANNELS * (size_t)size * (size_t)size * 2));
    return made;
}

static void convolve(int n, int calls) {
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t conv;
    void *x, *w, *y;
    cudnnTensorDescriptor_t in = images(n, side, &x), out = images(n, (side - 1) / 2 + 1, &y);
    CHECK(cudaMalloc(&w, CHANNELS * CHANNELS * 9 * 2));
    CHECK(cudnnCreateFilterDescriptor(&filter));
    CHECK(cudnnSetFilter4dDescriptor(filter, BF16, NHWC, CHANNELS, CHANNELS / groups, 3, 3));
    CHECK(cudnnCreateConvolutionDescriptor(&conv));
    CHECK(cudnnSetConvolution2dDescriptor(conv, 1, 1, 2, 2, 1, 1, 1, F32));
    CHECK(cudnnSetConvolutionGroupCount(conv, groups));
    for (int i = 0; i < calls; i++)
        CHECK(cudnnConvolutionForward(/* SITE: convolution */
                                      handle, &one, in, x, filter, w, conv, 0, NULL, 0, &zero, out,
                                      y));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudnnDestroyConvolutionDescriptor(conv));
    CHECK(cudnnDestroyFilterDescriptor(filter));
    CHECK(cudnnDestroyTensorDescriptor(in));
    CHECK(cudnnDestroyTensorDescriptor(out));
    CHECK(cudaFree(x));
    CHECK(cudaFree(w));
    CHECK(cudaFree(y));
}

int main(int argc, char **argv) {
    EXPECT(argc == 6);
    int calls = atoi(argv[4]);
    side = atoi(argv[3]);
    groups = atoi(argv[5]);
    CHECK(cudnnCreate(&handle));
    convolve(atoi(argv[1]), calls);
    convolve(atoi(argv[2]), calls);
    CHECK(cudnnDestroy(handle));
    printf("elements=%lld\n", (long long)atoi(argv[1]) * CHANNELS * side * side);
    return 0;
}
