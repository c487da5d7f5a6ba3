/*
 * client.h - layoutspy as a client of CUPTI: subscribed, with its activities on, or stepped aside.
 *
 *   NONE --start--> ON --pause, another client--> OFF --resume, it rests--> ON
 *          |  \--another client was first, and rests later--> OFF
 *          \--> REFUSED (no CUPTI, a tool that cannot be seen, an error): for good
 *
 * While ON the subscription is our own, or one that another client does not use for now
 * (manners.h), or one beside others (CUPTI 13.3: only where another client has begun so, since the
 * old functions and the new ones exclude each other in a process).
 *
 * Changes of state are made under LS_LOCK_CUPTI; CUPTI itself is called under it, so nothing that
 * CUPTI may call back into takes it. The lock is waited for within bounds: a callback of another
 * client may come here, while CUPTI waits for that callback to return.
 */
#ifndef LS_CUPTI_CLIENT_H
#define LS_CUPTI_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "thread.h"

enum ls_client_state { LS_CLIENT_NONE, LS_CLIENT_ON, LS_CLIENT_OFF, LS_CLIENT_REFUSED };

enum ls_client_state ls_client_state(void);

/* Counts how often we came to CUPTI: what was begun in one turn is not ended in another. Any
 * thread, async-signal-safe. */
uint32_t ls_client_turn(void);

/* Subscribe and switch on what the mode wants. ON; OFF: another client is at work, whose end is
 * awaited; REFUSED. `why` says why. `self` is the calling thread, busy. */
enum ls_client_state ls_client_begin(struct ls_thread *self, char *why, size_t size);

/* REFUSED: CUPTI is left alone, and what others do with it does not matter. */
void ls_client_refuse(void);

/* OFF, after a last hand-over of buffers: nothing of ours is left in CUPTI. `reason` goes into the
 * trace (LS_REC_GPU_STATE). No-op unless ON. At once, in the middle of a capture, too: the other
 * client's call cannot wait, and it is itself one to CUPTI. */
void ls_client_leave(const char *reason);

/* The same, and it is not to come back until ls_client_resume(). False: not now, try again. */
bool ls_client_pause(const char *reason);
void ls_client_resume(void);

/* ON again where nothing is in the way, a capture neither. From the thread of flush.h, now and
 * then. Returns whether it is to be tried again soon. */
bool ls_client_tend(void);

/* Buffers of ours that CUPTI has. */
bool ls_client_has_buffers_out(void);

/* Whether our own subscription leaves room for others (CUPTI 13.3). */
bool ls_client_is_one_of_several(void);

/* Whether another client's subscription serves us now. Any thread, async-signal-safe. */
bool ls_client_borrows(const void *subscriber);

/* Whether the calling thread is in a call of ours to CUPTI. */
bool ls_client_is_calling(void);

/* CUPTI was finalized by another client: all that was in it is gone. */
void ls_client_finalized(void);

/* The process ends: CUPTI is not called any more. `all`: it has handed over all that it had. */
void ls_client_end(bool all);

void ls_client_fork_reset(void);

#endif
