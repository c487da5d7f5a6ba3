/*
 * stub.h - what stubs.py's output is made of: one weak function per export of the real library.
 * Hand-written functions of the same name replace it at link time. Any thread may call a stub;
 * none is safe in a signal handler.
 */
#ifndef STANDIN_STUB_H
#define STANDIN_STUB_H

#include "../standin.h"

/* Answers a call of the stub `name`, and logs it. `first` is the caller's first argument register,
 * whatever that holds. stub_plain.c just logs; a library may bring an answer of its own. */
long stub_answer(const char *name, const void *caller, const void *first, int status);

/* The real prototypes are NVIDIA's; the arguments that a stub ignores do no harm in the C ABI. */
#define STUB(name, status)                                                                         \
    STANDIN_EXPORT __attribute__((weak)) long name(const void *first);                             \
    long name(const void *first) {                                                                 \
        return stub_answer(#name, __builtin_return_address(0), first, status);                     \
    }

#define STUB_TEXT(name)                                                                            \
    STANDIN_EXPORT __attribute__((weak)) const char *name(void);                                   \
    const char *name(void) {                                                                       \
        return "not supported by the simulated device";                                            \
    }

#endif
