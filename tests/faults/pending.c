/*
 * pending.c - a copy while an error that nobody has read is pending, from pinned memory that was
 * allocated past every hook, through the library's own handle. Argument: libcudart's name.
 */
#include <dlfcn.h>

#include "cuda_app.h"

int main(int argc, char **argv) {
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *device = NULL, *pinned = NULL, *more = NULL;

    EXPECT(library != NULL);
    cudaError_t (*unhooked)(void **, size_t) =
        (cudaError_t(*)(void **, size_t))dlsym(library, "cudaMallocHost");
    EXPECT(unhooked != NULL);
    CHECK(unhooked(&pinned, 64));
    CHECK(unhooked(&more, 64));
    CHECK(cudaMalloc(&device, 64));
    EXPECT(cudaMalloc(NULL, 64) != cudaSuccess);
    CHECK(cudaMemcpy(device, pinned, 64, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(pinned, device, 64, cudaMemcpyDeviceToHost));
    printf("pending %d\n", (int)cudaGetLastError());
    CHECK(cudaMemcpy(device, more, 64, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(more, device, 64, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device));
    printf("pending %d\n", (int)cudaGetLastError());
    return 0;
}
