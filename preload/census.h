/*
 * census.h - the tensor census: which Python objects hold device memory, and by which paths.
 *
 * It is taken in a pending call of the interpreter, never in a hook: once after an OOM, on the wish
 * of `layoutspy census`, and at exit where LAYOUTSPY_CENSUS says so. What it finds goes into the
 * spool (LS_REC_CENSUS, LS_REC_STORAGE, LS_REC_TENSOR).
 */
#ifndef LS_CENSUS_H
#define LS_CENSUS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "layoutspy/format.h"
#include "thread.h"

struct ls_census;

/* The spool header's census_wanted, as far as it was dealt with. */
extern _Atomic uint32_t ls_census_seen;

/* census_wanted is another one: have a census taken, or write down why there can be none. By a
 * thread that is busy; any thread, whatever locks it holds. errno is kept. */
void ls_census_look(struct ls_thread *self);

/* An allocator gave up, in the call that began at `ticks`. Its lock may be held. As above. */
void ls_census_after_oom(struct ls_thread *self, uint64_t ticks);

/* At the start of a recording, by the thread that describes it, which is busy. */
void ls_census_start(struct ls_thread *self);

void ls_census_fork_reset(void);

/* census_write.c. By a busy thread. `head.head` is filled in. False: there was no room. */
void ls_census_record(struct ls_thread *self, const struct ls_rec_census *head, const char *text);
bool ls_census_write(struct ls_thread *self, const struct ls_census *c, uint32_t number);

#endif
