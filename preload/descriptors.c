/*
 * descriptors.c - see descriptors.h. Tables of growing size, each mapped once the smaller ones have
 * no room near an address's place; a descriptor lies in any of them, within a few slots of its
 * place there, so that looking for it is bounded. Any thread; no lock.
 */
#include "descriptors.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#define FIRST_BITS 10
#define LEVEL_BITS 2 /* each level has four times as many slots */
#define LEVELS 6     /* up to 1.4 million */
#define WINDOW 8     /* slots: two cache lines */

struct slot {
    _Atomic uint64_t address; /* 0: free; then `word` is 0 as well */
    _Atomic uint64_t word;
};
/* A window does not go round: it may lie behind the last place. */
#define SLOTS(level) ((size_t)1 << (FIRST_BITS + (level)*LEVEL_BITS))
#define SIZE(level) ((SLOTS(level) + WINDOW) * sizeof(struct slot))

static _Alignas(64) struct slot first[(1 << FIRST_BITS) + WINDOW];
static struct slot *_Atomic further[LEVELS - 1];

static struct slot *table(int level) {
    return level == 0 ? first : atomic_load_explicit(&further[level - 1], memory_order_acquire);
}

static struct slot *make_table(int level) {
    void *map = mmap(NULL, SIZE(level), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    struct slot *there = NULL;
    if (atomic_compare_exchange_strong(&further[level - 1], &there, map))
        return map;
    munmap(map, SIZE(level)); /* another thread was faster */
    return there;
}

static struct slot *window(struct slot *slots, int level, uint64_t address) {
    uint64_t hash = address * 0x9e3779b97f4a7c15u;
    return &slots[hash >> (64 - FIRST_BITS - level * LEVEL_BITS)];
}

static struct slot *find(uint64_t address) {
    struct slot *slots;
    for (int level = 0; address && level < LEVELS && (slots = table(level)); level++) {
        struct slot *slot = window(slots, level, address);
        for (int i = 0; i < WINDOW; i++)
            if (atomic_load_explicit(&slot[i].address, memory_order_acquire) == address)
                return &slot[i];
    }
    return NULL;
}

/* A slot that was free and has the address now; NULL: no room. */
static struct slot *claim(uint64_t address) {
    for (int level = 0; address && level < LEVELS; level++) {
        struct slot *slots = table(level);
        if (!slots && !(slots = make_table(level)))
            return NULL;
        struct slot *slot = window(slots, level, address);
        for (int i = 0; i < WINDOW; i++) {
            uint64_t none = 0;
            if (!atomic_load_explicit(&slot[i].address, memory_order_relaxed) &&
                atomic_compare_exchange_strong(&slot[i].address, &none, address))
                return &slot[i];
        }
    }
    return NULL;
}

uint64_t ls_descriptor(const void *address) {
    const struct slot *slot = find((uintptr_t)address);
    return slot ? atomic_load_explicit(&slot->word, memory_order_acquire) : 0;
}

void ls_descriptor_put(const void *address, uint64_t word) {
    if (!word) {
        ls_descriptor_take(address);
        return;
    }
    struct slot *slot = find((uintptr_t)address);
    if (!slot)
        slot = claim((uintptr_t)address);
    if (slot)
        atomic_store_explicit(&slot->word, word, memory_order_release);
}

/* From each slot that has it: two threads that set it up at once may have made two. */
uint64_t ls_descriptor_take(const void *address) {
    uint64_t word = 0;
    struct slot *slot;
    while ((slot = find((uintptr_t)address))) {
        uint64_t had = atomic_exchange(&slot->word, 0);
        if (had)
            word = had;
        atomic_store_explicit(&slot->address, 0, memory_order_release);
    }
    return word;
}
