/*
 * stack_native.c - unwinding by libunwind, and interning. See stack_native.h.
 *
 * libunwind is linked in statically and hidden: a shared one would replace the target's C++
 * exception unwinding. Its caches know addresses, not libraries, so they are dropped after each
 * dlclose() (modules.c).
 *
 * Any thread, inside a recorded call. No lock on the path of a known stack: the shared table is
 * claimed by compare-and-swap on a slot's hash; a slot whose number is not published yet (its
 * owner is writing the record, or died) is not waited for: the stack gets a second number.
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

struct slot {
    _Atomic uint64_t hash; /* 0: free */
    _Atomic uint32_t id;   /* 0: not published */
};

static struct slot *table;
static _Atomic uint32_t used, next_id = 1;

void ls_stack_init(const struct ls_env *env) {
    if (!env->stacks || table)
        return;
    void *map = mmap(NULL, TABLE_SIZE * sizeof *table, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    table = map == MAP_FAILED ? NULL : map;
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
    for (uint32_t i = (uint32_t)(hash >> 32);; i++) {
        struct slot *slot = &table[i & (TABLE_SIZE - 1)];
        uint64_t found = atomic_load_explicit(&slot->hash, memory_order_acquire);
        if (found == hash) {
            uint32_t id = atomic_load_explicit(&slot->id, memory_order_acquire);
            return id ? id : define(self, frame, depth, truncated, generation);
        }
        if (found != 0)
            continue;
        if (atomic_load_explicit(&used, memory_order_relaxed) >= TABLE_FULL) {
            ls_spool_lost(self, LS_LOST_STACKS, 1);
            return 0;
        }
        if (!atomic_compare_exchange_strong(&slot->hash, &found, hash)) {
            i--; /* somebody took it: look at it again */
            continue;
        }
        atomic_fetch_add_explicit(&used, 1, memory_order_relaxed);
        uint32_t id = define(self, frame, depth, truncated, generation);
        atomic_store_explicit(&slot->id, id, memory_order_release);
        return id; /* 0 stays unpublished: the next thread that has room defines it */
    }
}

uint32_t ls_stack_capture(struct ls_thread *self, void *caller) {
    void *frame[LS_STACK_DEPTH + OWN_FRAMES];
    if (!table)
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
    if (table)
        memset(table, 0, TABLE_SIZE * sizeof *table);
    atomic_store(&used, 0);
    atomic_store(&next_id, 1);
}
