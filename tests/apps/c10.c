/*
 * c10.c - a libc10.so that does nothing: where the reports of PyTorch's allocator end, for a
 * program that makes them without PyTorch.
 */
#include "layoutspy/api/types.h"

#define API_VOID_WHEN(LIB, name, CLASS, STACK, params, args, condition, ...)                       \
    __attribute__((visibility("default"))) void name params;                                       \
    __attribute__((visibility("default"))) void name params {                                      \
    }
#define API(LIB, ret, name, CLASS, STACK, params, args, ...)
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "layoutspy/api/all.def"
