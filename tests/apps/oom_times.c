/*
 * oom_times.c - runs out of device memory again and again, with pauses, and says when: a line per
 * failure, CLOCK_MONOTONIC in ns as the failed call returned. ARGS: failures, pause in ms, threads
 * that make some 100,000 other calls a second meanwhile.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "cuda_app.h"

#define NO_MEMORY ((cudaError_t)2) /* cudaErrorMemoryAllocation */
enum { CALLS = 1500 };

static _Atomic int over;

static void *work(void *unused) {
    void *memory;
    CHECK(cudaMalloc(&memory, 4096));
    while (!over) {
        for (int i = 0; i < CALLS; i++)
            CHECK(cudaMemset(memory, 0, 16));
        usleep(10000);
    }
    return unused;
}

int main(int argc, char **argv) {
    int failures = argc > 1 ? atoi(argv[1]) : 10, pause_ms = argc > 2 ? atoi(argv[2]) : 100;
    int workers = argc > 3 ? atoi(argv[3]) : 0;
    pthread_t thread[8];
    void *memory;
    CHECK(cudaFree(NULL));
    for (int i = 0; i < workers && i < 8; i++)
        CHECK(pthread_create(&thread[i], NULL, work, NULL));
    for (int i = 0; i < failures; i++) {
        struct timespec now;
        usleep((useconds_t)pause_ms * 1000);
        EXPECT(cudaMalloc(&memory, (size_t)1 << 40) == NO_MEMORY);
        clock_gettime(CLOCK_MONOTONIC, &now);
        printf("%lld\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
        fflush(stdout);
        CHECK(cudaMemset(NULL, 0, 0)); /* the next one is another */
    }
    over = 1;
    for (int i = 0; i < workers && i < 8; i++)
        CHECK(pthread_join(thread[i], NULL));
    return 0;
}
