/*
 * early.c - a program whose library calls CUDA before main() and after it (early_library.c), and
 * which does so itself.
 */
#include "cuda_app.h"

void *early_buffer(void);
static void *own;

__attribute__((constructor(101))) static void first(void) {
    CHECK(cudaMalloc(&own, 100));
}

__attribute__((destructor(101))) static void last(void) {
    CHECK(cudaFree(own));
}

int main(void) {
    char host[16] = {0};
    CHECK(cudaMemcpy(early_buffer(), host, sizeof host, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(own, early_buffer(), 100, cudaMemcpyDeviceToDevice));
    printf("done\n");
    return 0;
}
