/*
 * manners.h - other clients of CUPTI: what they do, seen by the hooks of layoutspy/api/cupti.def.
 *
 * CUPTI has room for one client, in most versions. A program's own profiler comes first: before a
 * call of its that would collide with ours is forwarded, ours is taken back (client.h), and its
 * buffers stay its own. What it gets is what it would get without us.
 *
 * We come back when it rests: when all its activities are off, its calls' callbacks too, none of
 * its buffers is out and nothing of this has changed for a while. A profiler that rests may stay
 * subscribed for good (PyTorch's does) and then nobody else can subscribe; so a subscriber's
 * callback is put behind one of ours, and while it rests we borrow its subscription.
 *
 * Called by the wrappers, in whatever thread calls CUPTI, inside its callbacks too; also before any
 * recording. Not async-signal-safe. errno is kept by the wrappers.
 */
#ifndef LS_CUPTI_MANNERS_H
#define LS_CUPTI_MANNERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"

#define LS_OTHER_ALL 0xffff /* domains, functions */

struct ls_other_client;

/* Its callback and argument are exchanged for ours. `params`: of cuptiSubscribe_v2, else NULL. */
struct ls_other_client *ls_other_subscribing(void **callback, void **user, void **params);
void ls_other_subscribed(struct ls_other_client *other, void **subscriber, int status);
void ls_other_unsubscribed(void *subscriber, int status);
void ls_other_finalized(int status);

void ls_other_switches(int domain);
void ls_other_switched(void *subscriber, int domain, uint32_t id, uint32_t enable, int status);

/* Its functions of before, which stay where the new ones are refused. */
struct ls_other_buffers {
    ls_cupti_requested_fn requested;
    ls_cupti_completed_fn completed;
    bool known;
};
struct ls_other_buffers ls_other_registering(void **requested, void **completed);
void ls_other_registered(struct ls_other_buffers before, int status);
void ls_other_set_clock(void *clock, int status);
void ls_other_enabled(int kind, bool on, int status);

/* Before anything else of it that needs CUPTI for itself; `what` goes into the trace. */
void ls_other_acts(const char *what);
/* After what may have been its last act for now. */
void ls_other_rests(void);

/* ---- for client.c ---- */

/* Whether nobody else uses CUPTI now, as far as can be seen. */
bool ls_other_is_idle(void);
/* One may be: to be looked at again soon. */
bool ls_other_is_there(void);
/* A subscription to be borrowed, NULL: there is none. *several: it is of the kind that leaves room
 * for another. */
void *ls_other_subscription(bool *several);
/* Its functions for buffers and its clock back in their place, as far as it had set any. The lock
 * is held. */
void ls_other_restore(void);
/* A clock of its was set, which cannot be taken away, only replaced. */
bool ls_other_has_clock(void);

void ls_other_fork_reset(void);

#endif
