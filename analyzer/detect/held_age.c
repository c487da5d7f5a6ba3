/*
 * held_age.c - is it kept, or of a step. See held_age.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "held_age.h"

#include "../memory/growth.h"
#include "oom_facts.h"
#include "oom_remains.h"
#include "thresholds.h"

#define DEVICES_MOST 64

/* The program's main loop; no history: it has none. */
struct main_loop {
    const struct ls_history *history;
    int number;
};

/* Steps are the program's, not a device's: any that a framework allocates on tells of them. */
static struct main_loop main_loop_of(struct ls_detect *d) {
    int device[DEVICES_MOST];
    size_t devices = ls_detect_devices(d, device, DEVICES_MOST), steps = 0;
    struct main_loop loop = {0};
    for (size_t i = 0; i < devices && (!loop.history || !loop.history->framework); i++) {
        const struct ls_history *h = ls_detect_history(d, device[i]);
        if (h && (!loop.history || h->framework))
            loop.history = h;
    }
    if (loop.history)
        loop.number = ls_growth_loop(loop.history, &steps);
    if (steps == 0)
        loop.history = NULL;
    return loop;
}

/* When the step before the one that was running at `ns` began; -1. */
static int64_t step_before(const struct main_loop *loop, int64_t ns) {
    int64_t before = -1, running = -1;
    for (size_t i = 0; loop->history && i < loop->history->steps; i++) {
        const struct ls_history_step *step = &loop->history->step[i];
        if (step->loop != loop->number || step->start_ns > ns)
            continue;
        before = running;
        running = step->start_ns;
    }
    return before;
}

/* Without steps what is of the last part of the time before `ns` is not kept; with them nothing is
 * that no two of them were begun after. */
static int64_t old_before(const struct main_loop *loop, bool steps, const struct ls_detect *d,
                          int64_t ns) {
    int64_t old_ns = steps ? step_before(loop, ns) : -1;
    if (steps)
        return old_ns >= 0 ? old_ns : 0;
    return ns - (int64_t)(LS_KEPT_AGE * (double)(ns - d->begin_ns));
}

int ls_held_age_find(struct ls_held_age *age, struct ls_detect *d, int64_t census_ns) {
    int rc;
    const struct ls_ooms *all = ls_ooms_of(d, &rc);
    size_t count = all ? all->count : 0;
    struct main_loop loop = main_loop_of(d);
    age->steps = step_before(&loop, census_ns) >= 0;
    age->old_ns = old_before(&loop, age->steps, d, census_ns);
    age->remains = all && all->remains->count > 0;
    age->failures = count > LS_FAILURES ? 1 : count;
    for (size_t i = 0; i < age->failures; i++) {
        age->failure[i].from_ns = old_before(&loop, age->steps, d, all->oom[i].ts_ns);
        age->failure[i].to_ns = all->oom[count > LS_FAILURES ? count - 1 : i].ts_ns;
    }
    return rc;
}

bool ls_held_old(const struct ls_held_age *age, const struct ls_counted_storage *s) {
    return s->start_ns >= 0 && s->start_ns < age->old_ns;
}

bool ls_held_outlived(const struct ls_held_age *age, const struct ls_counted_storage *s) {
    bool failed = false;
    for (size_t i = 0; i < age->failures && !failed; i++)
        failed = s->start_ns >= age->failure[i].from_ns && s->start_ns <= age->failure[i].to_ns;
    return ls_held_old(age, s) && !failed;
}
