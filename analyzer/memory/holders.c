/*
 * holders.c - who holds live memory at a moment. See holders.h.
 *
 * One thread; not async-signal-safe.
 */
#include "holders.h"

#include <stdlib.h>

#include "../room.h"
#include "../search.h"
#include "history_own.h"

/* Begins of the main loop's steps: growth has them, unless it left some out. */
struct begins {
    int64_t *ts_ns;
    size_t count;
};

static void find_begins(const struct ls_history *h, struct begins *begins) {
    size_t steps;
    int loop = ls_growth_loop(h, &steps);
    begins->ts_ns = ls_new(steps, sizeof *begins->ts_ns);
    begins->count = 0;
    for (size_t i = 0; i < h->steps && begins->count < steps; i++)
        if (h->step[i].loop == loop)
            begins->ts_ns[begins->count++] = h->step[i].start_ns;
}

/* How many of them are not after ts_ns. */
static size_t begun(const int64_t *begin, size_t count, int64_t ts_ns) {
    return LS_NUMBERS_UP_TO(begin, count, ts_ns);
}

/* What each site held at a moment; to be freed. */
static uint64_t *bytes_at(const struct ls_history *h, int64_t ts_ns) {
    uint64_t *bytes = ls_new(ls_history_site_count(h), sizeof *bytes);
    for (size_t i = 0; i < h->spans && h->span[i].start_ns <= ts_ns; i++)
        if (ts_ns < h->span[i].end_ns)
            bytes[h->span[i].site] += h->span[i].size;
    return bytes;
}

static int by_change(const void *a, const void *b, void *context) {
    const struct ls_holder_entry *holder = context, *x = holder + *(const size_t *)a,
                                 *y = holder + *(const size_t *)b;
    if (x->change != y->change)
        return x->change > y->change ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void sort_changes(struct ls_holders *holders) {
    holders->changed = ls_new(holders->count, sizeof *holders->changed);
    for (size_t i = 0; i < holders->count; i++)
        if (holders->holder[i].change > 0)
            holders->changed[holders->changed_count++] = i;
    if (holders->changed_count)
        qsort_r(holders->changed, holders->changed_count, sizeof *holders->changed, by_change,
                holders->holder);
}

/* Against the begins of the last step and of one some steps earlier. */
static void find_changes(const struct ls_history *h, const struct begins *begins,
                         struct ls_holders *holders) {
    if (holders->step == 0)
        return;
    holders->since_step = holders->step > LS_CHANGE_STEPS ? holders->step - LS_CHANGE_STEPS : 1;
    holders->since_ns = begins->ts_ns[holders->since_step - 1];
    uint64_t *then = bytes_at(h, holders->since_ns);
    uint64_t *last = bytes_at(h, begins->ts_ns[holders->step - 1]);
    for (size_t i = 0; i < holders->count; i++) {
        struct ls_holder_entry *entry = &holders->holder[i];
        entry->change = (int64_t)(entry->bytes - then[entry->number]);
        entry->in_step = (int64_t)(entry->bytes - last[entry->number]);
    }
    free(then);
    free(last);
    sort_changes(holders);
}

void ls_holders_at(const struct ls_history *history, const struct ls_growth *growth,
                   const struct ls_state *state, struct ls_holders *holders) {
    struct begins begins;
    size_t samples = begun(growth->ts_ns, growth->samples, state->ts_ns);
    find_begins(history, &begins);
    *holders = (struct ls_holders){.steps = begins.count, .count = state->holders};
    holders->step = ls_growth_step(history, state->ts_ns, &holders->in_step);
    holders->holder = ls_new(state->holders, sizeof *holders->holder);
    for (size_t i = 0; i < state->holders; i++) {
        const struct ls_holder_of *from = &state->holder[i];
        struct ls_holder_entry *entry = &holders->holder[i];
        entry->site = ls_history_site(history, from->site);
        entry->number = from->site;
        entry->bytes = from->bytes;
        entry->blocks = from->blocks;
        entry->age_ns = state->ts_ns - from->oldest->start_ns;
        entry->age_steps = -1;
        if (begins.count)
            entry->age_steps = (int64_t)(holders->step -
                                         begun(begins.ts_ns, begins.count, from->oldest->start_ns));
        entry->steady = growth->by_step && samples >= 3;
        if (entry->steady)
            entry->growth =
                ls_growth_slope(growth->live + (size_t)from->site * growth->samples, samples) /
                (double)growth->stride;
    }
    find_changes(history, &begins, holders);
    free(begins.ts_ns);
}

void ls_holders_free(struct ls_holders *holders) {
    free(holders->holder);
    free(holders->changed);
    *holders = (struct ls_holders){0};
}
