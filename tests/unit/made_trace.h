/*
 * made_trace.h - traces made by hand for the detectors' tests: rows in an in-memory database.
 */
#ifndef LAYOUTSPY_MADE_TRACE_H
#define LAYOUTSPY_MADE_TRACE_H

#include <stdint.h>

#include "trace.h"

#define MS INT64_C(1000000) /* in ns */

/* Open an empty trace of `run_ns`, of a program that ended as told (exit, killed, unknown). */
void made_open(struct ls_trace *trace, const char *ended, int64_t run_ns);
void made_close(struct ls_trace *trace);

/* A stack: the text of its site, and the modules of its frames, innermost first, NULL-ended
 * (NULL: one frame of the user's program). Returns its number. */
int64_t made_stack(struct ls_trace *trace, const char *site, const char *const modules[]);

/* A recorded call that nothing more is known of, from start to start + 1000 ns. Its id. */
int64_t made_call(struct ls_trace *trace, const char *api, int64_t start);

#define MADE_LIVE -1 /* else an enum ls_end of live.h */
void made_allocation(struct ls_trace *trace, int kind, const char *api, int64_t size, int64_t start,
                     int end_reason, int64_t stack);

/* direction: 1 H2D, 2 D2H; host_side: 1 pageable, 2 pinned. */
void made_copy(struct ls_trace *trace, int direction, int host_side, const char *api, int64_t bytes,
               int64_t start, int64_t blocked, int64_t stack);

void made_sql(struct ls_trace *trace, const char *sql);

/* What the detectors stored. finding: the n-th row's column by name, as text, "" for none. */
int made_count(struct ls_trace *trace, const char *sql);
const char *made_finding(struct ls_trace *trace, int n, const char *column);
int64_t made_finding_number(struct ls_trace *trace, int n, const char *column);
void made_expect_text(struct ls_trace *trace, int n, const char *column, const char *part);

/* Ends with a launch at `last`, runs the detectors, and counts the findings of a kind. */
int made_detect_kind(struct ls_trace *trace, int64_t last, const char *kind);

#endif
