/*
 * shape.c - see shape.h. Any thread; no lock.
 */
#include "shape.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "spool.h"
#include "state.h"

#define SHAPES_MOST (1u << 16)
#define SLOTS (2 * SHAPES_MOST) /* of the hash table: never more than half full */
#define BYTES_MOST (16u << 20)  /* of the shapes themselves */
#define HEAD offsetof(struct ls_shape, value)

struct kept {
    uint64_t hash;
    _Atomic uint64_t told; /* the epoch of the recording that was told last */
    struct ls_shape shape; /* as many values as it has */
};
#define KEPT_SIZE(values) (offsetof(struct kept, shape.value) + (values) * sizeof(int64_t))

/* One mapping, made at the first shape and kept; its pages come as they are used. */
struct store {
    _Atomic uint32_t slot[SLOTS];           /* numbers; 0: free */
    _Atomic(struct kept *) at[SHAPES_MOST]; /* by number */
    _Atomic uint32_t numbers;               /* given out */
    _Atomic uint32_t bytes;                 /* used of room[] */
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

static size_t size_of(const struct ls_shape *shape) {
    return HEAD + shape->values * sizeof(int64_t);
}

/* A number of its own for the shape, or LS_SHAPE_NO_ROOM. */
static uint32_t keep(struct store *in, const struct ls_shape *shape, uint64_t hash) {
    uint32_t size = (uint32_t)KEPT_SIZE(shape->values);
    uint32_t at = atomic_load(&in->bytes);
    do
        if (BYTES_MOST - at < size)
            return LS_SHAPE_NO_ROOM;
    while (!atomic_compare_exchange_weak(&in->bytes, &at, at + size));
    uint32_t number = atomic_load(&in->numbers);
    do
        if (number + 1 >= SHAPES_MOST)
            return LS_SHAPE_NO_ROOM;
    while (!atomic_compare_exchange_weak(&in->numbers, &number, number + 1));
    struct kept *kept = (void *)(in->room + at);
    kept->hash = hash;
    memcpy(&kept->shape, shape, size_of(shape));
    atomic_store_explicit(&in->at[number + 1], kept, memory_order_release);
    return number + 1;
}

uint32_t ls_shape_number(const struct ls_shape *shape) {
    struct store *in = store();
    if (!in || shape->values > LS_SHAPE_VALUES)
        return LS_SHAPE_NO_ROOM;
    uint64_t hash = XXH3_64bits(shape, size_of(shape));
    uint32_t own = 0;
    for (uint32_t i = (uint32_t)hash;; i++) {
        _Atomic uint32_t *slot = &in->slot[i & (SLOTS - 1)];
        uint32_t number = atomic_load_explicit(slot, memory_order_acquire);
        if (!number) {
            if (!own)
                own = keep(in, shape, hash);
            if (own == LS_SHAPE_NO_ROOM || atomic_compare_exchange_strong(slot, &number, own))
                return own;
        } /* else, or where another thread was faster: `number` is what lies there */
        const struct kept *kept = atomic_load_explicit(&in->at[number], memory_order_acquire);
        if (kept->hash == hash && memcmp(&kept->shape, shape, size_of(shape)) == 0)
            return number;
    }
}

static struct kept *kept_at(uint32_t number) {
    struct store *in = atomic_load_explicit(&made, memory_order_acquire);
    return in && number && number < SHAPES_MOST
               ? atomic_load_explicit(&in->at[number], memory_order_acquire)
               : NULL;
}

const struct ls_shape *ls_shape_at(uint32_t number) {
    const struct kept *kept = kept_at(number);
    return kept ? &kept->shape : NULL;
}

static bool write_record(struct ls_thread *self, uint32_t number, const struct ls_shape *shape) {
    uint32_t size = (uint32_t)(sizeof(struct ls_rec_shape) + shape->values * sizeof(int64_t));
    struct ls_rec_shape *record = ls_spool_reserve(self, size);
    if (!record)
        return false;
    *record = (struct ls_rec_shape){
        .head = {.size = (uint16_t)size, .type = LS_REC_SHAPE},
        .id = number,
        .kind = shape->kind,
        .dims = shape->dims,
        .flags = shape->flags,
        .dtype = shape->dtype,
        .dtype_told = shape->dtype_told,
        .vector_count = shape->vector_count,
        .vector_dim = shape->vector_dim,
        .uid = shape->uid,
    };
    memcpy(record->value, shape->value, shape->values * sizeof(int64_t));
    ls_spool_commit(self, size);
    return true;
}

uint32_t ls_shape_tell(struct ls_thread *self, uint32_t number) {
    struct kept *kept = kept_at(number);
    if (!kept) {
        if (number == LS_SHAPE_NO_ROOM)
            ls_spool_lost(self, LS_LOST_SHAPES, 1);
        return 0;
    }
    uint64_t epoch = atomic_load_explicit(&ls_live->epoch, memory_order_relaxed);
    if (atomic_load_explicit(&kept->told, memory_order_acquire) == epoch)
        return number;
    if (!write_record(self, number, &kept->shape)) {
        ls_spool_lost(self, LS_LOST_SHAPES, 1);
        return 0;
    }
    atomic_store_explicit(&kept->told, epoch, memory_order_release);
    return number;
}
