/*
 * threads.c - many threads. "crowd N": N threads alive at once, each with its calls. "churn N": N
 * short threads one after the other, eight at a time.
 */
#include <pthread.h>

#include "cuda_app.h"

static pthread_barrier_t barrier;
static int wait_for_all;

static void *work(void *argument) {
    void *p = NULL;
    size_t size = 64 + (size_t)argument;
    char host[64] = {0};

    if (wait_for_all)
        pthread_barrier_wait(&barrier);
    CHECK(cudaMalloc(&p, size));
    CHECK(cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice));
    if (wait_for_all)
        pthread_barrier_wait(&barrier);
    CHECK(cudaFree(p));
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    int n = atoi(argv[2]), at_once = strcmp(argv[1], "crowd") == 0 ? n : 8;
    pthread_t *thread = (pthread_t *)calloc((size_t)at_once, sizeof *thread);
    pthread_attr_t small;

    EXPECT(thread != NULL);
    CHECK(pthread_attr_init(&small));
    CHECK(pthread_attr_setstacksize(&small, 256 << 10));
    wait_for_all = at_once == n;
    CHECK(pthread_barrier_init(&barrier, NULL, (unsigned)at_once));
    for (int i = 0; i < n; i += at_once) {
        for (int t = 0; t < at_once; t++)
            CHECK(pthread_create(&thread[t], &small, work, (void *)(long)(i + t)));
        for (int t = 0; t < at_once; t++)
            CHECK(pthread_join(thread[t], NULL));
    }
    free(thread);
    printf("threads %d\n", n);
    return 0;
}
