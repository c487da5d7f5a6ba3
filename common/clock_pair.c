/*
 * clock_pair.c - see clock_pair.h.
 */
#include "common/clock_pair.h"

#include <stdatomic.h>
#include <time.h>
#include <x86intrin.h>

#define TRIES 5

static uint64_t read_clock(clockid_t id) {
    struct timespec ts;
    clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t ls_clock_pair_take(struct ls_clock_pair *pair, bool tsc) {
    uint64_t best = UINT64_MAX;
    if (!tsc) {
        pair->ticks = pair->mono_ns = read_clock(CLOCK_MONOTONIC);
        pair->real_ns = read_clock(CLOCK_REALTIME);
        return 0;
    }
    /* The tightest of a few readings: one that was interrupted in the middle would be off. */
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = __rdtsc();
        uint64_t mono = read_clock(CLOCK_MONOTONIC);
        uint64_t after = __rdtsc();
        if (after - before < best) {
            best = after - before;
            pair->ticks = before + best / 2;
            pair->mono_ns = mono;
        }
    }
    pair->real_ns = read_clock(CLOCK_REALTIME);
    pair->real_ns -= read_clock(CLOCK_MONOTONIC) - pair->mono_ns; /* of the same moment */
    return best / 2;
}

void ls_clock_pair_publish(struct ls_spool_header *header, const struct ls_clock_pair *pair) {
    uint32_t n = atomic_fetch_add_explicit(&header->clock_next, 1, memory_order_relaxed);
    struct ls_clock_pair *slot = &header->clock[1 + n % (LS_CLOCK_PAIRS - 1)];
    __atomic_store_n(&slot->ticks, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->mono_ns, pair->mono_ns, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->real_ns, pair->real_ns, __ATOMIC_RELEASE);
    __atomic_store_n(&slot->ticks, pair->ticks, __ATOMIC_RELEASE);
}
