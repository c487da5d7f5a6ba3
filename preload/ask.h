/*
 * ask.h - requests from outside: words in the spool's header that a command changes (format.h).
 *
 * Noticed at the end of a recorded call, by one compare; while nothing is recorded at the next
 * call; and once a second by the thread of cupti/flush.h, where there is one. errno is kept.
 */
#ifndef LS_ASK_H
#define LS_ASK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "state.h"
#include "thread.h"

/* The header's `requests`, as far as recorded calls need not look. */
extern _Atomic uint32_t ls_ask_seen;

/* The header's `requests` is another one, or ls_ask_again() was called. By a thread that is busy;
 * any thread, whatever locks it holds. */
void ls_ask_look(struct ls_thread *self);

/* Have the next recorded calls look. Any thread. */
void ls_ask_again(void);

/* Deal with what there is. False: something is to be tried again soon. Not by a busy thread. */
bool ls_ask_answer(void);

/* Recording was stopped by a request: the session's epoch, else 0. */
extern _Atomic uint64_t ls_ask_stopped;

/* Of a call while nothing is recorded. */
static inline bool ls_ask_is_asked(void) {
    return atomic_load_explicit(&ls_ask_stopped, memory_order_relaxed) &&
           atomic_load_explicit(&ls_session.header->requests, memory_order_relaxed) !=
               atomic_load_explicit(&ls_session.header->requests_done, memory_order_relaxed);
}

void ls_ask_fork_reset(void);

#endif
