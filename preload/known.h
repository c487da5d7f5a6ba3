/*
 * known.h - which addresses recorded calls have made known, for the copies' memory kinds.
 *
 * The collector tells a pinned address from a pageable one by the recorded allocations; the
 * target only decides whether to ask CUDA about an address that no recorded call ever made known
 * (it may have been pinned beside us). So two sticky bits per 2 MiB of address space are enough:
 * "something recorded lay here", and "asked before, it was pageable".
 *
 * A third bit says that device memory lay there, for the words among a kernel's arguments: many are
 * looked at in each launch, so what lies outside of all device memory is told by two bounds.
 * Any thread; no lock; async-signal-safe once the maps exist.
 */
#ifndef LS_KNOWN_H
#define LS_KNOWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

void ls_known_mark(uint64_t address, uint64_t size);
bool ls_known(uint64_t address);

void ls_asked_mark(uint64_t address);
bool ls_asked(uint64_t address);

/* Memory that the device can use as its own: not the host's, pinned or not. */
void ls_known_mark_device(uint64_t address, uint64_t size);

#define LS_KNOWN_GRANULE 21 /* bits of an address within one bit of a map */

struct ls_known_device {
    _Atomic(_Atomic uint64_t *) map;
    _Atomic uint64_t bounds; /* lowest granule of all, and from bit 32 how many up to the highest */
};
extern struct ls_known_device ls_known_devices;

static inline bool ls_known_device(uint64_t address) {
    const struct ls_known_device *known = &ls_known_devices;
    uint64_t granule = address >> LS_KNOWN_GRANULE;
    uint64_t bounds = atomic_load_explicit(&known->bounds, memory_order_acquire);
    if (granule - (uint32_t)bounds >= bounds >> 32)
        return false;
    const _Atomic uint64_t *map = atomic_load_explicit(&known->map, memory_order_relaxed);
    return atomic_load_explicit(&map[granule / 64], memory_order_relaxed) >> granule % 64 & 1;
}

#endif
