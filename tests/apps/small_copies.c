/*
 * small_copies.c - many 512-byte pageable copies, everything freed: how a program that feeds its
 * parameters one by one looks (darknet's cuda_push_array).
 */
#include "cuda_app.h"

enum { COPIES = 2000, BYTES = 512 };

static NOINLINE void push(void *device, const void *host) {
    CHECK(cudaMemcpy(device, host, BYTES, cudaMemcpyHostToDevice)); /* SITE: push */
}

static NOINLINE void pull(void *host, const void *device) {
    CHECK(cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost)); /* SITE: pull */
}

int main(void) {
    static unsigned char in[BYTES], out[BYTES];
    void *buffer[8];
    unsigned long sum = 0;

    for (int b = 0; b < 8; b++)
        CHECK(cudaMalloc(&buffer[b], BYTES));
    for (int i = 0; i < COPIES; i++) {
        memset(in, i & 0xff, sizeof in);
        push(buffer[i % 8], in);
        if (i % 100 == 0) {
            pull(out, buffer[i % 8]);
            sum += out[i % BYTES];
        }
    }
    for (int b = 0; b < 8; b++)
        CHECK(cudaFree(buffer[b]));
    printf("sum %lu\n", sum);
    return 0;
}
