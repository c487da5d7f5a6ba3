/*
 * gpu_clock.h - from CUPTI's clock to nanoseconds since the recording's start.
 *
 * The target reads CUPTI's clock between two readings of its own, again and again: pairs. A time
 * lies on the straight line from the pair before it to the one after it; where one of them is not
 * there, on the line through all, drawn on. Pairs come in any order.
 * One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_GPU_CLOCK_H
#define LAYOUTSPY_GPU_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ls_gpu_pair {
    int64_t gpu_ns; /* CUPTI's */
    int64_t ns;     /* since the start: the middle of the two readings of ours, */
    int64_t width;  /* and the time between them */
};

struct ls_gpu_clock {
    struct ls_gpu_pair *at; /* those that lines are drawn through, sorted by both */
    size_t count;
    size_t hint;       /* segment of the last answer */
    int64_t narrowest; /* of all widths */
    int64_t pairs;     /* that were added */
    int64_t error_ns;  /* how far a time may be off */
};

/* False: out of memory. */
bool ls_gpu_clock_add(struct ls_gpu_clock *clock, struct ls_gpu_pair pair);

/* False: there is no pair yet, or `gpu_ns` is no time of a recording. */
bool ls_gpu_clock_ns(struct ls_gpu_clock *clock, int64_t gpu_ns, int64_t *ns);

void ls_gpu_clock_destroy(struct ls_gpu_clock *clock);

#endif
