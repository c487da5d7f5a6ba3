/*
 * cupti.h - the CUPTI layer as the rest of the library sees it.
 *
 * CUPTI is optional: it is looked for when a recording starts, and where it cannot be had, or
 * another tool uses it, the hooks go on alone and `coverage` says so. Nothing here fails: the
 * functions do what can be done.
 *
 * What runs where: ls_cupti_start() in the thread that starts the recording, callbacks (callback.c)
 * in whatever thread makes a call, buffers (activity.c) in CUPTI's own threads or in whoever
 * flushes.
 */
#ifndef LS_CUPTI_H
#define LS_CUPTI_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "thread.h"

/* A recording begins: find CUPTI, subscribe, and say in `coverage` what came of it. `self` is the
 * calling thread, attached and busy. */
void ls_cupti_start(struct ls_thread *self);

/* Whether that is done, whatever came of it. Any thread. */
bool ls_cupti_started(void);

/* Stop and go on (`layoutspy ctl`): CUPTI is left as if we had never been there. False: not now,
 * try again soon. */
bool ls_cupti_pause(const char *reason);
void ls_cupti_resume(void);

/* Have CUPTI hand over what it holds, within `ms` milliseconds or not at all. */
void ls_cupti_flush(unsigned ms);

/* The process ends: a last flush, for a bounded time; then nothing of CUPTI is called any more. */
void ls_cupti_end(void);

/* Another client is told of the program's calls: ours would be among them. */
extern _Atomic bool ls_cupti_watched;

/* In a forked child, where CUPTI cannot be used. */
void ls_cupti_fork_reset(void);

#endif
