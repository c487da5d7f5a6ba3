/*
 * two_runtimes_plugin.c - built once for each runtime: registers, allocates, launches, frees.
 * KERNEL is its kernel's name.
 */
#include "own_runtime.h"

void plugin_use(void);

static char stub[16];

__attribute__((visibility("default"))) void plugin_use(void) {
    void **module = register_module(), *p = NULL;
    int version = 0;

    register_kernel(module, stub, KERNEL);
    __cudaRegisterFatBinaryEnd(module);
    for (int i = 0; i < 5; i++) {
        CHECK(cudaMalloc(&p, 64));
        CHECK(cudaFree(p));
    }
    CHECK(cudaLaunchKernel(stub, dim(1, 1, 1), dim(32, 1, 1), NULL, 0, NULL));
    __cudaUnregisterFatBinary(module);
    CHECK(cudaRuntimeGetVersion(&version));
    printf("%s: runtime %d\n", KERNEL, version);
}
