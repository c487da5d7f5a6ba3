/*
 * reload_plugin.c - a plugin that calls from as many different stacks as it is told to.
 */
#include "own_runtime.h"

void reload_run(int stacks);

static NOINLINE void deep(int n) {
    if (n > 0)
        deep(n - 1);
    else
        CHECK(cudaStreamSynchronize(NULL));
    __asm__ volatile(""); /* no tail call */
}

__attribute__((visibility("default"))) void reload_run(int stacks) {
    for (int n = 0; n < stacks; n++)
        deep(n);
}
