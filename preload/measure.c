/*
 * measure.c - see measure.h.
 *
 * The switching itself (CUPTI takes milliseconds) lies between the steps: a step's time is taken
 * from after it to before it.
 */
#include "measure.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "ask.h"
#include "clock.h"
#include "cupti/cupti.h"
#include "describe.h"
#include "on_call.h"
#include "wrap.h"

#define WARM_UP 8 /* steps that are like no other */
#define ENOUGH 8  /* of each kind, before anything is said */
#define KEPT 101  /* the latest ones of each kind */

struct times {
    uint32_t count;
    uint64_t ns[KEPT];
};

static struct {
    _Atomic bool taken;
    uint32_t steps;
    uint64_t begun;         /* CLOCK_MONOTONIC; 0: no step runs */
    _Atomic uint64_t epoch; /* of the session, while a step is left out; else 0 */
    struct times with, without;
} measured;

static void add(struct times *times, uint64_t ns) {
    times->ns[times->count++ % KEPT] = ns;
}

static uint64_t median(const struct times *times) {
    uint64_t sorted[KEPT];
    uint32_t count = times->count < KEPT ? times->count : KEPT;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1] > times->ns[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = times->ns[i];
    }
    return sorted[count / 2];
}

static void put(struct ls_thread *self, const char *key, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lu", (unsigned long)value);
    ls_describe_meta(self, key, text);
}

static void tell(void) {
    struct ls_thread *self = ls_enter_callback();
    if (!self || measured.with.count < ENOUGH || measured.without.count < ENOUGH)
        return;
    ls_busy(self);
    put(self, "cost.steps_with", measured.with.count);
    put(self, "cost.steps_without", measured.without.count);
    put(self, "cost.step_with_ns", median(&measured.with));
    put(self, "cost.step_without_ns", median(&measured.without));
    ls_not_busy(self);
}

static void say_partial(void) {
    struct ls_thread *self = ls_enter_callback();
    if (!self)
        return;
    ls_busy(self);
    ls_describe_coverage(
        self, "recording", "partial",
        "LAYOUTSPY_MEASURE leaves some steps out: what happened in them is missing");
    ls_not_busy(self);
}

/* Nothing is recorded from here on. */
static void leave_out(void) {
    uint64_t epoch = atomic_load(&ls_live->epoch);
    if (epoch == 0 || epoch == LS_EPOCH_OFF || ls_capture_awaited() ||
        !ls_cupti_pause("a step that is left out"))
        return;
    say_partial();
    atomic_store(&measured.epoch, epoch);
    if (!atomic_compare_exchange_strong(&ls_live->epoch, &epoch, LS_EPOCH_OFF))
        atomic_store(&measured.epoch, 0);
}

static void go_on(void) {
    uint64_t off = LS_EPOCH_OFF;
    ls_capture_forget(); /* what ended meanwhile was not seen */
    atomic_compare_exchange_strong(&ls_live->epoch, &off, atomic_load(&measured.epoch));
    atomic_store(&measured.epoch, 0);
    ls_cupti_resume();
}

bool ls_measure_leaves_out(void) {
    return atomic_load(&measured.epoch) != 0;
}

static bool is_wanted(void) {
    bool taken = false;
    return ls_session.env.measure > 1 && !atomic_load(&ls_ask_stopped) &&
           atomic_compare_exchange_strong(&measured.taken, &taken, true);
}

void ls_measure_ended(void) {
    if (!is_wanted())
        return;
    uint64_t now = ls_ns(CLOCK_MONOTONIC);
    struct ls_slow slow = ls_slow_begin();
    if (measured.begun && measured.steps > WARM_UP)
        add(ls_measure_leaves_out() ? &measured.without : &measured.with, now - measured.begun);
    measured.begun = 0;
    if (ls_measure_leaves_out()) {
        go_on();
        tell();
    }
    ls_slow_end(slow);
    atomic_store(&measured.taken, false);
}

void ls_measure_begun(void) {
    if (!is_wanted())
        return;
    struct ls_slow slow = ls_slow_begin();
    if (++measured.steps > WARM_UP && measured.steps % ls_session.env.measure == 0)
        leave_out();
    measured.begun = ls_ns(CLOCK_MONOTONIC);
    ls_slow_end(slow);
    atomic_store(&measured.taken, false);
}

void ls_measure_fork_reset(void) {
    memset(&measured, 0, sizeof measured);
}
