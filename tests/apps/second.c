/*
 * second.c - another interposer: it counts cudaMalloc and passes it on, to what RTLD_NEXT finds
 * from here; that must never be itself.
 */
#include <dlfcn.h>
#include <string.h>

#include "expect.h"
#include "layoutspy/api/types.h"

__attribute__((visibility("default"))) cudaError_t cudaMalloc(void **p, size_t size);

static int calls;

cudaError_t cudaMalloc(void **p, size_t size) {
    cudaError_t (*next)(void **, size_t);
    void *found = dlsym(RTLD_NEXT, "cudaMalloc");
    EXPECT(found != NULL && found != (void *)cudaMalloc);
    EXPECT(dlsym(RTLD_DEFAULT, "cudaMalloc") != NULL);
    memcpy(&next, &found, sizeof found);
    calls++;
    return next(p, size);
}

__attribute__((destructor)) static void say(void) {
    fprintf(stderr, "second: %d\n", calls);
}
