/*
 * linear_growth.c - `linear-growth`: what one line holds grows by as much in each step, to the end
 * or until memory runs out; and when that will be.
 *
 * Needs: lifetimes of memory, and steps or enough time. Cost: what is held. Told from a warm-up and
 * a cache that fills (they stop), from a saw-tooth (delayed-release, it falls), from new maxima
 * (ratchet, each larger than all before and rare) and from work space of libraries by what
 * growth_windows.c and course.c leave out. Memory that a program never gave back before its own
 * end is told by `leak`, where there is nothing to forecast. Main thread only; not for signal
 * handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../query.h"
#include "growth_windows.h"
#include "linear_growth.h"
#include "thresholds.h"

struct ls_search {
    struct ls_detect *d;
    const struct ls_history *history;
    const struct ls_oom_events *ooms;
    struct ls_growers found;
};

/* ---- finding ---- */

static bool known(const struct ls_growers *all, const struct ls_course *c, uint32_t site) {
    for (size_t i = 0; i < all->count; i++)
        if (all->at[i].site == site && all->at[i].course == c)
            return true;
    return false;
}

/* Frees and launches go on all the time in a loop; a model that is built on the device has none of
 * the first. Only for samples without a meaning of their own. */
static bool works_meanwhile(const struct ls_course *c, int64_t from, int64_t to) {
    size_t temporary[3] = {0};
    int64_t third = (to - from) / 3 + 1;
    for (size_t i = 0; i < c->spans; i++) {
        const struct ls_span *s = &c->span[i];
        if (s->start_ns >= from && s->end_ns < to && s->start_ns < to)
            temporary[(s->start_ns - from) / third]++;
    }
    return temporary[0] >= LS_REPEATED && temporary[1] >= LS_REPEATED &&
           temporary[2] >= LS_REPEATED;
}

/* Bytes of one stack that are live at a moment. */
static uint64_t live_of(const struct ls_span *const *span, size_t count, uint32_t stack,
                        int64_t ts_ns) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count && span[i]->start_ns <= ts_ns; i++)
        if (span[i]->stack == stack && ts_ns < span[i]->end_ns)
            sum += span[i]->size;
    return sum;
}

/* Where several ways lead to a line (two sessions with an arena each) and all of the later growth
 * came by one of them, only that one is meant. */
static void narrow(struct ls_grower *g, const struct ls_span *const *span, size_t count) {
    int64_t middle = g->middle_ns;
    uint64_t at[] = {live_of(span, count, g->stack, g->from_ns),
                     live_of(span, count, g->stack, middle),
                     live_of(span, count, g->stack, g->to_ns)};
    uint64_t all_middle = 0;
    for (size_t i = 0; i < count && span[i]->start_ns <= middle; i++)
        all_middle += middle < span[i]->end_ns ? span[i]->size : 0;
    if (g->regrown || at[2] == g->last || g->last <= all_middle ||
        (double)at[2] - (double)at[1] < LS_LINEAR_ONE_WAY * (double)(g->last - all_middle))
        return;
    g->first = at[0];
    g->last = at[2];
    g->made = g->blocks = g->unfreed = 0;
    for (size_t i = 0; i < count && span[i]->start_ns <= g->to_ns; i++) {
        if (span[i]->stack != g->stack)
            continue;
        g->made += span[i]->start_ns >= g->from_ns;
        g->blocks += g->to_ns < span[i]->end_ns;
        g->unfreed += span[i]->end_ns == LS_NEVER;
    }
}

/* What of a site is live at the end of the rise, and how it came to be. */
static void look_closer(struct ls_grower *g) {
    size_t count, overlapped = 0, pairs = 0;
    const struct ls_span **span = ls_course_of_site(g->course, g->site, &count);
    const struct ls_span *before = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < count && span[i]->start_ns <= g->to_ns; i++) {
        const struct ls_span *s = span[i];
        if (s->start_ns >= g->from_ns)
            g->made++;
        if (before && s->start_ns >= g->from_ns) {
            pairs++;
            overlapped += before->end_ns > s->start_ns && before->end_ns < g->to_ns;
        }
        before = s;
        if (s->end_ns <= g->to_ns)
            continue;
        g->blocks++;
        g->unfreed += s->end_ns == LS_NEVER;
        if (!g->smallest || s->size < g->smallest)
            g->smallest = s->size;
        if (s->size > g->largest)
            g->largest = s->size;
        if (s->start_ns >= g->from_ns && s->size >= most) {
            most = s->size;
            g->stack = s->stack;
        }
    }
    /* One block that is made larger each time, the old one still there while it is filled. */
    g->regrown = pairs >= LS_LINEAR_SAMPLES - 1 && g->blocks <= 2 && g->made > 2 * g->blocks;
    g->joined = g->regrown && overlapped * 2 > pairs;
    narrow(g, span, count);
    free(span);
}

