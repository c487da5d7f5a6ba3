/*
 * thread_streams.c - what nvcc --default-stream per-thread makes of a program: every call goes to
 * its _ptds or _ptsz twin. Several threads, each on its own default stream.
 */
#include <pthread.h>

#include "cuda_app.h"

enum { THREADS = 6, ROUNDS = 30, BYTES = 8192 };

static NOINLINE void add_one(int *data, int n) {
    static cudaKernel_t kernel;
    void *arguments[] = {&data, &n, NULL};
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
    if (kernel == NULL)
        CHECK(__cudaGetKernel(&kernel, (const void *)(void (*)(void))add_one));
    CHECK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
    CHECK(__cudaLaunchKernel_ptsz(kernel, grid, block, arguments, shared, stream));
}
MODULE(thread_streams, REGISTER_KERNEL(add_one, "_Z7add_onePii"))

static void *work(void *argument) {
    long *result = (long *)argument;
    unsigned char host[BYTES];
    void *device = NULL, *async = NULL;

    CHECK(cudaMalloc(&device, BYTES));
    for (int r = 0; r < ROUNDS; r++) {
        memset(host, r, sizeof host);
        CHECK(cudaMallocAsync_ptsz(&async, BYTES, NULL));
        CHECK(cudaMemcpy_ptds(device, host, BYTES, cudaMemcpyHostToDevice)); /* SITE: in */
        CHECK(cudaMemsetAsync_ptsz(async, 0, BYTES, NULL));
        LAUNCH(dim(8, 1, 1), dim(256, 1, 1), 0, NULL, add_one((int *)device, BYTES / 4));
        CHECK(cudaMemcpyAsync_ptsz(async, device, BYTES, cudaMemcpyDeviceToDevice, NULL));
        CHECK(cudaMemcpyAsync_ptsz(host, async, BYTES, cudaMemcpyDefault, NULL)); /* SITE: out */
        CHECK(cudaStreamSynchronize_ptsz(NULL));
        *result += host[BYTES - 1];
        CHECK(cudaFreeAsync_ptsz(async, NULL));
    }
    CHECK(cudaFree(device));
    return NULL;
}

int main(void) {
    pthread_t thread[THREADS];
    long result[THREADS] = {0}, sum = 0;

    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_create(&thread[t], NULL, work, &result[t]));
    for (int t = 0; t < THREADS; t++) {
        CHECK(pthread_join(thread[t], NULL));
        sum += result[t];
    }
    printf("sum %ld\n", sum);
    return 0;
}
