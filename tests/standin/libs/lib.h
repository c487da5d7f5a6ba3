/*
 * lib.h - small things that the hand-written library stand-ins share.
 */
#ifndef STANDIN_LIB_H
#define STANDIN_LIB_H

#include "../standin.h"

/* Opens an exported function: `call` is its line of the truth log, closed by standin_leave(). */
#define LIB_ENTER(call)                                                                            \
    struct standin_call call;                                                                      \
    standin_enter(&call, __func__, __builtin_return_address(0))

/* A pointer or handle as a field. */
static inline void lib_put_pointer(struct standin_call *call, const char *key, const void *value) {
    standin_put(call, key, (uintptr_t)value);
}

/* A library's own checks come after the fault switch, which wins. */
static inline int lib_status(const struct standin_call *call, int status) {
    return call->fault ? call->fault : status;
}

#endif
