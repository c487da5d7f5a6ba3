/*
 * intern.c - see intern.h. Any thread; not async-signal-safe (ls_enter() keeps handlers out).
 */
#include "intern.h"

#include <string.h>
#include <sys/mman.h>

#include "spool.h"

#define TABLE_BITS 17
#define TABLE_SIZE (1u << TABLE_BITS)
#define TABLE_FULL (TABLE_SIZE / 4 * 3)

/* The number carries half of the hash: one that a late thread stores into a slot which was wiped
 * and claimed anew meanwhile is not taken for the new thing's. */
struct ls_intern_slot {
    _Atomic uint64_t hash;   /* 0: free */
    _Atomic uint64_t number; /* low half of the hash above, number below; 0: not published */
};

static struct ls_intern_slot *map_slots(void) {
    void *map = mmap(NULL, TABLE_SIZE * sizeof(struct ls_intern_slot), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

/* Give the pages back: most of a table was never touched. */
static void wipe(struct ls_intern_table *table) {
    size_t size = TABLE_SIZE * sizeof(struct ls_intern_slot);
    if (table->slot && madvise(table->slot, size, MADV_DONTNEED) != 0)
        memset(table->slot, 0, size); /* locked memory */
    atomic_store(&table->used, 0);
}

bool ls_intern_begin(struct ls_intern *intern) {
    struct ls_intern_table *first = &intern->tables[0];
    if (!first->slot)
        first->slot = map_slots();
    if (!first->slot)
        return false;
    atomic_store(&intern->current, first);
    return true;
}

static bool is_half_used(struct ls_intern_table *table) {
    return atomic_load_explicit(&table->used, memory_order_relaxed) >= TABLE_SIZE / 2;
}

/* The table to use. */
static struct ls_intern_table *table_of(struct ls_intern *intern) {
    struct ls_intern_table *table = atomic_load_explicit(&intern->current, memory_order_acquire);
    if (!is_half_used(table))
        return table;
    ls_lock(LS_LOCK_INTERN);
    table = atomic_load(&intern->current);
    if (is_half_used(table)) {
        struct ls_intern_table *other = &intern->tables[table == intern->tables];
        if (!other->slot)
            other->slot = map_slots();
        if (other->slot) {
            wipe(other);
            atomic_store(&intern->current, other);
            table = other;
        }
    }
    ls_unlock(LS_LOCK_INTERN);
    return table;
}

/* The slot of `hash`, claimed if need be; NULL: the table is full. */
static struct ls_intern_slot *claim(struct ls_intern_table *table, uint64_t hash) {
    for (uint32_t i = (uint32_t)(hash >> 32);; i++) {
        struct ls_intern_slot *slot = &table->slot[i & (TABLE_SIZE - 1)];
        uint64_t found = atomic_load_explicit(&slot->hash, memory_order_acquire);
        if (found == 0) {
            if (atomic_load_explicit(&table->used, memory_order_relaxed) >= TABLE_FULL)
                return NULL;
            if (atomic_compare_exchange_strong(&slot->hash, &found, hash)) {
                atomic_fetch_add_explicit(&table->used, 1, memory_order_relaxed);
                return slot;
            }
        } /* else, or where somebody was faster: `found` is what lies there */
        if (found == hash)
            return slot;
    }
}

uint32_t ls_intern(struct ls_intern *intern, struct ls_thread *self, uint64_t hash,
                   uint32_t (*define)(struct ls_thread *self, const void *context),
                   const void *context) {
    struct ls_intern_slot *slot = claim(table_of(intern), hash);
    if (!slot)
        return 0;
    uint64_t number = atomic_load_explicit(&slot->number, memory_order_acquire);
    if ((uint32_t)number != 0 && number >> 32 == (uint32_t)hash)
        return (uint32_t)number;
    uint32_t id = define(self, context);
    if (id) /* 0 stays unpublished: the next thread that has room defines it */
        atomic_store_explicit(&slot->number, (uint64_t)(uint32_t)hash << 32 | id,
                              memory_order_release);
    return id;
}

void ls_intern_fork_reset(struct ls_intern *intern) {
    atomic_store(&intern->current, NULL);
    wipe(&intern->tables[0]);
    wipe(&intern->tables[1]);
    atomic_store(&intern->numbers, 0);
}
