/*
 * vendor.cu - a program as nvcc builds it, with NVIDIA's headers and host code: kernels, templates,
 * variables of all sorts, a graph, the <<<>>> form. Prints what it found; ../../e2e/test_standin.py
 * compiles and runs it where there is an nvcc.
 */
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

__device__ int offset[4];
__constant__ float weights[8];
__managed__ int factor = 5;

template <class T> __global__ void scale(T *p, int n) {
    if (threadIdx.x < n)
        p[threadIdx.x] = p[threadIdx.x] * factor + offset[0] + weights[0];
}

static void check(cudaError_t status, int line) {
    if (status == cudaSuccess)
        return;
    printf("line %d: %s\n", line, cudaGetErrorString(status));
    exit(1);
}
#define CHECK(call) check(call, __LINE__)

int main() {
    float *p, host[8] = {1, 2, 3};
    int numbers[4] = {1, 2, 3, 4}, back[4] = {0}, blocks, grid, block;
    CHECK(cudaMalloc(&p, sizeof host));
    scale<float><<<2, 32>>>(p, 3);
    CHECK(cudaGetLastError());
    scale<float><<<2, 2048>>>(p, 3);
    printf("%s\n", cudaGetErrorName(cudaGetLastError()));
    CHECK(cudaMemcpyToSymbol(offset, numbers, sizeof numbers));
    CHECK(cudaMemcpyFromSymbol(back, offset, sizeof back));
    CHECK(cudaMemcpyToSymbol(weights, host, sizeof host));
    factor = 3;
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale<float>, 128, 0));
    CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, scale<float>));
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    scale<double><<<1, 32, 0, stream>>>((double *)p, 1);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    cudaDeviceProp prop;
    CHECK(cudaGetDeviceProperties(&prop, 0));
    printf("%d %d %d %d %d.%d %s\n", back[3], blocks > 0, grid > 0, block > 0, prop.major, prop.minor,
           prop.name);
    return 0;
}
