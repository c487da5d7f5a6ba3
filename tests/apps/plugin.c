/*
 * plugin.c - a shared object that uses CUDA, for the programs that load one at run time (what a
 * framework's libc10_cuda.so or an extension module is). One pageable copy, one lost buffer.
 */
#include "cuda_app.h"

int plugin_run(int rounds);

static NOINLINE void *plugin_lose(void) {
    void *lost = NULL;
    CHECK(cudaMalloc(&lost, 4096)); /* SITE: plugin leak */
    return lost;
}

__attribute__((visibility("default"))) int plugin_run(int rounds) {
    int value = 0;
    void *device = NULL;

    CHECK(cudaMalloc(&device, 65536));
    for (int i = 0; i < rounds; i++) {
        value = i;
        CHECK(cudaMemcpy(device, &value, 4, cudaMemcpyHostToDevice)); /* SITE: plugin copy */
    }
    CHECK(cudaFree(device));
    EXPECT(plugin_lose() != NULL);
    return value;
}
