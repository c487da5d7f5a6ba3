/*
 * timeline.h - a device's memory in rows: one per step, or per part of the recording.
 *
 * One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_TIMELINE_H
#define LAYOUTSPY_TIMELINE_H

#include "history.h"

/* From ts_ns until the next row; the last one until the recording's end. */
struct ls_timeline_row {
    int64_t ts_ns;
    size_t step; /* number of the main loop's step that begins then, from 1; 0: none */
    uint64_t allocated, pending, reserved; /* at ts_ns */
    uint64_t peak;                         /* the most that was allocated within the row */
};

struct ls_timeline {
    struct ls_timeline_row *row;
    size_t count;
    bool by_step;
};

/* At most `rows` rows (at least 2 are made); of more steps than that each n-th one begins a row. */
void ls_timeline_make(const struct ls_history *history, size_t rows, struct ls_timeline *timeline);
void ls_timeline_free(struct ls_timeline *timeline);

#endif
