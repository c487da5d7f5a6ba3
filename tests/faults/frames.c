/*
 * frames.c - a library whose chain of calls into CUDA has frames of a given size, built twice with
 * different sizes and names: what lands at the address of a library that was unloaded.
 */
#include <execinfo.h>

#include "cuda_app.h"

#define NAME2(prefix, name) prefix##_##name
#define NAME1(prefix, name) NAME2(prefix, name)
#define NAME(name) NAME1(PREFIX, name)

int frames_run(void **keep);

static NOINLINE int NAME(inner)(void **keep) {
    void *address[64];
    int depth = backtrace(address, 64);
    CHECK(cudaMalloc(keep, FRAME)); /* SITE: frames */
    return depth;
}

static NOINLINE int NAME(middle)(void **keep) {
    volatile char padding[FRAME];
    padding[0] = 1;
    int depth = NAME(inner)(keep);
    return depth + padding[0] - 1;
}

static NOINLINE int NAME(outer)(void **keep) {
    volatile char padding[FRAME * 3];
    padding[FRAME] = 2;
    int depth = NAME(middle)(keep);
    return depth + padding[FRAME] - 2;
}

__attribute__((visibility("default"))) int frames_run(void **keep) {
    volatile int more = 0;
    return NAME(outer)(keep) + more;
}
