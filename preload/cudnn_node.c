/*
 * cudnn_node.c - blocks for descriptors that are being set up. See cudnn_node.h. One mapping, made
 * at the first of them; blocks are used again, the last one first. Any thread; no lock.
 */
#include "cudnn_node.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define BLOCKS (1u << 14) /* descriptors at once: a process has dozens */

/* Numbers are from 1. The first free one is told together with how often that has changed: a block
 * that was taken and given back meanwhile is not taken for the one that was seen. */
struct pool {
    _Atomic uint64_t first;
    _Atomic uint32_t used; /* blocks that were ever taken */
    struct ls_cudnn_block block[BLOCKS];
};
static struct pool *_Atomic made;

static struct pool *pool(void) {
    struct pool *there = atomic_load_explicit(&made, memory_order_acquire);
    if (there)
        return there;
    void *map = mmap(NULL, sizeof *there, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    if (atomic_compare_exchange_strong(&made, &there, map))
        return map;
    munmap(map, sizeof *there); /* another thread was faster */
    return there;
}

struct ls_cudnn_block *ls_cudnn_block(uint32_t number) {
    struct pool *in = atomic_load_explicit(&made, memory_order_acquire);
    return in && number && number <= BLOCKS ? &in->block[number - 1] : NULL;
}

static uint32_t take_any(struct pool *in) {
    uint64_t first = atomic_load_explicit(&in->first, memory_order_acquire);
    while ((uint32_t)first) {
        uint32_t next =
            atomic_load_explicit(&in->block[(uint32_t)first - 1].next, memory_order_relaxed);
        uint64_t after = ((first >> 32) + 1) << 32 | next;
        if (atomic_compare_exchange_weak(&in->first, &first, after))
            return (uint32_t)first;
    }
    uint32_t used = atomic_load(&in->used);
    do
        if (used == BLOCKS)
            return 0;
    while (!atomic_compare_exchange_weak(&in->used, &used, used + 1));
    return used + 1;
}

uint32_t ls_cudnn_block_take(int type) {
    struct pool *in = pool();
    uint32_t number = in ? take_any(in) : 0;
    struct ls_cudnn_block *block = ls_cudnn_block(number);
    if (!block)
        return 0;
    if (type == LS_CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        memset(&block->tensor, 0, sizeof block->tensor);
    else if (type == LS_CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
        memset(&block->convolution, 0, sizeof block->convolution);
    else if (type == LS_CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        memset(&block->pack, 0, offsetof(struct ls_cudnn_pack, uid));
    else
        memset(&block->operation, 0, offsetof(struct ls_cudnn_operation, item));
    return number;
}

void ls_cudnn_block_give(uint32_t number) {
    struct pool *in = atomic_load_explicit(&made, memory_order_acquire);
    if (!ls_cudnn_block(number))
        return;
    uint64_t first = atomic_load_explicit(&in->first, memory_order_relaxed), after;
    do {
        atomic_store_explicit(&in->block[number - 1].next, (uint32_t)first, memory_order_relaxed);
        after = ((first >> 32) + 1) << 32 | number;
    } while (!atomic_compare_exchange_weak(&in->first, &first, after));
}
