/*
 * rpath.c - linked with DT_RPATH (not RUNPATH) to its libcudart, which then beats LD_LIBRARY_PATH,
 * as in PyTorch's wheels: recorded all the same. Registers and copies from a registered range.
 */
#include "cuda_app.h"

static unsigned char table[3 * 4096] __attribute__((aligned(4096)));

static NOINLINE void copy_rows(void *device, size_t pitch) {
    /* 16 rows of 100 bytes, from registered memory: pinned. */
    CHECK(cudaMemcpy2D(device, pitch, table + 64, 128, 100, 16, cudaMemcpyHostToDevice));
}

static NOINLINE void copy_back(void *device, size_t pitch) {
    unsigned char row[1600];
    CHECK(cudaMemcpy2D(row, 100, device, pitch, 100, 16, cudaMemcpyDeviceToHost)); /* SITE: rows */
    printf("row %d\n", row[1599]);
}

int main(void) {
    void *device = NULL;
    size_t pitch = 0;

    memset(table, 7, sizeof table);
    CHECK(cudaMallocPitch(&device, &pitch, 100, 16));
    CHECK(cudaHostRegister(table, sizeof table, 0));
    copy_rows(device, pitch);
    copy_back(device, pitch);
    CHECK(cudaHostUnregister(table));
    CHECK(cudaFree(device));
    return 0;
}
