/*
 * growth_windows.c - where growth is looked for, and what counts as growth. See growth_windows.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "growth_windows.h"

#include <stdlib.h>

#include "../room.h"
#include "../search.h"
#include "thresholds.h"

#define LOOPS_MOST 4
#define GAPS_MOST 4

static struct ls_window *add_window(struct ls_windows *all, struct ls_window window) {
    all->at = realloc(all->at, (all->count + 1) * sizeof *all->at);
    if (!all->at)
        ls_detect_no_memory();
    all->at[all->count] = window;
    return &all->at[all->count++];
}

#define THREADS_MOST 65536 /* numbers of threads that are looked at */

/* ---- loops ---- */

struct loop {
    int number;
    size_t steps;
    size_t launching, copying; /* of them: with launches; with copies from or to the host */
    size_t training;           /* with work of autograd's own threads: a backward pass */
    bool told;                 /* by the program or its optimizer; else by a pattern of calls */
    bool last;                 /* the recording ends in it */
};

static int by_steps(const void *a, const void *b) {
    const struct loop *x = a, *y = b;
    return x->steps > y->steps ? -1 : x->steps < y->steps;
}

static void add_loop(const struct ls_history *h, struct loop loop, size_t most,
                     struct ls_windows *all) {
    struct ls_window *w = add_window(all, (struct ls_window){.loop = loop.number});
    w->bare = !loop.told && loop.copying * 2 < loop.steps && loop.training * 2 < loop.steps;
    w->stride = (loop.steps + most - 1) / most;
    w->ts_ns = ls_new(loop.steps / w->stride + 1, sizeof *w->ts_ns);
    for (size_t i = 0, n = 0; i < h->steps; i++)
        if (h->step[i].loop == loop.number && n++ % w->stride == 0)
            w->ts_ns[w->samples++] = h->step[i].start_ns;
}

/* Steps in which a thread of autograd's took memory. A model's layers, one after the other, have
 * none. */
static void count_backward(const struct ls_history *h, struct loop *loop) {
    bool *autograd = ls_new(THREADS_MOST, sizeof *autograd);
    sqlite3_stmt *stmt;
    size_t span = 0;
    if (sqlite3_prepare_v2(h->db,
                           "SELECT id FROM thread WHERE name LIKE 'pt\\_autograd%' ESCAPE '\\'", -1,
                           &stmt, NULL) == SQLITE_OK)
        while (sqlite3_step(stmt) == SQLITE_ROW)
            if (sqlite3_column_int64(stmt, 0) < THREADS_MOST && sqlite3_column_int64(stmt, 0) > 0)
                autograd[sqlite3_column_int64(stmt, 0)] = true;
    sqlite3_finalize(stmt);
    for (size_t i = 0; i < h->steps; i++) {
        bool seen = false;
        for (; span < h->spans && h->span[span].start_ns < h->step[i].end_ns; span++)
            seen = seen || (h->span[span].start_ns >= h->step[i].start_ns &&
                            h->span[span].thread < THREADS_MOST && autograd[h->span[span].thread]);
        for (size_t k = 0; seen && k < h->steps && loop[k].number; k++)
            if (loop[k].number == h->step[i].loop) {
                loop[k].training++;
                break;
            }
    }
    free(autograd);
}

static struct loop *read_loops(const struct ls_history *h) {
    struct loop *loop = ls_new(h->steps + 1, sizeof *loop);
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(h->db,
                           "SELECT loop, COUNT(*), SUM(launches > 0),"
                           " SUM(h2d_bytes > 0 OR d2h_bytes > 0), source <> 'pattern',"
                           " MIN(start_ns), MAX(end_ns) FROM step GROUP BY loop",
                           -1, &stmt, NULL) != SQLITE_OK)
        return loop;
    for (size_t i = 0; i < h->steps && sqlite3_step(stmt) == SQLITE_ROW; i++) {
        loop[i].number = sqlite3_column_int(stmt, 0);
        loop[i].steps = (size_t)sqlite3_column_int64(stmt, 1);
        loop[i].launching = (size_t)sqlite3_column_int64(stmt, 2);
        loop[i].copying = (size_t)sqlite3_column_int64(stmt, 3);
        loop[i].told = sqlite3_column_int(stmt, 4) != 0;
        int64_t start = sqlite3_column_int64(stmt, 5), end = sqlite3_column_int64(stmt, 6);
        loop[i].last = h->end_ns - end <= 2 * (end - start) / (int64_t)loop[i].steps;
    }
    sqlite3_finalize(stmt);
    count_backward(h, loop);
    return loop;
}

/* Whether its turns are a program's iterations: they work, and either the host has a part in them,
 * or they train, or there are more than a model has layers, or a data set has parts. Copies alone
 * are work where nothing comes after them: else something was loaded. */
static bool iterates(const struct loop *loop) {
    bool works =
        loop->launching * 2 >= loop->steps || (loop->last && loop->copying * 2 >= loop->steps);
    return loop->steps >= LS_LINEAR_SAMPLES && works &&
           (loop->told || loop->copying * 2 >= loop->steps || loop->training * 2 >= loop->steps ||
            loop->steps >= LS_LINEAR_BARE_STEPS);
}

