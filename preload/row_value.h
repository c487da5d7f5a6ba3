/*
 * row_value.h - what the fields of some rows need beyond their parameters (wrap.c expands them).
 *
 * Any thread, after the real call; not async-signal-safe. errno is kept.
 */
#ifndef LS_ROW_VALUE_H
#define LS_ROW_VALUE_H

#include <stdint.h>

#include "layoutspy/api/types.h"

/*
 * CUDA's major version of the runtime that a function lies in (13, 12), by its file's name: what a
 * parameter is in the rows whose signature changed. 0: unknown; then neither is looked at.
 */
int ls_runtime_major(void *function);
#define ls_by_major(function, since_13, before)                                                    \
    (ls_runtime_major(function) >= 13 ? (since_13) : ls_runtime_major(function) != 0 ? (before) : 0)

/* Bytes of the allocation at a device address, asked of the driver; 0: not known, or a stream of
 * this process captures (then nothing may be asked). */
uint64_t ls_memory_size(const void *address);

/* A handle between processes as one number: a 64-bit FNV-1a hash of its bytes, the same in both. */
uint64_t ls_ipc_hash(const void *handle);

/* Bytes of all levels of a mipmapped array: each is half as long, wide and deep as the last. */
uint64_t ls_mipmap_bytes(const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                         unsigned int levels, unsigned int flags);

/* Of a batch of copies: the sum of the bytes; of the elements, where arrays take part. */
uint64_t ls_batch_bytes(const size_t *sizes, size_t count);
uint64_t ls_batch_elements(const struct cudaMemcpy3DBatchOp *op, size_t count);
/* One side of the first copy: its address, or its array. */
static inline uint64_t ls_operand_ptr(const struct cudaMemcpy3DOperand *o) {
    return o->type == cudaMemcpyOperandTypeArray ? 0 : (uintptr_t)o->op.ptr.ptr;
}
static inline uint64_t ls_operand_array(const struct cudaMemcpy3DOperand *o) {
    return o->type == cudaMemcpyOperandTypeArray ? (uintptr_t)o->op.array.array : 0;
}

/* A graph's node that allocates or frees memory: its address, and its bytes (0 for a free). Others
 * have neither. */
static inline uint64_t ls_node_ptr(const struct cudaGraphNodeParams *p, int status) {
    if (!p || status != 0)
        return 0;
    if (p->type == cudaGraphNodeTypeMemAlloc)
        return (uintptr_t)p->alloc.dptr;
    return p->type == cudaGraphNodeTypeMemFree ? (uintptr_t)p->free.dptr : 0;
}
static inline uint64_t ls_node_size(const struct cudaGraphNodeParams *p) {
    return p && p->type == cudaGraphNodeTypeMemAlloc ? p->alloc.bytesize : 0;
}
static inline uint64_t ls_node_device(const struct cudaGraphNodeParams *p, int current) {
    return (uint32_t)(p && p->type == cudaGraphNodeTypeMemAlloc ? p->alloc.poolProps.location.id
                                                                : current);
}

#endif
