/*
 * course.h - what the detectors that follow memory from step to step share.
 *
 * Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_COURSE_H
#define LAYOUTSPY_COURSE_H

#include "../memory/oom_events.h"
#include "detect.h"
#include "owner.h"

/* Spans of one device that a detector looks at, by start: those of a history without what cuBLAS
 * was given to work in, which has detectors of its own. */
struct ls_course {
    const struct ls_history *history;
    bool direct; /* history->direct, else history->span */
    const struct ls_span *span;
    size_t spans;
    struct ls_span *copy; /* owned; NULL: nothing is left out, `span` is the history's own */
    struct ls_course *next;
};

/* Of that history, worked out at the first wish; NULL where there is nothing. It belongs to `d`. */
const struct ls_course *ls_course_of(struct ls_detect *d, const struct ls_history *history,
                                     bool direct);
void ls_courses_free(struct ls_course *list); /* detect.c's */

/* Its spans of one site, by start, to be freed; pointers into the course. */
const struct ls_span **ls_course_of_site(const struct ls_course *course, uint32_t site,
                                         size_t *count);

/* Two sites on different lines of one function. */
bool ls_course_same_function(const char *a, const char *b);

/* Whether there is a finding of this kind at the site, or at another line of its function. */
bool ls_course_told_of(const struct ls_detect *d, const char *kind, const char *site);

/* How many steps of a loop have begun by then: the number, from 1, of the step that runs, also of
 * one that was cut off. */
size_t ls_course_step(const struct ls_history *history, int loop, int64_t ts_ns);

/* The first request of this device at or after ts_ns that the program got no memory for, or NULL.
 */
const struct ls_oom_event *ls_course_oom(const struct ls_oom_events *ooms, int device,
                                         int64_t ts_ns);

/* The program's own frames of a stack, innermost first, as texts "PATH:LINE FUNCTION". */
json_t *ls_course_callers(sqlite3 *db, uint32_t stack);

/* Whether Python's garbage collector was at work in each stack. */
struct ls_collector;
struct ls_collector *ls_collector_new(sqlite3 *db);
bool ls_collector_in(struct ls_collector *collector, uint32_t stack);
/* Frames without a name between Python's line and whatever it called outside of the interpreter:
 * all of the interpreter's own functions that are not exported, where it was stripped. */
size_t ls_collector_unnamed(struct ls_collector *collector, uint32_t stack);
void ls_collector_free(struct ls_collector *collector);

/* The middle of numbers, which change their places; 0 of none. */
uint64_t ls_course_median(uint64_t *number, size_t count);

#endif
