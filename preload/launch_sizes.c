/*
 * launch_sizes.c - see launch_sizes.h.
 *
 * The driver's functions are asked, not the runtime's cudaFuncGetParamInfo(): the last parameter
 * shows by an error at the next one, which the runtime would keep for cudaGetLastError(). Of a stub
 * the runtime says which kernel it stands for; it has just launched it and does not fail.
 */
#include "launch_sizes.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "kernels.h"
#include "resolve.h"

#define LARGEST 32764 /* bytes of a kernel's parameters, in any CUDA */

typedef int param_info(const void *function, size_t index, size_t *offset, size_t *size);

/* Found once; (void *)-1: the driver has no such function. */
static void *found(void *_Atomic *kept, const char *name) {
    void *function = atomic_load_explicit(kept, memory_order_acquire);
    if (!function) {
        function = ls_resolve_other(LS_LIB_CUDA, name);
        function = function ? function : (void *)-1;
        atomic_store_explicit(kept, function, memory_order_release);
    }
    return function == (void *)-1 ? NULL : function;
}

static int ask(void *function, const void *of, uint16_t *out) {
    param_info *info = (param_info *)function;
    int count = 0;
    while (info && count < LS_PARAMS_MOST) {
        size_t offset = 0, size = 0;
        if (info(of, (size_t)count, &offset, &size) != 0)
            break;
        out[count++] = size <= LARGEST && offset + size <= LARGEST ? (uint16_t)size : 0;
    }
    return count ? count : -1;
}

/* NULL: the runtime is older than 12.1, or the function is no stub that was seen to be one. */
static const void *kernel_of(const void *stub, void *caller) {
    static _Atomic bool failed;
    int (*get)(const void **, const void *) =
        (int (*)(const void **, const void *))ls_real(LS_API_cudaGetKernel, caller);
    const void *kernel = NULL;
    if (!get || !ls_kernel_is_stub(stub) || atomic_load(&failed))
        return NULL;
    if (get(&kernel, stub) == 0)
        return kernel;
    atomic_store(&failed, true); /* asked no more: an error of ours must not be the program's */
    int (*clear)(void) = (int (*)(void))ls_resolve_other(LS_LIB_CUDART, "cudaGetLastError");
    if (clear)
        clear();
    return NULL;
}

int ls_launch_sizes(enum ls_size_source source, const void *function, void *caller,
                    uint16_t size[LS_PARAMS_MOST]) {
    static void *_Atomic of_kernels, *_Atomic of_functions;
    if (source == LS_SIZES_OF_STUB)
        function = kernel_of(function, caller);
    if (!function || source == LS_SIZES_OF_NONE)
        return -1;
    if (source == LS_SIZES_OF_FUNCTION)
        return ask(found(&of_functions, "cuFuncGetParamInfo"), function, size);
    return ask(found(&of_kernels, "cuKernelGetParamInfo"), function, size);
}
