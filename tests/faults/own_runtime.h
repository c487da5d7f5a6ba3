/*
 * own_runtime.h - what programs on own_runtime.c share.
 */
#ifndef OWN_RUNTIME_H
#define OWN_RUNTIME_H

#include "cuda_app.h"

cudaError_t cudaRuntimeGetVersion(int *version);

/* Prints how often its functions were called. */
void own_runtime_say(void);

/* A module and a kernel of it, as nvcc's constructors register them. */
static inline void **register_module(void) {
    static const unsigned long long image[8] = {0x00100001ba55ed50ull, 0};
    static struct fatbin_wrapper wrapper = {0x466243b1, 1, image, NULL};
    return __cudaRegisterFatBinary(&wrapper);
}

static inline void register_kernel(void **module, const void *stub, const char *name) {
    __cudaRegisterFunction(module, (const char *)stub, (char *)(uintptr_t)name, name, -1, NULL,
                           NULL, NULL, NULL, NULL);
}

#endif
