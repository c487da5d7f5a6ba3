/*
 * at.h - moments as a person names them: a time, the peak, the end, an error, a step.
 *
 * One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_AT_H
#define LAYOUTSPY_AT_H

#include "history.h"
#include "oom_events.h"

enum ls_at_kind { LS_AT_TIME, LS_AT_PEAK, LS_AT_RESERVED, LS_AT_END, LS_AT_OOM, LS_AT_STEP };

struct ls_at {
    enum ls_at_kind kind;
    int64_t ts_ns;  /* of a time */
    int64_t number; /* of an error or a step, from 1; 0: the first that did not recover */
};

/* What --at takes. */
#define LS_AT_FORMS "SECONDS, peak, reserved, end, oom, oom:N or step:N"

/* False: the text is none of the forms. */
bool ls_at_parse(const char *text, struct ls_at *at);

/* When that was on a device, in ns since the start; -1: there was no such moment, and `why` says so
 * ("has 12 steps"). A step: its begin, of the loop with the most steps. */
int64_t ls_at_find(const struct ls_at *at, const struct ls_history *history,
                   const struct ls_oom_events *events, char *why, size_t size);

#endif
