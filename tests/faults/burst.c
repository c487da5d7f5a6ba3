/*
 * burst.c - what the kill tests kill: threads that allocate, copy and free without an end, at a
 * pace that the simulated device's log keeps up with. Arguments: threads, seconds.
 */
#include <pthread.h>
#include <time.h>

#include "cuda_app.h"

static double end;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static NOINLINE void step(size_t i) {
    static char host[4096];
    void *p = NULL, *q = NULL;
    CHECK(cudaMalloc(&p, 4096 + i % 1000));
    CHECK(cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice));
    CHECK(cudaMallocHost(&q, 512));
    CHECK(cudaMemcpyAsync(p, q, 512, cudaMemcpyHostToDevice, NULL));
    CHECK(cudaFreeHost(q));
    CHECK(cudaFree(p));
}

static void *work(void *unused) {
    (void)unused;
    for (size_t i = 0; now() < end; i++)
        step(i);
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t thread[16];
    int threads = argc > 1 ? atoi(argv[1]) : 1;

    EXPECT(threads >= 1 && threads <= 16);
    end = now() + (argc > 2 ? atof(argv[2]) : 1);
    for (int t = 0; t < threads; t++)
        CHECK(pthread_create(&thread[t], NULL, work, NULL));
    for (int t = 0; t < threads; t++)
        CHECK(pthread_join(thread[t], NULL));
    printf("done\n");
    return 0;
}