static void add_grower(struct ls_search *s, const struct ls_course *c, const struct ls_window *w,
                       const struct ls_growth *growth, uint32_t site, size_t from, size_t to) {
    const uint64_t *y = growth->live + (size_t)site * growth->samples;
    struct ls_growers *all = &s->found;
    all->at = realloc(all->at, (all->count + 1) * sizeof *all->at);
    if (!all->at)
        ls_detect_no_memory();
    struct ls_grower *g = &all->at[all->count++];
    *g = (struct ls_grower){.course = c,
                            .site = site,
                            .loop = w->loop,
                            .bare = w->bare,
                            .from_ns = w->ts_ns[from],
                            .to_ns = w->ts_ns[to],
                            .middle_ns = w->ts_ns[from + (to - from) / 2],
                            .turns = (to - from) * w->stride,
                            .first = y[from],
                            .last = y[to],
                            .total = growth->total[to]};
    /* By its later half: the first steps may have asked for more. */
    size_t half = to - from >= 2 * LS_LINEAR_SAMPLES - 2 ? from + (to - from) / 2
                  : to - from >= LS_LINEAR_SAMPLES - 1   ? to - (LS_LINEAR_SAMPLES - 2)
                                                         : from;
    g->per_turn = ls_growth_slope(y + half, to - half + 1) / (double)w->stride;
    g->released = to + 1 < growth->samples && y[growth->samples - 1] < y[to] / 4;
    look_closer(g);
}

static void search_window(struct ls_search *s, const struct ls_course *c,
                          const struct ls_window *w) {
    struct ls_growth growth;
    size_t from, to;
    ls_growth_load_at(c->history, c->span, c->spans, w->ts_ns, w->samples, &growth);
    for (uint32_t site = 0; growth.samples && site < growth.sites; site++) {
        const uint64_t *y = growth.live + (size_t)site * growth.samples;
        if (known(&s->found, c, site) || !ls_window_rises(w, y, &from, &to))
            continue;
        if (w->loop == 0 && !works_meanwhile(c, w->ts_ns[from], w->ts_ns[to]))
            continue;
        add_grower(s, c, w, &growth, site, from, to);
    }
    ls_growth_free(&growth);
}

static void search(struct ls_search *s, const struct ls_course *c) {
    struct ls_windows windows;
    ls_windows_make(s->d, c, &windows);
    for (size_t i = 0; i < windows.count; i++)
        search_window(s, c, &windows.at[i]);
    ls_windows_free(&windows);
}

/* ---- judging ---- */

/* Each allocation is larger than all before it, and most steps need none: a pool that follows new
 * maxima (ratchet), whatever shape its sum has; or one buffer that is made anew for a larger
 * request, and given back before, so that nothing of its contents is kept. */
static bool by_maxima(const struct ls_grower *g) {
    size_t count, records = 0, made = 0;
    const struct ls_span **span = ls_course_of_site(g->course, g->site, &count);
    uint64_t most = 0;
    for (size_t i = 0; i < count && span[i]->start_ns <= g->to_ns; i++) {
        if (span[i]->start_ns >= g->from_ns) {
            made++;
            records += span[i]->size > most;
        }
        if (span[i]->size > most)
            most = span[i]->size;
    }
    free(span);
    return !g->joined && made == records && made * 2 <= g->turns;
}

/* When the device will be full, in turns from the end of the rise; -1: not known. */
static double turns_left(const struct ls_grower *g, int64_t capacity) {
    if (capacity <= 0 || g->per_turn <= 0)
        return -1;
    double times = g->joined ? 2 : 1;
    double others = (double)g->total - (double)g->last;
    double left = ((double)capacity - others - times * (double)g->last) / (times * g->per_turn);
    return left > 0 ? left : 0;
}

static int64_t count_launches(sqlite3 *db, int64_t after_ns) {
    sqlite3_stmt *stmt;
    int64_t count = 0;
    if (sqlite3_prepare_v2(db,
                           "SELECT COUNT(*) FROM (SELECT 1 FROM call JOIN api ON api.id = call.api"
                           " WHERE api.class IN ('launch', 'graph') AND start_ns > ?"
                           " LIMIT 1000)",
                           -1, &stmt, NULL) != SQLITE_OK)
        return 0;
    sqlite3_bind_int64(stmt, 1, after_ns);
    if (sqlite3_step(stmt) == SQLITE_ROW)
        count = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return count;
}

/* Given back, most of it, while the program went on to other work. */
static bool only_a_phase(const struct ls_grower *g) {
    size_t count;
    uint64_t back = 0;
    int64_t gone_ns = g->to_ns;
    const struct ls_span **span = ls_course_of_site(g->course, g->site, &count);
    for (size_t i = 0; i < count && span[i]->start_ns <= g->to_ns; i++)
        if (g->to_ns < span[i]->end_ns && span[i]->end_ns != LS_NEVER) {
            back += span[i]->size;
            if (span[i]->end_ns > gone_ns)
                gone_ns = span[i]->end_ns;
        }
    free(span);
    return (double)back >= (1 - LS_LINEAR_DROP) * (double)g->last && !g->joined &&
           count_launches(g->course->history->db, gone_ns) >= LS_LINEAR_AFTER;
}

