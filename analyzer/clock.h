/*
 * clock.h - from the spool's ticks to nanoseconds since the recording's start.
 *
 * Ticks are mapped by straight lines between anchors: pairs of (ticks, CLOCK_MONOTONIC) that the
 * target left in the spool's header and that ls_clock_sample() takes. Each mapping is monotonic.
 * Where no clock can be compared (a TSC of another boot), the lines are drawn on as they were.
 * One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_CLOCK_H
#define LAYOUTSPY_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spool_read.h"

struct ls_clock_anchor {
    uint64_t ticks;
    int64_t ns; /* since the start */
};

struct ls_clock {
    bool tsc;
    bool comparable;                /* ticks of now are the spool's ticks: same boot */
    uint64_t origin_mono;           /* CLOCK_MONOTONIC at the start */
    uint64_t origin_real;           /* CLOCK_REALTIME at the start */
    uint64_t error_ticks;           /* how far a pair may be off: half the time it took to read */
    struct ls_clock_anchor *anchor; /* sorted by both */
    size_t count, room;
    size_t hint; /* segment of the last answer */
};

/* Read the header's pairs. False: out of memory. Release with ls_clock_destroy(). */
bool ls_clock_init(struct ls_clock *clock, const struct ls_spool *spool);
void ls_clock_destroy(struct ls_clock *clock);

/*
 * Take a pair, add it to the spool's ring (where `spool` is not NULL) for whoever comes after a
 * kill, and return the ticks of now; UINT64_MAX where the spool's clock cannot be read here.
 */
uint64_t ls_clock_sample(struct ls_clock *clock, struct ls_spool *spool);

/* Nanoseconds since the start; below 0 for ticks before it. */
int64_t ls_clock_ns(struct ls_clock *clock, uint64_t ticks);

/* How far a time may be off, since two clocks cannot be read at once. */
int64_t ls_clock_error_ns(const struct ls_clock *clock);

#endif
