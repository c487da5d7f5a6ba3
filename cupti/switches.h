/*
 * switches.h - what layoutspy switches on in CUPTI: a subscription, callbacks for the calls of the
 * table, activities; and off again, so that nothing of it remains.
 *
 * Under LS_LOCK_CUPTI, in any thread; not async-signal-safe.
 */
#ifndef LS_CUPTI_SWITCHES_H
#define LS_CUPTI_SWITCHES_H

#include <stdbool.h>
#include <stddef.h>

#include "abi.h"

struct ls_switches {
    void *subscriber;
    bool is_own;  /* subscribed by us */
    bool several; /* by cuptiSubscribe_v2, beside others */
    /* The first function that failed where it must not, and what it gave; NULL: none. */
    const char *failed;
    int result;
    char missing[40]; /* what has no GPU times for that: "copies, kernels" */
};

/* Names behind CUPTI's numbers. Once in a recording. */
void ls_switches_prepare(void);

/*
 * All on. `other`: a subscription to be used, NULL: one of our own, one of `several` where another
 * client has begun so. False: nothing is on, and `why` says why. True with a `why`: not all is on.
 */
bool ls_switches_on(struct ls_switches *on, void *other, bool several,
                    ls_cupti_requested_fn requested, ls_cupti_completed_fn completed, char *why,
                    size_t size);

/* Nothing is recorded any more; buffers may be out. Then the subscription, too. */
void ls_switches_off(struct ls_switches *on);
void ls_switches_leave(struct ls_switches *on);

#endif
