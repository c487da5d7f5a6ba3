/*
 * cudnn_list.c - see cudnn_list.h. Any thread; no lock.
 */
#include "cudnn_list.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define LISTS_MOST (1u << 16)
#define SLOTS (2 * LISTS_MOST) /* of the hash table: never more than half full */
#define BYTES_MOST (32u << 20) /* of the lists themselves */

struct kept {
    uint64_t hash;
    uint64_t count;
    struct ls_cudnn_item item[];
};

/* One mapping, made at the first list and kept; its pages come as they are used. */
struct store {
    _Atomic uint32_t slot[SLOTS];          /* numbers; 0: free */
    _Atomic(struct kept *) at[LISTS_MOST]; /* by number */
    _Atomic uint32_t numbers;              /* given out */
    _Atomic uint32_t bytes;                /* used of room[] */
    _Alignas(8) char room[BYTES_MOST];
};
static struct store *_Atomic made;

static struct store *store(void) {
    struct store *there = atomic_load_explicit(&made, memory_order_acquire);
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

/* A number of its own for the list, or LS_CUDNN_LIST_NO_ROOM. */
static uint32_t keep(struct store *in, const struct ls_cudnn_item *item, uint32_t count,
                     uint64_t hash) {
    uint32_t size = (uint32_t)(sizeof(struct kept) + count * sizeof *item);
    uint32_t at = atomic_load(&in->bytes);
    do
        if (BYTES_MOST - at < size)
            return LS_CUDNN_LIST_NO_ROOM;
    while (!atomic_compare_exchange_weak(&in->bytes, &at, at + size));
    uint32_t number = atomic_load(&in->numbers);
    do
        if (number + 1 >= LISTS_MOST)
            return LS_CUDNN_LIST_NO_ROOM;
    while (!atomic_compare_exchange_weak(&in->numbers, &number, number + 1));
    struct kept *kept = (void *)(in->room + at);
    kept->hash = hash;
    kept->count = count;
    memcpy(kept->item, item, count * sizeof *item);
    atomic_store_explicit(&in->at[number + 1], kept, memory_order_release);
    return number + 1;
}

uint32_t ls_cudnn_list_number(const struct ls_cudnn_item *item, uint32_t count) {
    struct store *in = store();
    size_t size = count * sizeof *item;
    if (!in || count > LS_CUDNN_ITEMS)
        return LS_CUDNN_LIST_NO_ROOM;
    uint64_t hash = XXH3_64bits_withSeed(item, size, count);
    uint32_t own = 0;
    for (uint32_t i = (uint32_t)hash;; i++) {
        _Atomic uint32_t *slot = &in->slot[i & (SLOTS - 1)];
        uint32_t number = atomic_load_explicit(slot, memory_order_acquire);
        if (!number) {
            if (!own)
                own = keep(in, item, count, hash);
            if (own == LS_CUDNN_LIST_NO_ROOM || atomic_compare_exchange_strong(slot, &number, own))
                return own;
        } /* else, or where another thread was faster: `number` is what lies there */
        const struct kept *kept = atomic_load_explicit(&in->at[number], memory_order_acquire);
        if (kept->hash == hash && kept->count == count && memcmp(kept->item, item, size) == 0)
            return number;
    }
}

uint32_t ls_cudnn_list(uint32_t number, const struct ls_cudnn_item **item) {
    struct store *in = atomic_load_explicit(&made, memory_order_acquire);
    const struct kept *kept = in && number && number < LISTS_MOST
                                  ? atomic_load_explicit(&in->at[number], memory_order_acquire)
                                  : NULL;
    *item = kept ? kept->item : NULL;
    return kept ? (uint32_t)kept->count : 0;
}
