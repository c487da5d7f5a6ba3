/*
 * client.c - see client.h.
 */
#include "client.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi.h"
#include "activity.h"
#include "clock.h"
#include "describe.h"
#include "flush.h"
#include "load.h"
#include "lock.h"
#include "manners.h"
#include "on_call.h"
#include "own_cost.h"
#include "state.h"
#include "switches.h"
#include "wrap.h"

#define HAND_OVER_MS 500 /* for buffers to come back when we leave */
#define LOCK_MS 2000
#define END_MS 500
#define ATTEMPTS 5 /* to come back, of which each failed */

static _Atomic uint32_t turn;       /* see ls_client_turn() */
static _Atomic int state;           /* enum ls_client_state; changed under LS_LOCK_CUPTI */
static _Atomic uint64_t epoch;      /* the session that it is the state of */
static _Atomic(void *) borrowed;    /* another client's subscriber, while ON with it */
static struct ls_switches switches; /* what is on, while ON */
static _Atomic uint32_t caller;     /* thread that calls CUPTI for us; 0: none */
static _Atomic bool paused, ended, told;
static unsigned failures;     /* to come back, in a row */
static _Atomic uint64_t came; /* ticks: when CUPTI last handed over, or was switched on */

static bool is_own_process(void) {
    uint64_t now = atomic_load(&ls_live_page()->epoch);
    return now != 0 && (now == atomic_load(&epoch) || now == LS_EPOCH_OFF);
}

uint32_t ls_client_turn(void) {
    return atomic_load_explicit(&turn, memory_order_relaxed);
}

enum ls_client_state ls_client_state(void) {
    /* In a forked child that has not recorded yet, the parent's state is nobody's. */
    return is_own_process() ? (enum ls_client_state)atomic_load(&state) : LS_CLIENT_NONE;
}

bool ls_client_has_buffers_out(void) {
    return ls_activity_out() > 0;
}

bool ls_client_is_one_of_several(void) {
    return atomic_load(&state) == LS_CLIENT_ON && switches.several;
}

bool ls_client_borrows(const void *subscriber) {
    return subscriber && atomic_load(&borrowed) == subscriber;
}

bool ls_client_is_calling(void) {
    uint32_t thread = atomic_load(&caller);
    return (thread && thread == (uint32_t)syscall(SYS_gettid)) || ls_flush_is_own_thread();
}

/* ---- CUPTI's calls for buffers ---- */

static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    uint64_t before = ls_ticks();
    ls_activity_completed(context, stream, buffer, size, valid);
    atomic_store(&came, before);
    ls_cost_add(LS_COST_BUFFERS, 1);
    ls_cost_add(LS_COST_BUFFER_TICKS, ls_ticks() - before);
}

/* ---- what the trace is told ---- */

/* Since `ticks`. `self` is busy. */
static void say_as(struct ls_thread *self, uint64_t ticks, enum ls_gpu_state now,
                   const char *reason) {
    size_t length = strnlen(reason, 200);
    uint32_t size = (uint32_t)(sizeof(struct ls_rec_gpu_state) + length + 1 + 7) & ~7u;
    struct ls_rec_gpu_state *record = ls_spool_reserve(self, size);
    if (now == LS_GPU_STATE_ON && !ls_client_has_buffers_out()) /* else of before, too */
        atomic_store(&came, ticks);
    if (!record)
        return;
    memset(record, 0, size);
    record->head.size = (uint16_t)size;
    record->head.type = LS_REC_GPU_STATE;
    record->ticks = ticks;
    record->state = (uint32_t)now;
    memcpy(record->text, reason, length);
    ls_spool_commit(self, size);
    if (now == LS_GPU_STATE_ON)
        ls_gpu_clock(self);
}

/* `coverage`: NULL, or the layer's state, where another one was said. */
static void say_since(uint64_t ticks, enum ls_gpu_state now, const char *reason,
                      const char *coverage) {
    struct ls_thread *self = ls_enter_callback();
    if (!self)
        return;
    ls_busy(self);
    say_as(self, ticks, now, reason);
    if (coverage)
        ls_describe_coverage(self, "cupti", "partial", coverage);
    ls_not_busy(self);
}

static void say(enum ls_gpu_state now, const char *reason, const char *coverage) {
    say_since(ls_ticks(), now, reason, coverage);
}

/* What happened since CUPTI last handed over is missing, if there is anything. */
static void say_untold(void) {
    static const char text[] = "CUPTI did not hand over what it had: cuptiActivityFlushAll failed, "
                               "or did not come back in time";
    if (ls_client_has_buffers_out())
        say_since(atomic_load(&came), LS_GPU_STATE_OFF, text, text);
}

/* ---- on and off, the lock held ---- */

/* Where CUPTI hangs in a call of ours, its lock is waited for once, until it is given back. */
static _Atomic bool hangs;

static bool take_lock(unsigned ms) {
    if (!ls_lock_within(LS_LOCK_CUPTI, atomic_load(&hangs) ? 0 : ms)) {
        if (ms)
            atomic_store(&hangs, true);
        return false;
    }
    atomic_store(&caller, (uint32_t)syscall(SYS_gettid));
    return true;
}

static void give_lock(void) {
    atomic_store(&caller, 0);
    atomic_store(&hangs, false);
    ls_unlock(LS_LOCK_CUPTI);
}

