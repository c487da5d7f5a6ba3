/*
 * oom_after.c - did the program go on. See oom_after.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "oom_after.h"

#include <stdlib.h>

#include "../memory/growth.h"
#include "../room.h"
#include "../search.h"
#include "thresholds.h"

/* The steps of the main loop, in order. */
struct turns {
    struct ls_history_step *step;
    size_t count;
};

static struct turns turns_of(const struct ls_history *h) {
    struct turns turns = {0};
    size_t steps = 0;
    int loop = h ? ls_growth_loop(h, &steps) : 0;
    if (steps == 0)
        return turns;
    turns.step = ls_new(steps, sizeof *turns.step);
    for (size_t i = 0; i < h->steps && turns.count < steps; i++)
        if (h->step[i].loop == loop)
            turns.step[turns.count++] = h->step[i];
    return turns;
}

/* Those that begin after `from_ns` and end by `to_ns`. */
static int64_t whole_between(const struct turns *turns, int64_t from_ns, int64_t to_ns) {
    size_t first = LS_UP_TO(turns->step, turns->count, start_ns, from_ns);
    size_t end = LS_UP_TO(turns->step, turns->count, end_ns, to_ns);
    return end > first ? (int64_t)(end - first) : 0;
}

/* Launches after the call, and when the last one was. */
static int64_t launches_after(sqlite3 *db, const struct ls_oom *oom, int64_t *last_ns) {
    sqlite3_stmt *stmt;
    int64_t count = 0;
    *last_ns = oom->ts_ns;
    if (sqlite3_prepare_v2(db,
                           "SELECT COUNT(*), MAX(start_ns) FROM call WHERE id > ?1 AND device = ?2"
                           " AND status = 0 AND api IN"
                           " (SELECT id FROM api WHERE class IN ('launch', 'graph'))",
                           -1, &stmt, NULL) != SQLITE_OK)
        return 0;
    sqlite3_bind_int64(stmt, 1, oom->id);
    sqlite3_bind_int(stmt, 2, oom->device);
    if (sqlite3_step(stmt) == SQLITE_ROW && (count = sqlite3_column_int64(stmt, 0)) > 0)
        *last_ns = sqlite3_column_int64(stmt, 1);
    sqlite3_finalize(stmt);
    return count;
}

static struct ls_oom_after measure(struct ls_detect *d, const struct turns *turns,
                                   const struct ls_oom *oom) {
    const struct ls_history *h = oom->history;
    struct ls_oom_after after = {.steps = whole_between(turns, oom->ts_ns, LS_NEVER)};
    int64_t last_ns;
    after.launches = launches_after(d->db, oom, &last_ns);
    after.ns = last_ns - oom->ts_ns;
    if (h)
        after.allocations = (int64_t)(h->spans - LS_UP_TO(h->span, h->spans, start_ns, oom->ts_ns));
    return after;
}

/* After the last thing that failed: was there work enough to call it so. */
static bool worked(const struct ls_detect *d, const struct ls_oom_after *after) {
    bool long_enough =
        after->ns >= LS_WENT_ON_NS || (double)after->ns >= LS_SHARE_PROBLEM * (double)d->run_ns;
    return after->allocations > 0 &&
           ((after->steps >= LS_WENT_ON_STEPS && after->launches >= LS_WENT_ON_STEPS) ||
            (after->launches >= LS_WENT_ON_LAUNCHES && long_enough));
}

static const struct ls_oom *next_on_device(const struct ls_ooms *all, const struct ls_oom *oom) {
    for (const struct ls_oom *o = oom + 1; o < all->oom + all->count; o++)
        if (o->device == oom->device)
            return o;
    return NULL;
}

/* Whole steps before the next oom are work; what else led to that one may be only another try. */
struct ls_oom_after ls_oom_after(struct ls_detect *d, const struct ls_ooms *all,
                                 const struct ls_oom *oom) {
    struct turns turns = turns_of(oom->history);
    const struct ls_oom *last = oom, *next;
    struct ls_oom_after after = measure(d, &turns, oom);
    while (!after.went_on && (next = next_on_device(all, last))) {
        after.went_on = after.allocations > 0 &&
                        whole_between(&turns, last->ts_ns, next->begin_ns) >= LS_WENT_ON_STEPS;
        last = next;
    }
    if (!after.went_on) {
        struct ls_oom_after rest = last == oom ? after : measure(d, &turns, last);
        after.went_on = worked(d, &rest);
    }
    free(turns.step);
    return after;
}
