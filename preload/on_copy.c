/*
 * on_copy.c - asking CUDA about the host side of a copy. See on_call.h.
 *
 * The only CUDA calls that layoutspy makes of its own: cudaPointerGetAttributes (without the
 * runtime cuPointerGetAttribute), for addresses in 2 MiB ranges where no recorded call ever put
 * anything, once per range as long as the answer is "pageable"; never while a stream captures,
 * never after a failed call or with an error pending (an error of ours must not become the
 * program's cudaGetLastError), never in a callback of CUPTI's.
 */
#include <errno.h>

#include "cupti/cupti.h"
#include "known.h"
#include "on_call.h"

#include "layoutspy/api/types.h"
#include "resolve.h"

static struct {
    _Atomic int state; /* 0 not looked for, 1 there, 2 missing */
    cudaError_t (*attributes)(struct cudaPointerAttributes *, const void *);
    cudaError_t (*peek)(void);
    cudaError_t (*clear)(void);
} cuda;

static bool have_cuda(void) {
    int state = atomic_load_explicit(&cuda.state, memory_order_acquire);
    if (state)
        return state == 1;
    void *attributes = ls_resolve_other(LS_LIB_CUDART, "cudaPointerGetAttributes");
    void *peek = ls_resolve_other(LS_LIB_CUDART, "cudaPeekAtLastError");
    void *clear = ls_resolve_other(LS_LIB_CUDART, "cudaGetLastError");
    bool found = attributes && peek && clear;
    cuda.attributes = (cudaError_t(*)(struct cudaPointerAttributes *, const void *))attributes;
    cuda.peek = (cudaError_t(*)(void))peek;
    cuda.clear = (cudaError_t(*)(void))clear;
    atomic_store_explicit(&cuda.state, found ? 1 : 2, memory_order_release);
    return found;
}

/* A program without the runtime, of the driver: the answer to memory that it does not know is an
 * error of that call's alone. */
static enum ls_asked ask_driver(uint64_t address) {
    enum { MEMORY_TYPE = 2, IS_MANAGED = 8, INVALID_VALUE = 1 }; /* CUpointer_attribute, CUresult */
    static int (*_Atomic attribute)(void *, int, unsigned long long);
    int (*get)(void *, int, unsigned long long) = atomic_load(&attribute);
    unsigned type = 0, managed = 0;
    if (!get) {
        get = (int (*)(void *, int, unsigned long long))ls_resolve_other(LS_LIB_CUDA,
                                                                         "cuPointerGetAttribute");
        atomic_store(&attribute, get);
    }
    int status = get ? get(&type, MEMORY_TYPE, address) : -1;
    if (status == INVALID_VALUE) {
        ls_asked_mark(address);
        return LS_ASKED_PAGEABLE;
    }
    if (status == 0 && get(&managed, IS_MANAGED, address) == 0 && managed)
        return LS_ASKED_MANAGED;
    return status != 0                  ? LS_ASKED_FAILED
           : type == CU_MEMORYTYPE_HOST ? LS_ASKED_PINNED
                                        : LS_ASKED_DEVICE;
}

static enum ls_asked ask_cuda(uint64_t address) {
    if (!have_cuda())
        return ask_driver(address);
    if (cuda.peek() != cudaSuccess)
        return LS_ASKED_FAILED;
    struct cudaPointerAttributes attributes = {0};
    if (cuda.attributes(&attributes, (const void *)(uintptr_t)address) != cudaSuccess) {
        cuda.clear();
        return LS_ASKED_FAILED;
    }
    switch (attributes.type) {
    case cudaMemoryTypeHost:
        return LS_ASKED_PINNED;
    case cudaMemoryTypeDevice:
        return LS_ASKED_DEVICE;
    case cudaMemoryTypeManaged:
        return LS_ASKED_MANAGED;
    default:
        ls_asked_mark(address);
        return LS_ASKED_PAGEABLE;
    }
}

static enum ls_asked ask(uint64_t address) {
    if (!address || ls_known(address))
        return LS_ASKED_NOT;
    if (ls_asked(address))
        return LS_ASKED_BEFORE;
    int saved = errno;
    enum ls_asked answer = ask_cuda(address);
    errno = saved;
    return answer;
}

uint8_t ls_on_copy(enum ls_api api, int status, const uint64_t *field) {
    const struct ls_roles *role = &ls_roles[api];
    if (status != 0 || ls_self->in_callback ||
        atomic_load_explicit(&ls_capturing, memory_order_relaxed) > 0 ||
        atomic_load_explicit(&ls_cupti_watched, memory_order_relaxed))
        return 0;
    uint64_t kind = role->kind >= 0 ? field[role->kind] : (uint64_t)cudaMemcpyDefault;
    bool ask_src = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost;
    bool ask_dst = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost;
    if (kind == cudaMemcpyDefault)
        ask_src = ask_dst = true;
    enum ls_asked src = ask_src && role->src >= 0 ? ask(field[role->src]) : LS_ASKED_NOT;
    enum ls_asked dst = ask_dst && role->dst >= 0 ? ask(field[role->dst]) : LS_ASKED_NOT;
    return LS_KINDS(src, dst);
}
