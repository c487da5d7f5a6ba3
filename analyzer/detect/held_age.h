/*
 * held_age.h - is what a census saw kept, or of the running step, or of one that ran out of memory.
 *
 * Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_HELD_AGE_H
#define LAYOUTSPY_HELD_AGE_H

#include "../census.h"
#include "detect.h"

#define LS_FAILURES 100
struct ls_held_age {
    bool steps;     /* are known */
    int64_t old_ns; /* what was there before it is kept: when the step before the running one
                       began; without steps, LS_KEPT_AGE before the census */
    struct {        /* a step that ran out of memory, with the one before it */
        int64_t from_ns, to_ns;
    } failure[LS_FAILURES]; /* more than so many are one, from the first to the last */
    size_t failures;
    bool remains; /* a failed step's were found: what they are is told by oom-cascade */
};

/* For a census made at `census_ns`. Returns SQLITE_OK, or the code of the query that failed. */
int ls_held_age_find(struct ls_held_age *age, struct ls_detect *d, int64_t census_ns);

/* Made before the step before the running one. */
bool ls_held_old(const struct ls_held_age *age, const struct ls_counted_storage *storage);

/* That, and by no step that failed. */
bool ls_held_outlived(const struct ls_held_age *age, const struct ls_counted_storage *storage);

#endif
