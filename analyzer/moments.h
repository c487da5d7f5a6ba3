/*
 * moments.h - what each device's memory was like when it mattered: tables `moment` and
 * `segment_state`, and the largest hole at each oom.
 *
 * Made once, when a recording is finished and all its lifetimes are known. One thread; not
 * async-signal-safe.
 */
#ifndef LAYOUTSPY_MOMENTS_H
#define LAYOUTSPY_MOMENTS_H

#include "trace_db.h"

/* moment.kind in the schema */
enum ls_moment { LS_MOMENT_LIVE = 1, LS_MOMENT_RESERVED, LS_MOMENT_OOM, LS_MOMENT_END };

/* After blocks, allocations, steps and meta 'end_ns' are there. */
void ls_moments_build(struct ls_trace_db *db);

#endif
