/*
 * loops.c - two loops to measure: kernels that take long (gemm), which the device holds up, and
 * tiny ones, which the host does. As ../loops.py, without PyTorch.
 *
 * Reads lines "gemm N" and "tiny N"; answers each with the seconds that N launches took, the
 * device's work included. Not counted (count.h): what is measured is nothing but the calls.
 */
#include <time.h>

void launch_add_one(int *data, int count, cudaStream_t stream);
void launch_busy(float *data, int count, int rounds, cudaStream_t stream);

enum { SMALL = 256, LARGE = 1 << 20, ROUNDS = 50000 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static NOINLINE void gemm(int count, float *data) {
    for (int i = 0; i < count; i++)
        launch_busy(data, LARGE, ROUNDS, NULL);
}

static NOINLINE void tiny(int count, int *data) {
    for (int i = 0; i < count; i++)
        launch_add_one(data, SMALL, NULL);
}

int main(void) {
    void *small, *large;
    char what[16];
    int count;
    CHECK(cudaMalloc(&small, SMALL * sizeof(int)));
    CHECK(cudaMalloc(&large, LARGE * sizeof(float)));
    CHECK(cudaMemset(small, 0, SMALL * sizeof(int)));
    CHECK(cudaMemset(large, 0, LARGE * sizeof(float)));
    while (scanf("%15s %d", what, &count) == 2) {
        CHECK(cudaDeviceSynchronize());
        double begin = now();
        if (strcmp(what, "gemm") == 0)
            gemm(count, large);
        else
            tiny(count, small);
        CHECK(cudaDeviceSynchronize());
        printf("%.6f\n", now() - begin);
        fflush(stdout);
    }
    CHECK(cudaFree(large));
    CHECK(cudaFree(small));
    return 0;
}
