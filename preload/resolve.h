/*
 * resolve.h - finding the real function behind a wrapper.
 */
#ifndef LS_RESOLVE_H
#define LS_RESOLVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "layoutspy/api.h"

extern void *_Atomic ls_real_function[LS_API_COUNT];

/*
 * Look for the real function: behind us in the global scope (RTLD_NEXT), in a loaded library of
 * the right name (libraries loaded RTLD_LOCAL are not in any scope of ours), then in what the
 * caller's own module depends on. NULL: nowhere; asked again at the next call. errno is kept.
 */
void *ls_resolve(enum ls_api api, void *caller);

/*
 * A process may hold two runtimes (a framework built on CUDA 12 beside one on CUDA 13): then each
 * caller's calls go to the one that its own module depends on. That there are two shows when a
 * module registers its kernels, the first thing that nvcc's host code does; from then on every call
 * looks its caller's module up.
 */
extern _Atomic bool ls_several_runtimes;
void *ls_resolve_for_caller(enum ls_api api, void *caller);

/*
 * Look now for all functions that allocators call or report to (C10's, the driver's, the runtime's
 * that give and take memory or record events): their callers may hold a lock of their own in the
 * call, where the loader's must not be taken. What is not loaded yet is looked for at its first
 * call, or when this runs again.
 */
void ls_resolve_all(void);

/* A function of `lib` that is not in the table, found in the same way without a caller. */
void *ls_resolve_other(enum ls_lib lib, const char *name);

/* Of a library that a process holds once. */
static inline void *ls_real_single(enum ls_api api, void *caller) {
    void *real = atomic_load_explicit(&ls_real_function[api], memory_order_acquire);
    return __builtin_expect(real != NULL, 1) ? real : ls_resolve(api, caller);
}

static inline void *ls_real(enum ls_api api, void *caller) {
    if (__builtin_expect(atomic_load_explicit(&ls_several_runtimes, memory_order_relaxed), 0))
        return ls_resolve_for_caller(api, caller);
    return ls_real_single(api, caller);
}

#endif
