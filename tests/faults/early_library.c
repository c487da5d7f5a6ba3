/*
 * early_library.c - a library whose constructor uses CUDA before any constructor of a preloaded
 * library may have run, and whose destructor uses it after theirs.
 */
#include "cuda_app.h"

void *early_buffer(void);
static void *buffer;

__attribute__((constructor)) static void open_early(void) {
    CHECK(cudaMalloc(&buffer, 1 << 16));
    CHECK(cudaMemset(buffer, 0, 1 << 16));
}

__attribute__((destructor)) static void close_late(void) {
    CHECK(cudaFree(buffer));
}

__attribute__((visibility("default"))) void *early_buffer(void) {
    return buffer;
}
