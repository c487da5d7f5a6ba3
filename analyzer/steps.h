/*
 * steps.h - where the iterations of a program's loops begin and end.
 *
 * In order of preference: what the program said (layoutspy_step), the bursts of its optimizers, a
 * repeating pattern of calls. docs/schema.md has the rules. Collector processes only; one thread;
 * not async-signal-safe.
 */
#ifndef LAYOUTSPY_STEPS_H
#define LAYOUTSPY_STEPS_H

#include "trace_db.h"

/* Rows of `step` with their figures, meta 'steps' (marked, optimizer, pattern, none) and a coverage
 * row, from the calls and marks; rows that were there are replaced. For 5 million calls some
 * seconds, and 16 bytes of memory each. */
void ls_steps_build(struct ls_trace_db *db);

#endif
