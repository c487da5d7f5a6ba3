/*
 * pluggable.c - libpluggable.so: an allocator of a user's own for PyTorch
 * (torch.cuda.memory.CUDAPluggableAllocator), the plainest there can be. For
 * workloads/pluggable.py.
 *
 * Any thread. Not safe in a signal handler.
 */
#include <pthread.h>

#include "cuda_app.h"

void *pluggable_alloc(size_t size, int device, cudaStream_t stream);
void pluggable_free(void *ptr, size_t size, int device, cudaStream_t stream);
int pluggable_count(void);
int pluggable_rounds(int rounds);
int pluggable_threads(int threads, int rounds);

static int allocations;

void *pluggable_alloc(size_t size, int device, cudaStream_t stream) {
    void *ptr = NULL;
    (void)device;
    (void)stream;
    if (cudaMalloc(&ptr, size) != cudaSuccess)
        return NULL;
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
    return ptr;
}

void pluggable_free(void *ptr, size_t size, int device, cudaStream_t stream) {
    (void)size;
    (void)device;
    (void)stream;
    cudaFree(ptr);
}

int pluggable_count(void) {
    return __atomic_load_n(&allocations, __ATOMIC_RELAXED);
}

/* Allocates and frees; returns the rounds that were run. */
int pluggable_rounds(int rounds) {
    for (int i = 0; i < rounds; i++) {
        void *ptr = pluggable_alloc(4096, 0, NULL);
        if (!ptr)
            return i;
        pluggable_free(ptr, 4096, 0, NULL);
    }
    return rounds;
}

static void *run_rounds(void *rounds) {
    *(int *)rounds = pluggable_rounds(*(int *)rounds);
    return NULL;
}

/* The same in threads of its own; returns the rounds of all. */
int pluggable_threads(int threads, int rounds) {
    pthread_t thread[16];
    int ran[16], started = 0, done = 0;

    for (; started < threads && started < 16; started++) {
        ran[started] = rounds;
        if (pthread_create(&thread[started], NULL, run_rounds, &ran[started]) != 0)
            break;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(thread[i], NULL);
        done += ran[i];
    }
    return done;
}
