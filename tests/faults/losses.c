/*
 * losses.c - more different stacks than a table holds, then more calls than a spool holds. Each
 * call comes by its own way through a tree of call sites. Argument: calls.
 */
#include "own_runtime.h"

/* 4^9 ways. What comes after each call differs, so the compiler keeps four of them. */
enum { DEPTH = 9 };

static NOINLINE void walk(unsigned way, int depth) {
    if (depth == DEPTH) {
        CHECK(cudaStreamSynchronize(NULL));
        return;
    }
    switch (way & 3) {
    case 0:
        walk(way >> 2, depth + 1);
        __asm__ volatile("# the first");
        break;
    case 1:
        walk(way >> 2, depth + 1);
        __asm__ volatile("# the second");
        break;
    case 2:
        walk(way >> 2, depth + 1);
        __asm__ volatile("# the third");
        break;
    default:
        walk(way >> 2, depth + 1);
        __asm__ volatile("# the fourth");
        break;
    }
}

int main(int argc, char **argv) {
    unsigned calls = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    for (unsigned i = 0; i < calls; i++)
        walk(i, 0);
    printf("calls %u\n", calls);
    return 0;
}
