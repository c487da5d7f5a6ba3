/*
 * mode.c - layoutspy_mode(): how much is recorded, switched while the program runs.
 *
 * For measuring what recording costs inside one process: blocks of the same work with recording on
 * and off, in turn. A switch for experiments, not for use: frees and allocations that run while
 * nothing is recorded are missing from the trace, which says so in `coverage`.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "cupti/cupti.h"
#include "describe.h"
#include "export.h"
#include "stack.h"
#include "wrap.h"

enum mode { MODE_FORWARD, MODE_CALLS, MODE_ALL, MODE_HOOKS, MODE_CUPTI, MODE_COUNT };

static _Atomic uint64_t paused_epoch; /* the session's, while it is paused; else 0 */

static void say_paused(struct ls_thread *self) {
    ls_describe_coverage(self, "recording", "partial",
                         "layoutspy_mode() switched recording off for a while: what happened then "
                         "is missing");
}

static void resume(uint64_t epoch) {
    atomic_store(&ls_live->epoch, epoch);
    struct ls_thread *self = ls_self;
    if (!self || self->epoch != epoch || self->busy)
        self = ls_enter_slow();
    if (!self)
        return;
    ls_busy(self);
    say_paused(self);
    ls_not_busy(self);
}

/* CUPTI, too, as if we had never been there, or used again. False: not now. */
static bool use_cupti(enum mode mode) {
    if (mode != MODE_FORWARD && mode != MODE_HOOKS) {
        ls_cupti_resume();
        return true;
    }
    bool left = ls_cupti_pause("stopped by layoutspy_mode()");
    if (!left)
        ls_cupti_resume();
    return left;
}

/*
 * mode 0: calls are only forwarded, and CUPTI is left; 1: recorded without stacks; 2: recorded in
 * full, as without this function; 3: the same without CUPTI; 4: only forwarded, but CUPTI goes on
 * (what it takes by itself). Returns the mode before, or -1: no recording runs, there is no such
 * mode, or CUPTI cannot be left just now (try again). One thread at a time.
 */
LS_EXPORT int layoutspy_mode(int mode);
LS_EXPORT int layoutspy_mode(int mode) {
    static int before = MODE_ALL;
    uint64_t epoch = atomic_load(&ls_live->epoch);
    /* In a forked child the parent's pause is over: its page was wiped. */
    uint64_t paused = epoch == LS_EPOCH_OFF ? atomic_load(&paused_epoch) : 0;
    if (mode < 0 || mode >= MODE_COUNT || (!paused && (epoch == 0 || epoch == LS_EPOCH_OFF)))
        return -1;
    struct ls_slow slow = ls_slow_begin();
    const bool forwards = mode == MODE_FORWARD || mode == MODE_CUPTI;
    if (!forwards && paused) { /* before CUPTI: what it does is recorded, too */
        atomic_store(&paused_epoch, 0);
        resume(paused);
    }
    bool done = use_cupti((enum mode)mode);
    if (done && forwards && !paused) {
        atomic_store(&paused_epoch, epoch);
        atomic_store(&ls_live->epoch, LS_EPOCH_OFF);
    }
    if (done)
        ls_stack_enable(mode == MODE_ALL || mode == MODE_HOOKS);
    ls_slow_end(slow);
    int was = before;
    if (done)
        before = mode;
    return done ? was : -1;
}
