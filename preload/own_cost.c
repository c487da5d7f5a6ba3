/*
 * own_cost.c - see own_cost.h.
 */
#include "own_cost.h"

#define LONGEST_NS 200000u

__attribute__((noinline, cold)) void ls_cost_sample(enum ls_cost count, enum ls_cost ticks,
                                                    uint64_t since) {
    uint64_t took = ls_ticks() - since;
    /* Ticks are ns, or the counter's, of which there are a few in each ns. */
    if (took > LONGEST_NS * (ls_clock_tsc ? 3u : 1u))
        return;
    ls_cost_add(count, 1);
    ls_cost_add(ticks, took);
}
