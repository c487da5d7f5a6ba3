/*
 * bench_call.c - the cost of an interposed call with its record.
 *
 *   bare      the real function through a pointer
 *   clocks    the same between two reads of the time-stamp counter: what no recorder can avoid
 *   recorded  the call as a program makes it: interposed, a record without a stack
 *   stacked   the same with a native stack that the recorder knows already
 *
 * Blocks of each kind alternate and the median block counts. Prints ns per call and the ratios.
 * `bench-call KIND N` runs N blocks of one kind and prints nothing (for instruction counts).
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

int cudaStreamWaitEvent(void *stream, void *event, unsigned int flags);
int cudaStreamSynchronize(void *stream);

/* Few enough calls a second that the collector hands chunks back: what a real program gets. */
enum { BLOCKS = 151, CALLS = 1000 };

static int (*volatile real)(void *, void *, unsigned int);
static volatile uint64_t sink;

static void bare(void) {
    for (int i = 0; i < CALLS; i++)
        sink += (uint64_t)real(NULL, NULL, 0);
}

static void clocks(void) {
    for (int i = 0; i < CALLS; i++) {
        uint64_t start = __rdtsc();
        sink += (uint64_t)real(NULL, NULL, 0);
        sink += __rdtsc() - start;
    }
}

static void recorded(void) {
    for (int i = 0; i < CALLS; i++)
        sink += (uint64_t)cudaStreamWaitEvent(NULL, NULL, 0);
}

static void stacked(void) {
    for (int i = 0; i < CALLS; i++)
        sink += (uint64_t)cudaStreamSynchronize(NULL);
}

static const struct kind {
    const char *name;
    void (*run)(void);
} kinds[] = {{"bare", bare}, {"clocks", clocks}, {"recorded", recorded}, {"stacked", stacked}};

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
    const char *library = getenv("BENCH_CUDART");
    void *handle = dlopen(library ? library : "libcudart.so", RTLD_NOW | RTLD_NOLOAD);
    real =
        handle ? (int (*)(void *, void *, unsigned int))dlsym(handle, "cudaStreamWaitEvent") : NULL;
    if (!real) {
        fprintf(stderr, "bench-call: the no-op libcudart is not loaded (BENCH_CUDART)\n");
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
        /* A real program works between its calls. */
        const struct timespec pause = {.tv_nsec = 15000000};
        nanosleep(&pause, NULL);
    }
    double median[KINDS];
    for (int k = 0; k < KINDS; k++) {
        qsort(ns[k], BLOCKS, sizeof ns[k][0], by_value);
        median[k] = ns[k][BLOCKS / 2];
        printf("%-9s %7.1f ns per call\n", kinds[k].name, median[k]);
    }
    printf("recorded / clocks  %.2f  (goal 1.5)\n", median[2] / median[1]);
    printf("stacked / clocks   %.2f\n", median[3] / median[1]);
    return 0;
}
