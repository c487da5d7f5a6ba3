/*
 * losses.c - more different stacks than a table holds, then more calls than a spool holds. Each
 * call comes by its own way through a tree of call sites. Argument: calls.
 */
#include "own_runtime.h"

static NOINLINE void walk(unsigned way, int depth) {
    if (depth == 0) {
        CHECK(cudaStreamSynchronize(NULL));
    } else if (way & 1) {
        walk(way >> 1, depth - 1);
        __asm__ volatile("# one way");
    } else {
        walk(way >> 1, depth - 1);
        __asm__ volatile("# the other");
    }
}

int main(int argc, char **argv) {
    unsigned calls = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    for (unsigned i = 0; i < calls; i++)
        walk(i, 17);
    printf("calls %u\n", calls);
    return 0;
}
