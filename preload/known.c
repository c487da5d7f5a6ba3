/*
 * known.c - the bit maps. See known.h. 8 MiB of address space each, touched where used.
 */
#include "known.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#define GRANULE_BITS LS_KNOWN_GRANULE
#define ADDRESS_BITS 47 /* user space; an address above has no bit and is always asked about */
#define MAP_BYTES ((1ull << (ADDRESS_BITS - GRANULE_BITS)) / 8)
#define RANGE_MAX (1ull << 40) /* a longer range than any device's memory is not marked through */

typedef _Atomic uint64_t word;

static word *_Atomic known_map, *_Atomic asked_map;

static word *map_of(word *_Atomic *where, bool make) {
    word *map = atomic_load_explicit(where, memory_order_acquire);
    if (map || !make)
        return map;
    int saved = errno;
    void *fresh = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    errno = saved;
    if (fresh == MAP_FAILED)
        return NULL;
    if (!atomic_compare_exchange_strong(where, &map, (word *)fresh)) {
        munmap(fresh, MAP_BYTES);
        return map;
    }
    return fresh;
}

static void mark(word *map, uint64_t granule) {
    word *at = &map[granule / 64];
    uint64_t bit = 1ull << granule % 64;
    if (!(atomic_load_explicit(at, memory_order_relaxed) & bit))
        atomic_fetch_or_explicit(at, bit, memory_order_relaxed);
}

static bool test(const word *map, uint64_t address) {
    if (!map || address >> ADDRESS_BITS)
        return false;
    uint64_t granule = address >> GRANULE_BITS;
    return atomic_load_explicit(&map[granule / 64], memory_order_relaxed) >> granule % 64 & 1;
}

void ls_known_mark(uint64_t address, uint64_t size) {
    word *map = map_of(&known_map, true);
    if (!map || !address || !size || size > RANGE_MAX || (address + size) >> ADDRESS_BITS)
        return;
    for (uint64_t g = address >> GRANULE_BITS; g <= (address + size - 1) >> GRANULE_BITS; g++)
        mark(map, g);
}

bool ls_known(uint64_t address) {
    return test(map_of(&known_map, false), address);
}

void ls_asked_mark(uint64_t address) {
    word *map = map_of(&asked_map, true);
    if (map && !(address >> ADDRESS_BITS))
        mark(map, address >> GRANULE_BITS);
}

bool ls_asked(uint64_t address) {
    return test(map_of(&asked_map, false), address);
}

struct ls_known_device ls_known_devices;

static void grow_bounds(uint64_t first, uint64_t last) {
    uint64_t bounds = atomic_load(&ls_known_devices.bounds), grown;
    do {
        uint64_t lowest = (uint32_t)bounds, end = lowest + (bounds >> 32);
        if (bounds && first >= lowest && last < end)
            return;
        lowest = bounds && lowest < first ? lowest : first;
        end = end > last ? end : last + 1;
        grown = lowest | (end - lowest) << 32;
    } while (!atomic_compare_exchange_weak(&ls_known_devices.bounds, &bounds, grown));
}

void ls_known_mark_device(uint64_t address, uint64_t size) {
    word *map = map_of(&ls_known_devices.map, true);
    if (!map || !address || !size || size > RANGE_MAX || (address + size) >> ADDRESS_BITS)
        return;
    uint64_t first = address >> GRANULE_BITS, last = (address + size - 1) >> GRANULE_BITS;
    for (uint64_t g = first; g <= last; g++)
        mark(map, g);
    grow_bounds(first, last);
}
