/*
 * own_cost.h - what recording costs the target itself: counters in the spool's header.
 *
 * On the usual path two instructions: a call is a sample where some bits of its time are 0, which
 * is by chance once in LS_COST_EVERY. They survive a kill. Any thread; async-signal-safe.
 */
#ifndef LS_OWN_COST_H
#define LS_OWN_COST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "layoutspy/format.h"
#include "state.h"

/* Not the lowest bits: where the kernel scales the counter, these repeat. */
static inline bool ls_cost_is_sample(uint64_t ticks) {
    return __builtin_expect((ticks & (uint64_t)(LS_COST_EVERY - 1) << 5) == 0, 0);
}

static inline void ls_cost_add(enum ls_cost what, uint64_t amount) {
    struct ls_spool_header *header = ls_session.header;
    if (header)
        atomic_fetch_add_explicit(&header->cost[what], amount, memory_order_relaxed);
}

/* A sample that took from `since` to now: `count` and `ticks` are its counters. What took longer
 * than a slow stack does was a thread that the system had stopped. */
void ls_cost_sample(enum ls_cost count, enum ls_cost ticks, uint64_t since);

#endif
