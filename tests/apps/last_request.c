/*
 * last_request.c - programs whose last request finds no memory, and nothing that grew or was still
 * held is to blame.
 *
 * Usage: last_request scratch | twice
 *   scratch  one buffer, made anew whenever a step needs a larger one; the last one is larger than
 *            the device
 *   twice    two regions that are both needed, asked for on one line
 */
#include "cuda_app.h"

#define MIB ((size_t)1 << 20)

static void work(void *a, void *b) {
    void *arguments[] = {&a, &b, NULL};
    STUB(work, arguments);
}
MODULE(program, REGISTER_KERNEL(work, "_Z4workPvS_"))

static void *buffer;
static size_t capacity;

static __attribute__((noinline)) void *scratch(size_t size) {
    if (size <= capacity)
        return buffer;
    if (buffer)
        CHECK(cudaFree(buffer));
    capacity = size;
    return cudaMalloc(&buffer, size) == cudaSuccess ? buffer : NULL;
}

static int in_steps(void) {
    char *host = malloc(MIB);
    void *weights;
    CHECK(cudaMalloc(&weights, 64 * MIB));
    for (size_t i = 0; i < 200; i++) {
        /* Sizes that repeat, and now and then one that is larger than all before. */
        size_t size = i == 190 ? 5000 * MIB : (10 + i * 7919 % (20 + i)) * MIB;
        void *here = scratch(size);
        if (here == NULL)
            return 1;
        CHECK(cudaMemcpy(weights, host, MIB, cudaMemcpyHostToDevice));
        LAUNCH(dim(8, 1, 1), dim(64, 1, 1), 0, NULL, work(weights, here));
    }
    return 0;
}

/* clang-format off */
static int on_one_line(void) {
    void *a, *b;
    return cudaMalloc(&a, 900 * MIB) != cudaSuccess || cudaMalloc(&b, 1200 * MIB) != cudaSuccess;
}
/* clang-format on */

int main(int argc, char **argv) {
    return argc > 1 && strcmp(argv[1], "twice") == 0 ? on_one_line() : in_steps();
}