static void add_loops(const struct ls_history *h, size_t most, struct ls_windows *all) {
    struct loop *loop = read_loops(h);
    qsort(loop, h->steps + 1, sizeof *loop, by_steps);
    for (size_t i = 0; i <= h->steps && i < LOOPS_MOST; i++)
        if (iterates(&loop[i]))
            add_loop(h, loop[i], most, all);
    free(loop);
}

/* ---- time outside of steps ---- */

struct gap {
    int64_t from, to;
    size_t born; /* spans */
};

static int by_born(const void *a, const void *b) {
    const struct gap *x = a, *y = b;
    return x->born > y->born ? -1 : x->born < y->born;
}

/* The first span that begins at ts_ns or later. */
static size_t span_from(const struct ls_course *c, int64_t ts_ns) {
    return LS_UP_TO(c->span, c->spans, start_ns, ts_ns - 1);
}

static void add_even(struct ls_windows *all, int64_t from, int64_t to, int samples, bool whole) {
    struct ls_window *w = add_window(all, (struct ls_window){.stride = 1, .whole = whole});
    w->ts_ns = ls_new((size_t)samples, sizeof *w->ts_ns);
    for (int i = 0; i < samples; i++)
        w->ts_ns[w->samples++] = from + (int64_t)((double)(to - from) * (i + 0.5) / samples);
}

static void add_gaps(const struct ls_detect *d, const struct ls_course *c, struct ls_windows *all) {
    const struct ls_history *h = c->history;
    struct gap *gap = ls_new(h->steps, sizeof *gap);
    size_t count = 0;
    for (size_t i = 0; i < h->steps; i++) {
        int64_t from = h->step[i].end_ns,
                to = i + 1 < h->steps ? h->step[i + 1].start_ns : d->end_ns;
        size_t born = to > from ? span_from(c, to) - span_from(c, from) : 0;
        if (born >= LS_LINEAR_GAP_SPANS)
            gap[count++] = (struct gap){from, to, born};
    }
    if (count)
        qsort(gap, count, sizeof *gap, by_born);
    for (size_t i = 0; i < count && i < GAPS_MOST; i++)
        add_even(all, gap[i].from, gap[i].to, LS_GROWTH_SAMPLES / 2, false);
    free(gap);
}

void ls_windows_make(const struct ls_detect *d, const struct ls_course *course,
                     struct ls_windows *windows) {
    size_t most = LS_GROWTH_CELLS / ls_history_site_count(course->history);
    *windows = (struct ls_windows){0};
    if (most > LS_GROWTH_STEPS / 4)
        most = LS_GROWTH_STEPS / 4;
    if (most < LS_GROWTH_SAMPLES)
        most = LS_GROWTH_SAMPLES;
    add_loops(course->history, most, windows);
    if (course->history->steps)
        add_gaps(d, course, windows);
    else if (d->end_ns > d->begin_ns)
        add_even(windows, d->begin_ns, d->end_ns, LS_GROWTH_SAMPLES, true);
}

void ls_windows_free(struct ls_windows *windows) {
    for (size_t i = 0; i < windows->count; i++)
        free(windows->at[i].ts_ns);
    free(windows->at);
    *windows = (struct ls_windows){0};
}

/* ---- growth ---- */

/* It may not fall in between, nor come in fewer than three parts, nor slow down to a halt. */
static bool steady(const uint64_t *y, size_t n) {
    uint64_t growth = y[n - 1] - y[0], most = y[0];
    size_t rises = 0;
    for (size_t i = 1; i < n; i++) {
        rises += y[i] > y[i - 1];
        if (y[i] > most)
            most = y[i];
        if ((double)(most - y[i]) > LS_LINEAR_DROP * (double)growth)
            return false;
    }
    uint64_t first = y[(n - 1) / 3], second = y[2 * (n - 1) / 3], last = y[n - 1];
    size_t wanted = n / 3 > LS_LINEAR_RISES ? LS_LINEAR_RISES : n / 3;
    return rises >= LS_LINEAR_SAMPLES - 1 && rises >= wanted && first >= y[0] && second >= first &&
           (double)(first - y[0]) >= LS_LINEAR_FIRST * (double)growth &&
           (double)(second - first) >= LS_LINEAR_SECOND * (double)growth &&
           (double)(last - second) >= LS_LINEAR_LAST * (double)growth &&
           ls_growth_slope(y, n) * (double)(n - 1) >= 0.5 * (double)growth;
}

bool ls_window_rises(const struct ls_window *window, const uint64_t *series, size_t *from,
                     size_t *to) {
    size_t n = window->samples, top = 0, begin = 0;
    size_t least = window->loop ? LS_LINEAR_SAMPLES : LS_LINEAR_EVEN_SAMPLES;
    for (size_t i = 1; i < n; i++)
        if (series[i] > series[top])
            top = i;
    if (window->loop == 0) /* what came before the rise is no part of it */
        for (size_t i = 0; i < top; i++)
            if ((double)series[i] <= 0.05 * (double)series[top])
                begin = i;
    bool ends_high = window->loop || window->whole; /* else it may end within the window */
    if (ends_high && (double)(n - 1 - top) > LS_LINEAR_FLAT_END * (double)n)
        return false;
    *to = top;
    /* Once more without the first quarter: what a warm-up left there must not hide the rest. */
    for (*from = begin; *from + least <= top + 1; *from += (top - begin) / 4) {
        if (series[top] > series[*from] && steady(series + *from, top - *from + 1))
            return true;
        if (*from > begin || top - begin < 2 * least)
            break;
    }
    return false;
}
