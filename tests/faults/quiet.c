/*
 * quiet.c - calls that were made many times before, between two system calls to find them by (the
 * last two of three). The runtime makes none of its own.
 */
#include <sys/personality.h>

#include "own_runtime.h"

static char stub[16], host[64];

static NOINLINE void calls(int times) {
    void *p = NULL;
    for (int i = 0; i < times; i++) {
        CHECK(cudaMalloc(&p, 64));
        CHECK(cudaEventRecord(NULL, NULL));
        CHECK(cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice));
        CHECK(cudaLaunchKernel(stub, dim(1, 1, 1), dim(1, 1, 1), NULL, 0, NULL));
        CHECK(cudaStreamSynchronize(NULL));
        CHECK(cudaFree(p));
    }
}

/* A system call that nobody makes, and that changes nothing. */
static void mark(void) {
    (void)personality(0xffffffff);
}

int main(void) {
    void **module = register_module();
    register_kernel(module, stub, "a_kernel");
    /* More than 2 MB of records first: what comes then fits the chunk that is begun. The same place
     * calls (the compiler must not unroll this), so the stacks are the same. */
    for (volatile int times = 6000; times > 0; times = times == 6000 ? 200 : 0) {
        mark();
        calls(times);
    }
    mark();
    printf("done\n");
    return 0;
}
