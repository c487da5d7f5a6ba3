/*
 * flush.h - the thread that calls CUPTI for us while the program runs.
 *
 * CUPTI hands a partly filled buffer over only when it is asked to, and asking may block, in some
 * states of a program for good. So it is done in a thread of our own, made when layoutspy becomes a
 * client of CUPTI (which has threads itself), at a low rate: GPU times are in the trace within
 * about a second. The same thread comes back to CUPTI when another client rests, and answers
 * requests from outside (ask.h) when the program makes no calls.
 *
 * It has all signals blocked and is waited for within bounds alone; one that hangs is left behind.
 * Others' threads call the functions below; not async-signal-safe. errno is kept.
 */
#ifndef LS_CUPTI_FLUSH_H
#define LS_CUPTI_FLUSH_H

#include <stdbool.h>

/* Make the thread, if there is none. False: it cannot be made. */
bool ls_flush_start(void);

/* Have CUPTI hand over: what is complete, with `forced` all there is. At most `ms`; false: it was
 * not done by then, or the thread has been hanging since earlier, or CUPTI failed. */
bool ls_flush_now(bool forced, unsigned ms);

/* Have the thread look at once. False: there is none. */
bool ls_flush_wake(void);

bool ls_flush_is_own_thread(void);

/* Have ls_cupti_end() run at exit, before the driver's and CUPTI's own exit handlers: these were
 * registered before this call. Cheap when repeated. */
void ls_flush_before_exit(void);

/* No more of it: the process ends. */
void ls_flush_end(void);

void ls_flush_fork_reset(void);

#endif
