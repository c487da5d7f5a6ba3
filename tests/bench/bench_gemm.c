/*
 * bench_gemm.c - the cost of a recorded product with its operands, without a stack (run it with
 * LAYOUTSPY_STACKS=off).
 *
 *   bare      cublasSgemm through a pointer
 *   product   as a program makes it: interposed, recorded, of one size again and again
 *   sizes     the same of 64 sizes in turn
 *   global    the same with beta in static memory, where the library is asked whether it is there
 *
 * Blocks of each kind alternate and the median block counts. Prints ns per call. `bench-gemm KIND
 * N` runs N blocks of one kind and prints nothing (for instruction counts).
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int gemm(void *, int, int, int, int, int, const float *, const float *, int, const float *,
                 int, const float *, float *, int);
gemm cublasSgemm_v2;

enum { BLOCKS = 151, CALLS = 1000 };

static gemm *volatile real;
static volatile int sink;
static float global_beta;

static inline void calls(gemm *call, int sizes, const float *beta) {
    const float alpha = 1, own = 0;
    for (int i = 0; i < CALLS; i++)
        sink += call((void *)8, 0, 1, 64 + i % sizes, 32, 16, &alpha, &alpha, 64, &alpha, 64,
                     beta ? beta : &own, &global_beta, 64 + i % sizes);
}

static void bare(void) {
    calls(real, 1, NULL);
}
static void product(void) {
    calls(cublasSgemm_v2, 1, NULL);
}
static void sizes(void) {
    calls(cublasSgemm_v2, 64, NULL);
}
static void global(void) {
    calls(cublasSgemm_v2, 1, &global_beta);
}

static const struct kind {
    const char *name;
    void (*run)(void);
} kinds[] = {{"bare", bare}, {"product", product}, {"sizes", sizes}, {"global", global}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static double now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
    static double ns[KINDS][BLOCKS];
    const char *library = getenv("BENCH_CUBLAS");
    void *handle = dlopen(library ? library : "libcublas.so", RTLD_NOW | RTLD_NOLOAD);
    *(void **)&real = handle ? dlsym(handle, "cublasSgemm_v2") : NULL;
    if (!real) {
        fprintf(stderr, "bench-gemm: the no-op libcublas is not loaded (BENCH_CUBLAS)\n");
        return 1;
    }
    for (int k = 0; argc == 3 && k < KINDS; k++)
        for (int n = atoi(argv[2]); n > 0 && strcmp(argv[1], kinds[k].name) == 0; n--)
            kinds[k].run();
    if (argc == 3)
        return 0;
    for (int b = -10; b < BLOCKS; b++) { /* the first few warm up */
        for (int k = 0; k < KINDS; k++) {
            double start = now_ns();
            kinds[k].run();
            if (b >= 0)
                ns[k][b] = (now_ns() - start) / CALLS;
        }
        const struct timespec pause = {.tv_nsec = 15000000};
        nanosleep(&pause, NULL);
    }
    double median[KINDS];
    for (int k = 0; k < KINDS; k++) {
        qsort(ns[k], BLOCKS, sizeof ns[k][0], by_value);
        median[k] = ns[k][BLOCKS / 2];
        printf("%-9s %7.1f ns per call\n", kinds[k].name, median[k]);
    }
    printf("a product with its operands: %.0f ns above bare  (goal 400)\n", median[1] - median[0]);
    return 0;
}