/* Whether a request would have failed as well on a device without what grew, and is not just the
 * next size of the one block that grows. */
static bool too_large_anyway(const struct ls_grower *g, const struct ls_oom_event *oom,
                             int64_t capacity) {
    double grown = (double)(g->last - g->first), others = (double)g->total - grown;
    double next = (double)g->last + LS_LINEAR_OOM_STEPS * g->per_turn;
    return capacity > 0 && (double)oom->requested > (double)capacity - others &&
           !(g->regrown && (double)oom->requested <= next);
}

/* Whether a failed request came from this loop, and what grows had a good part in it. */
static bool led_to(const struct ls_grower *g, const struct ls_oom_event *oom, int64_t capacity) {
    if (too_large_anyway(g, oom, capacity))
        return false;
    double all = capacity > 0 ? (double)capacity : (double)g->total;
    double held = (g->joined ? 2 : 1) * (double)g->last;
    return held >= LS_LINEAR_OOM_SHARE * all &&
           ((double)(oom->ts_ns - g->to_ns) <= LS_LINEAR_OOM_STEPS * g->turn_ns ||
            strcmp(oom->site ? oom->site : "", ls_history_site(g->course->history, g->site)) == 0);
}

static void forecast(struct ls_search *s, struct ls_grower *g) {
    const struct ls_history *h = s->history;
    const struct ls_oom_event *oom = ls_course_oom(s->ooms, h->device, g->from_ns);
    g->done = g->loop ? ls_course_step(h, g->loop, g->to_ns) : g->turns;
    g->turn_ns = (double)(g->to_ns - g->from_ns) / (double)g->turns;
    g->capacity =
        h->capacity > 0 || !oom || oom->device_total <= 0 ? h->capacity : oom->device_total;
    g->left = turns_left(g, g->capacity);
    if (!oom || !led_to(g, oom, g->capacity))
        return;
    g->oom = oom;
    g->oom_step = g->loop ? ls_course_step(h, g->loop, oom->ts_ns) : 0;
}

/* An end-of-run list is the leak detector's; it looks at what the program itself allocated. */
static bool is_leaks(const struct ls_search *s, const struct ls_grower *g) {
    const struct ls_detect *d = s->d;
    if ((s->history->framework && !g->course->direct) || g->unfreed < g->blocks ||
        ls_owner_of(s->history->db, g->stack, LS_MEMORY_DEVICE).rule != LS_OWNER_USER)
        return false;
    bool soon = g->left >= 0 && g->left <= LS_FORECAST_RUNS * (double)g->done;
    return !d->abrupt && !d->running && !g->oom && !soon;
}

static int by_growth(const void *a, const void *b) {
    const struct ls_grower *x = a, *y = b;
    uint64_t grown[] = {x->last - x->first, y->last - y->first};
    return grown[0] > grown[1] ? -1 : grown[0] < grown[1];
}

static void judge(struct ls_search *s) {
    struct ls_growers *all = &s->found;
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++) {
        struct ls_grower *g = &all->at[i];
        forecast(s, g);
        if (!by_maxima(g) && !is_leaks(s, g) && (g->oom || !only_a_phase(g)))
            all->at[kept++] = *g;
    }
    all->count = kept;
    if (kept)
        qsort(all->at, kept, sizeof *all->at, by_growth);
    uint64_t sum = 0, largest = kept ? all->at[0].last - all->at[0].first : 0;
    for (size_t i = 0; i < kept; i++)
        sum += all->at[i].last - all->at[i].first;
    if (sum < LS_LINEAR_BYTES)
        all->count = 0;
    for (size_t i = 0; i < kept; i++)
        if ((double)(all->at[i].last - all->at[i].first) >= LS_LINEAR_SITE_SHARE * (double)largest)
            all->large = i + 1;
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    int device[256];
    const struct ls_oom_events *ooms = ls_detect_oom_events(d);
    if (!ooms)
        return sqlite3_errcode(d->db);
    size_t devices = ls_detect_devices(d, device, 256);
    for (size_t i = 0; i < devices; i++) {
        struct ls_search s = {.d = d, .history = ls_detect_history(d, device[i]), .ooms = ooms};
        const struct ls_course *course;
        if (!s.history)
            continue;
        for (int k = 0; k < 2; k++)
            if ((course = ls_course_of(d, s.history, k == 1)))
                search(&s, course);
        judge(&s);
        ls_growers_report(d, self->kind, s.history, &s.found);
        free(s.found.at);
    }
    return SQLITE_OK;
}

const struct ls_detector ls_detect_linear_growth = {"linear-growth", run};
