/*
 * stack_native.c - unwinding by libunwind, and interning. See stack_native.h.
 *
 * libunwind is linked in statically and hidden: a shared one would replace the target's C++
 * exception unwinding. Its caches know addresses, not libraries, so they are dropped after each
 * dlclose() (modules.c).
 *
 * Any thread, inside a recorded call. No lock on the path of a known stack: the shared table is
 * claimed by compare-and-swap on a slot's hash, and a slot whose number is not published yet (its
 * owner is writing the record, or died) is not waited for: the stack gets a second number. After
 * an unload no old entry can be met again (the generation is part of the hash), so when many are
 * old the table is replaced by an empty one; two take turns.
 */
#include "stack_native.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "lock.h"
#include "modules.h"
#include "spool.h"
#include "unwind.h"

#define TABLE_BITS 17
#define TABLE_SIZE (1u << TABLE_BITS)
#define TABLE_FULL (TABLE_SIZE / 4 * 3)
#define OWN_FRAMES 8 /* ours, between the unwinder and the wrapper's caller, at most */

/* The number carries half of the hash: one that a late thread stores into a slot which was wiped
 * and claimed anew meanwhile is not taken for the new stack's. */
struct slot {
    _Atomic uint64_t hash;   /* 0: free */
    _Atomic uint64_t number; /* low half of the hash above, id below; 0: not published */
};

static struct table {
    struct slot *slot;
    _Atomic uint32_t used;
    uint32_t generation; /* the latest one when it was begun */
} tables[2];
static struct table *_Atomic current;
static _Atomic uint32_t next_id = 1;

static struct slot *map_slots(void) {
    void *map = mmap(NULL, TABLE_SIZE * sizeof(struct slot), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

void ls_stack_init(const struct ls_env *env) {
    if (!env->stacks)
        return;
    if (!tables[0].slot)
        tables[0].slot = map_slots();
    if (tables[0].slot) {
        tables[0].generation = ls_modules_generation();
        atomic_store(&current, &tables[0]);
    }
}

/* The table to use in `generation`: an empty one if the present one is half full of the past. */
static struct table *table_for(uint32_t generation) {
    struct table *table = atomic_load_explicit(&current, memory_order_acquire);
    if (!table || table->generation >= generation ||
        atomic_load_explicit(&table->used, memory_order_relaxed) < TABLE_SIZE / 2)
        return table;
    ls_lock(LS_LOCK_STACKS);
    table = atomic_load(&current);
    if (table->generation < generation && atomic_load(&table->used) >= TABLE_SIZE / 2) {
        struct table *other = &tables[table == tables];
        if (!other->slot)
            other->slot = map_slots();
        if (other->slot) {
            memset(other->slot, 0, TABLE_SIZE * sizeof *other->slot);
            atomic_store(&other->used, 0);
            other->generation = generation;
            atomic_store(&current, other);
            table = other;
        }
    }
    ls_unlock(LS_LOCK_STACKS);
    return table;
}

static uint64_t hash_stack(void *const *frame, uint32_t depth, uint32_t generation) {
    uint64_t h = generation * 0x9e3779b97f4a7c15u + depth;
    for (uint32_t i = 0; i < depth; i++) {
        h = (h ^ (uint64_t)(uintptr_t)frame[i]) * 0x9fb21c651e98df25u;
        h ^= h >> 29;
    }
    return h | 1; /* 0 marks a free slot */
}

/* Write the definition. 0: there was no room. */
static uint32_t define(struct ls_thread *self, void *const *frame, uint32_t depth, bool truncated,
                       uint32_t generation) {
    ls_modules_describe(self, frame, depth, generation);
    uint32_t size = (uint32_t)(sizeof(struct ls_rec_stack) + depth * sizeof(uint64_t));
    struct ls_rec_stack *record = ls_spool_reserve(self, size);
    if (!record)
        return 0;
    uint32_t id = atomic_fetch_add(&next_id, 1);
    *record = (struct ls_rec_stack){
        .head = {.size = (uint16_t)size, .type = LS_REC_STACK},
        .id = id,
        .modules = generation,
        .depth = depth,
        .truncated = truncated,
    };
    for (uint32_t i = 0; i < depth; i++)
        record->address[i] = (uint64_t)(uintptr_t)frame[i];
    ls_spool_commit(self, size);
    return id;
}

static uint32_t intern(struct ls_thread *self, uint64_t hash, void *const *frame, uint32_t depth,
                       bool truncated, uint32_t generation) {
    struct table *table = table_for(generation);
    struct slot *slot;
    for (uint32_t i = (uint32_t)(hash >> 32);; i++) {
        slot = &table->slot[i & (TABLE_SIZE - 1)];
        uint64_t found = atomic_load_explicit(&slot->hash, memory_order_acquire);
        if (found == 0) {
            if (atomic_load_explicit(&table->used, memory_order_relaxed) >= TABLE_FULL) {
                ls_spool_lost(self, LS_LOST_STACKS, 1);
                return 0;
            }
            if (atomic_compare_exchange_strong(&slot->hash, &found, hash)) {
                atomic_fetch_add_explicit(&table->used, 1, memory_order_relaxed);
                break;
            }
        } /* else, or where somebody was faster: `found` is what lies there */
        if (found == hash)
            break;
    }
    uint64_t number = atomic_load_explicit(&slot->number, memory_order_acquire);
    if ((uint32_t)number != 0 && number >> 32 == (uint32_t)hash)
        return (uint32_t)number;
    uint32_t id = define(self, frame, depth, truncated, generation);
    if (id) /* 0 stays unpublished: the next thread that has room defines it */
        atomic_store_explicit(&slot->number, (uint64_t)(uint32_t)hash << 32 | id,
                              memory_order_release);
    return id;
}

uint32_t ls_stack_capture(struct ls_thread *self, void *caller) {
    void *frame[LS_STACK_DEPTH + OWN_FRAMES];
    if (!atomic_load_explicit(&current, memory_order_relaxed))
        return 0;
    uint32_t generation = ls_modules_generation();
    int depth = unw_backtrace(frame, LS_STACK_DEPTH + OWN_FRAMES);
    int own = 0;
    while (own < depth && own < OWN_FRAMES && frame[own] != caller)
        own++;
    if (own == depth || frame[own] != caller) {
        frame[0] = caller; /* it could not be unwound: the caller is known all the same */
        own = 0;
        depth = 1;
    }
    bool truncated = depth - own > LS_STACK_DEPTH;
    uint32_t kept = truncated ? LS_STACK_DEPTH : (uint32_t)(depth - own);
    uint64_t hash = hash_stack(frame + own, kept, generation);
    struct ls_stack_entry *entry = &self->cache[(hash >> 20) & (LS_STACK_CACHE - 1)];
    if (entry->hash == hash)
        return entry->id;
    uint32_t id = intern(self, hash, frame + own, kept, truncated, generation);
    if (id)
        *entry = (struct ls_stack_entry){hash, id};
    return id;
}

void ls_stack_fork_reset(void) {
    ls_unw_after_fork();
    for (int i = 0; i < 2; i++) {
        if (tables[i].slot)
            memset(tables[i].slot, 0, TABLE_SIZE * sizeof *tables[i].slot);
        atomic_store(&tables[i].used, 0);
        tables[i].generation = 0;
    }
    atomic_store(&next_id, 1);
}
