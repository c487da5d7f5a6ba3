/*
 * ask.c - see ask.h.
 */
#include "ask.h"

#include <errno.h>
#include <stdio.h>

#include "census.h"
#include "clock.h"
#include "cupti/cupti.h"
#include "cupti/flush.h"
#include "describe.h"
#include "measure.h"
#include "on_call.h"
#include "wrap.h"

#define FLUSH_MS 500

_Atomic uint32_t ls_ask_seen;
_Atomic uint64_t ls_ask_stopped;

static _Atomic bool answering;
static _Atomic uint32_t flushes; /* the header's flush_wanted, as far as it was dealt with */
static char stopped_since[100];  /* what coverage said when recording was stopped */

void ls_ask_again(void) {
    struct ls_spool_header *header = ls_session.header;
    if (header)
        atomic_store(&ls_ask_seen, ~atomic_load(&header->requests));
}

static void say(const char *text) {
    struct ls_thread *self = ls_enter_callback();
    if (!self)
        return;
    ls_busy(self);
    ls_describe_coverage(self, "recording", "partial", text);
    ls_not_busy(self);
}

/* Since the recording began. */
static double seconds(void) {
    return (double)(ls_ns(CLOCK_MONOTONIC) - ls_session.header->clock[0].mono_ns) / 1e9;
}

/* False: not now. */
static bool stop(uint64_t epoch) {
    if (!ls_cupti_pause("stopped by `layoutspy ctl`"))
        return false;
    snprintf(stopped_since, sizeof stopped_since, "stopped by `layoutspy ctl` at %.3f s",
             seconds());
    say(stopped_since);
    ls_session_wake_collector();
    atomic_store(&ls_ask_stopped, epoch);
    bool stopped = atomic_compare_exchange_strong(&ls_live->epoch, &epoch, LS_EPOCH_OFF);
    if (!stopped)
        atomic_store(&ls_ask_stopped, 0);
    return stopped;
}

static void start(void) {
    char text[200];
    uint64_t off = LS_EPOCH_OFF, epoch = atomic_exchange(&ls_ask_stopped, 0);
    ls_capture_forget(); /* what ended meanwhile was not seen */
    if (!atomic_compare_exchange_strong(&ls_live->epoch, &off, epoch))
        return;
    snprintf(text, sizeof text, "%s, until %.3f s: what happened meanwhile is missing",
             stopped_since, seconds());
    say(text);
    ls_cupti_resume();
}

/* In this order: who waits for the answer finds all of it done. Nothing of CUPTI's is called, and
 * no end of a capture missed, in the middle of one. */
static bool answer(struct ls_spool_header *header) {
    uint32_t now = atomic_load(&header->requests);
    bool wanted = atomic_load(&header->stop_wanted) != 0;
    uint64_t epoch = atomic_load(&ls_live->epoch);
    if (wanted && ls_measure_leaves_out()) /* when that step is over */
        return false;
    uint32_t flush = atomic_load(&header->flush_wanted);
    bool stops = wanted && epoch != LS_EPOCH_OFF && epoch != 0;
    if ((stops || flush != atomic_load(&flushes)) && ls_capture_awaited())
        return false;
    if (stops && !stop(epoch))
        return false;
    if (!wanted && atomic_load(&ls_ask_stopped))
        start();
    if (atomic_exchange(&flushes, flush) != flush) {
        ls_cupti_flush(FLUSH_MS);
        ls_session_wake_collector();
    }
    atomic_store(&header->requests_done, now);
    ls_futex(&header->requests_done, FUTEX_WAKE, INT32_MAX, NULL);
    return true;
}

bool ls_ask_answer(void) {
    struct ls_spool_header *header = ls_session.header;
    if (!header || atomic_load(&ls_live->epoch) == 0 ||
        atomic_load(&header->requests) == atomic_load(&header->requests_done))
        return true;
    struct ls_slow slow = ls_slow_begin();
    bool expected = false, done = true;
    if (atomic_compare_exchange_strong(&answering, &expected, true)) {
        done = answer(header);
        atomic_store(&answering, false);
    }
    ls_slow_end(slow);
    return done;
}

void ls_ask_look(struct ls_thread *self) {
    int saved = errno;
    struct ls_spool_header *header = ls_session.header;
    uint32_t now = atomic_load(&header->requests);
    atomic_store(&ls_ask_seen, now); /* first: who wants another look says so after it */
    if (atomic_load(&header->census_wanted) != atomic_load(&ls_census_seen))
        ls_census_look(self);
    ls_flush_before_exit();
    if (now != atomic_load(&header->requests_done) && !ls_flush_wake()) {
        /* CUPTI must not be left in a callback of its own. */
        if (!self->in_callback && self->epoch != LS_EPOCH_HOOKS_OFF) {
            ls_not_busy(self);
            if (!ls_ask_answer())
                ls_ask_again();
            ls_busy(self);
        } else {
            ls_ask_again();
        }
    }
    errno = saved;
}

void ls_ask_fork_reset(void) {
    atomic_store(&ls_ask_seen, 0);
    atomic_store(&ls_ask_stopped, 0);
    atomic_store(&answering, false);
    atomic_store(&flushes, 0);
}
