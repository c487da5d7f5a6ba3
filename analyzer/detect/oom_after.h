/*
 * oom_after.h - what the program did after it had run out of memory. Main thread only; not for
 * signal handlers.
 */
#ifndef LAYOUTSPY_OOM_AFTER_H
#define LAYOUTSPY_OOM_AFTER_H

#include "oom_facts.h"

struct ls_oom_after {
    bool went_on;        /* it caught the error and worked on, on that device */
    int64_t steps;       /* of its main loop, begun after the error; 0 also: it has none */
    int64_t launches;    /* on the device, to the end */
    int64_t allocations; /* that the device still gave */
    int64_t ns;          /* from the error to the last launch */
};

/* After an oom of `all`. Work that ran out of memory itself, and tries that failed again, are none.
 */
struct ls_oom_after ls_oom_after(struct ls_detect *d, const struct ls_ooms *all,
                                 const struct ls_oom *oom);

#endif
