/*
 * clock_pair.h - one moment on three clocks, and leaving it in the spool's header.
 *
 * Both sides do: the target at its start and at seals, the collector at drains, so that a later
 * reader can map ticks whoever died first. Any thread; async-signal-safe.
 */
#ifndef LAYOUTSPY_COMMON_CLOCK_PAIR_H
#define LAYOUTSPY_COMMON_CLOCK_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "layoutspy/format.h"

/* `tsc`: ticks are the time-stamp counter, else CLOCK_MONOTONIC ns. Returns by how many ticks the
 * pair may be off. */
uint64_t ls_clock_pair_take(struct ls_clock_pair *pair, bool tsc);

/* Into the header's ring: ticks are cleared first and stored last. */
void ls_clock_pair_publish(struct ls_spool_header *header, const struct ls_clock_pair *pair);

#endif
