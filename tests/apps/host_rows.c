/*
 * host_rows.c - a matrix of the host goes to the device and back in rows, MODE:
 *
 *   column   rows of 64 bytes, 4 KiB apart: a few columns of a wide matrix; there and back
 *   pinned   the same from page-locked memory, asynchronously
 *   wide     rows of 4 KiB, 8 KiB apart: each is large enough for itself
 *   whole    rows of 64 bytes that lie together
 *   matrix   a few columns of a wide matrix, by cublasSetMatrix: rows of 64 bytes, 4 KiB apart
 *
 * Usage: host_rows MODE CALLS. Prints the bytes of one copy.
 */
#include "cuda_app.h"

enum { ROWS = 2048, SHORT = 64, LONG = 4096 };

static char *host, *device;
static size_t width, pitch;

static void copy_in_rows(int calls, int pinned, int back) {
    for (int i = 0; i < calls; i++) {
        if (pinned)
            CHECK(cudaMemcpy2DAsync(/* SITE: pinned rows */
                                    device, width, host, pitch, width, ROWS, cudaMemcpyHostToDevice,
                                    NULL));
        else
            CHECK(cudaMemcpy2D(/* SITE: rows */
                               device, width, host, pitch, width, ROWS, cudaMemcpyHostToDevice));
        if (back)
            CHECK(cudaMemcpy2D(/* SITE: rows back */
                               host, pitch, device, width, width, ROWS, cudaMemcpyDeviceToHost));
        CHECK(cudaDeviceSynchronize());
    }
}

static void set_matrix(int calls) {
    for (int i = 0; i < calls; i++)
        CHECK(cublasSetMatrix(/* SITE: matrix */
                              (int)(width / 4), ROWS, 4, host, (int)(pitch / 4), device,
                              (int)(width / 4)));
}

int main(int argc, char **argv) {
    EXPECT(argc == 3);
    const char *mode = argv[1];
    int calls = atoi(argv[2]), pinned = strcmp(mode, "pinned") == 0;
    width = strcmp(mode, "wide") == 0 ? LONG : SHORT;
    pitch = strcmp(mode, "whole") == 0 ? width : width == LONG ? 2 * LONG : LONG;
    if (pinned)
        CHECK(cudaHostAlloc((void **)&host, pitch * ROWS, 0));
    else
        host = calloc(ROWS, pitch);
    CHECK(cudaMalloc((void **)&device, width * ROWS));
    if (strcmp(mode, "matrix") == 0)
        set_matrix(calls);
    else
        copy_in_rows(calls, pinned, strcmp(mode, "column") == 0);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(device));
    if (pinned)
        CHECK(cudaFreeHost(host));
    printf("copy_bytes=%zu\n", width * ROWS);
    return 0;
}
