/*
 * oom_census.h - what the census after an oom says of who held a block. Main thread only; not for
 * signal handlers.
 */
#ifndef LAYOUTSPY_OOM_CENSUS_H
#define LAYOUTSPY_OOM_CENSUS_H

#include "oom_facts.h"

enum ls_oom_held {
    LS_OOM_HELD_UNKNOWN,   /* no tensor in it was found */
    LS_OOM_HELD_OTHERWISE, /* by a variable of the program */
    LS_OOM_HELD_EXCEPTION  /* by an exception's frames alone, or by a graph that these hold */
};

struct ls_oom_census;

/* NULL where none was taken after this oom. */
struct ls_oom_census *ls_oom_census_load(sqlite3 *db, const struct ls_oom *oom);
void ls_oom_census_free(struct ls_oom_census *census); /* takes NULL */

/* Of memory at this address; takes NULL: unknown. */
enum ls_oom_held ls_oom_census_held(const struct ls_oom_census *census, uint64_t address);

#endif