static bool turn_on(char *why, size_t size) {
    atomic_fetch_add(&turn, 1);
    bool several;
    void *other = ls_other_subscription(&several);
    atomic_store(&borrowed, other); /* its callbacks for what we switch on come at once */
    if (ls_switches_on(&switches, other, several, ls_activity_requested, completed, why, size))
        return true;
    atomic_store(&borrowed, NULL);
    if (!switches.several)
        ls_other_restore();
    return false;
}

static void turn_off(void) {
    ls_switches_off(&switches);
    if (ls_client_has_buffers_out())
        ls_flush_now(!switches.several, HAND_OVER_MS); /* late ones are taken, too */
    ls_switches_leave(&switches);
    atomic_store(&borrowed, NULL);
    if (!switches.several)
        ls_other_restore();
}

/* ---- changes of state ---- */

enum ls_client_state ls_client_begin(struct ls_thread *self, char *why, size_t size) {
    atomic_store(&epoch, atomic_load(&ls_live->epoch));
    enum ls_client_state now = LS_CLIENT_REFUSED;
    if (!ls_activity_prepare()) {
        snprintf(why, size, "no memory for CUPTI's buffers");
    } else if (!ls_flush_start()) {
        snprintf(why, size, "no thread to have CUPTI's buffers handed over");
    } else {
        ls_switches_prepare();
        ls_lock(LS_LOCK_CUPTI);
        atomic_store(&caller, (uint32_t)syscall(SYS_gettid));
        if (ls_other_is_there() && !ls_other_is_idle()) {
            snprintf(why, size,
                     "another CUPTI client was first (a profiler of the program's own): GPU times "
                     "begin when it rests");
            now = LS_CLIENT_OFF;
        } else if (turn_on(why, size)) {
            now = LS_CLIENT_ON;
        }
        atomic_store(&state, now);
        give_lock();
    }
    atomic_store(&state, now);
    if (now == LS_CLIENT_ON)
        say_as(self, ls_ticks(), LS_GPU_STATE_ON, "start");
    else if (now == LS_CLIENT_OFF)
        say_as(self, ls_ticks(), LS_GPU_STATE_OFF, "another CUPTI client was first");
    ls_flush_wake();
    return now;
}

void ls_client_refuse(void) {
    atomic_store(&epoch, atomic_load(&ls_live->epoch));
    atomic_store(&state, LS_CLIENT_REFUSED);
}

/* False: the lock could not be had. */
static bool go(unsigned ms, const char *reason, const char *coverage) {
    if (!take_lock(ms))
        return false;
    bool was_on = ls_client_state() == LS_CLIENT_ON;
    if (was_on) {
        turn_off();
        atomic_store(&state, LS_CLIENT_OFF);
    }
    give_lock();
    if (was_on) {
        say(LS_GPU_STATE_OFF, reason, coverage);
        ls_flush_wake(); /* to see when it can come back */
    }
    return true;
}

void ls_client_leave(const char *reason) {
    /* OFF, too: it may just be coming back. */
    if (ls_client_state() != LS_CLIENT_NONE && !ls_client_is_calling() && !atomic_load(&ended))
        go(LOCK_MS, reason,
           atomic_exchange(&told, true)
               ? NULL
               : "another CUPTI client (a profiler of the program's own) was given way to: there "
                 "are no GPU times while it works, see gpu_state");
}

bool ls_client_pause(const char *reason) {
    atomic_store(&paused, true);
    if (ls_client_state() != LS_CLIENT_ON)
        return true;
    /* Who has the lock may be waiting for the thread of flush.h. */
    return !atomic_load(&ended) && go(ls_flush_is_own_thread() ? 0 : LOCK_MS, reason, NULL);
}

void ls_client_resume(void) {
    atomic_store(&paused, false);
    ls_client_tend();
}

bool ls_client_tend(void) {
    char why[200] = "";
    if (ls_client_state() != LS_CLIENT_OFF || atomic_load(&paused) || atomic_load(&ended))
        return false;
    if (ls_capture_awaited() || !ls_other_is_idle() || !take_lock(0))
        return true;
    bool on = ls_client_state() == LS_CLIENT_OFF && ls_other_is_idle() && !atomic_load(&ended);
    bool tried = on;
    on = on && turn_on(why, sizeof why);
    failures = on ? 0 : failures + tried;
    bool over = failures == ATTEMPTS;
    if (on || over)
        atomic_store(&state, on ? LS_CLIENT_ON : LS_CLIENT_REFUSED);
    give_lock();
    if (on)
        say(LS_GPU_STATE_ON, "again", NULL);
    else if (over)
        say(LS_GPU_STATE_OFF, why, why);
    return !on && !over;
}

void ls_client_finalized(void) {
    if (ls_client_state() != LS_CLIENT_NONE)
        ls_activity_reclaim();
}

void ls_client_end(bool all) {
    if (!all)
        say_untold();
    atomic_store(&ended, true);
    /* Who is just coming back (ls_client_tend()) is done before CUPTI's own exit handlers run. */
    if (!ls_client_is_calling() && take_lock(END_MS))
        give_lock();
}

void ls_client_fork_reset(void) {
    atomic_store(&state, LS_CLIENT_NONE);
    atomic_store(&caller, 0);
    atomic_store(&hangs, false);
    atomic_store(&borrowed, NULL);
    ls_activity_reclaim(); /* those that the parent's CUPTI has */
    atomic_store(&paused, false);
    atomic_store(&ended, false);
    atomic_store(&told, false);
    failures = 0;
}
