/*
 * delayed_release.c - `delayed-release`: memory of several steps waits, and is given back in
 * bursts.
 *
 * Needs: lifetimes with the stacks of their frees, and steps. Cost: what waits beyond one step's
 * part. Where Python's garbage collector gave it back, the memory hung on a reference cycle, and
 * nobody used it any more; where the program itself did, several steps at once, that may be on
 * purpose, so it weighs less. Main thread only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../memory/growth.h"
#include "../room.h"
#include "../search.h"
#include "course.h"
#include "thresholds.h"

#define SITES_MOST 8
#define BURSTS_MOST 8 /* that are listed */

/* A lifetime that ended in a burst. */
struct waiting {
    const struct ls_span *span;
    size_t step;  /* that it was made in, of the loop; without steps see generation_of() */
    size_t burst; /* spans that had begun when it ended: equal for what ended in one go */
};

struct delay {
    const struct ls_course *course;
    int loop; /* -1: there are no steps */
    size_t steps;
    struct waiting *at;
    size_t count;
    bool collector;
    bool linked; /* the collector is taken for it, by the form of the stacks and by the order */
    /* measured */
    uint64_t per_step, most;
    int64_t most_ns;
    size_t generations, bursts, born_steps;
    const struct ls_oom_event *oom; /* that it had a good part in, or NULL */
    uint64_t at_oom;
};

/* ---- gathering ---- */

static void add(struct delay *w, const struct ls_span *s, size_t step) {
    w->at[w->count++] =
        (struct waiting){s, step, LS_UP_TO(w->course->span, w->course->spans, start_ns, s->end_ns)};
}

/* Steps of the loop by time, walked along with the spans. */
struct walk {
    const struct ls_history *history;
    int loop;
    size_t next, begun;
};

static size_t step_at(struct walk *w, int64_t ts_ns) {
    const struct ls_history *h = w->history;
    for (; w->next < h->steps && h->step[w->next].start_ns <= ts_ns; w->next++)
        w->begun += h->step[w->next].loop == w->loop;
    return w->begun;
}

/* Without steps: what a line makes without another line's allocation in between belongs together.
 */
struct lines {
    size_t *number; /* by site */
    uint32_t last;
};

static size_t generation_of(struct lines *lines, const struct ls_span *s) {
    if (lines->number[s->site] == 0 || lines->last != s->site)
        lines->number[s->site]++;
    lines->last = s->site;
    return lines->number[s->site];
}

static void gather_collected(struct delay *w, struct ls_collector *collector) {
    const struct ls_course *c = w->course;
    struct walk walk = {.history = c->history, .loop = w->loop};
    struct lines lines = {ls_new(ls_history_site_count(c->history), sizeof *lines.number), 0};
    for (size_t i = 0; i < c->spans; i++) {
        const struct ls_span *s = &c->span[i];
        size_t step = w->loop >= 0 ? step_at(&walk, s->start_ns) : generation_of(&lines, s);
        if (s->end_ns != LS_NEVER && ls_collector_in(collector, s->free_stack))
            add(w, s, step);
    }
    free(lines.number);
    w->collector = true;
}

static int by_burst(const void *a, const void *b) {
    const struct waiting *x = a, *y = b;
    if (x->burst != y->burst)
        return x->burst < y->burst ? -1 : 1;
    if (x->span->site != y->span->site)
        return x->span->site < y->span->site ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

/* Whether the lifetimes [from, to) of one site and burst are of enough steps, each with as much.
 * The first and the last one may be cut by where steps are taken to begin. */
static bool staircase(const struct waiting *at, size_t from, size_t to) {
    size_t generations = 0;
    uint64_t least = UINT64_MAX, most = 0, sum = 0;
    for (size_t i = from; i < to; i++) {
        sum += at[i].span->size;
        if (i + 1 < to && at[i + 1].step == at[i].step)
            continue;
        generations++;
        if (sum > most)
            most = sum;
        if (generations > 1 && i + 1 < to && sum < least)
            least = sum;
        sum = 0;
    }
    return generations >= LS_DELAY_GENERATIONS && (double)most <= LS_DELAY_EQUAL * (double)least;
}

/* The program's own: several steps' parts in one go, within the loop. */
static void gather_released(struct ls_detect *d, struct delay *w,
                            const struct ls_oom_events *ooms) {
    const struct ls_course *c = w->course;
    const struct ls_history *h = c->history;
    struct walk walk = {.history = h, .loop = w->loop};
    struct lines lines = {ls_new(ls_history_site_count(h), sizeof *lines.number), 0};
    int64_t last_ns = w->loop >= 0 ? 0 : d->end_ns;
    w->count = 0;
    w->collector = false;
    for (size_t i = 0; i < h->steps; i++)
        if (h->step[i].loop == w->loop)
            last_ns = h->step[i].start_ns;
    for (size_t i = 0; i < c->spans; i++) {
        const struct ls_span *s = &c->span[i];
        size_t step = w->loop >= 0 ? step_at(&walk, s->start_ns) : generation_of(&lines, s);
        /* A pool that was full gives everything back: that is the lack of memory, and no delay. */
        if (step > 0 && s->end_ns < last_ns && !ls_oom_events_hold(ooms, s->end_call))
            add(w, s, step);
    }
    free(lines.number);
    if (w->count)
        qsort(w->at, w->count, sizeof *w->at, by_burst);
    size_t kept = 0;
    for (size_t from = 0, to; from < w->count; from = to) {
        for (to = from + 1; to < w->count && w->at[to].burst == w->at[from].burst &&
                            w->at[to].span->site == w->at[from].span->site;)
            to++;
        const char *site = ls_history_site(h, w->at[from].span->site);
        if (!staircase(w->at, from, to) || ls_finding_at(d, "linear-growth", site) ||
            ls_finding_at(d, "pool-miss", site))
            continue;
        memmove(&w->at[kept], &w->at[from], (to - from) * sizeof *w->at);
        kept += to - from;
    }
    w->count = kept;
}

/* gc.collect() of an interpreter whose functions have no names. Lists and tuples of nested objects
 * leave as many unnamed frames when they are cleared, but from their end to their begin; the
 * collector goes through its objects in the order in which they were made. */
static bool like_collector(const struct delay *w, struct ls_collector *collector) {
    size_t steps_on = 0;
    for (size_t i = 0; i < w->count; i++) { /* by end */
        const struct waiting *x = &w->at[i];
        bool same_burst = i > 0 && x->burst == w->at[i - 1].burst;
        if (ls_collector_unnamed(collector, x->span->free_stack) < LS_DELAY_UNNAMED ||
            (same_burst && x->step < w->at[i - 1].step))
            return false;
        steps_on += same_burst && x->step > w->at[i - 1].step;
    }
    return steps_on + 1 >= LS_DELAY_GENERATIONS;
}

/* ---- measuring ---- */

static int by_step(const void *a, const void *b) {
    const struct waiting *x = a, *y = b;
    return x->step < y->step ? -1 : x->step > y->step;
}

static int by_end(const void *a, const void *b) {
    const struct waiting *x = a, *y = b;
    return x->span->end_ns < y->span->end_ns ? -1 : x->span->end_ns > y->span->end_ns;
}

static int by_start(const void *a, const void *b) {
    const struct waiting *x = a, *y = b;
    return x->span->start_ns < y->span->start_ns ? -1 : x->span->start_ns > y->span->start_ns;
}

static void measure_steps(struct delay *w) {
    uint64_t *bytes = ls_new(w->count, sizeof *bytes);
    qsort(w->at, w->count, sizeof *w->at, by_step);
    for (size_t i = 0; i < w->count; i++) {
        if (i == 0 || w->at[i].step != w->at[i - 1].step)
            w->born_steps++;
        bytes[w->born_steps - 1] += w->at[i].span->size;
    }
    w->per_step = ls_course_median(bytes, w->born_steps);
    free(bytes);
}

static void measure(struct delay *w, const struct ls_oom_events *ooms) {
    struct waiting *up = ls_new(w->count, sizeof *up);
    uint64_t live = 0;
    measure_steps(w);
    memcpy(up, w->at, w->count * sizeof *up);
    qsort(up, w->count, sizeof *up, by_start);
    qsort(w->at, w->count, sizeof *w->at, by_end);
    for (size_t i = 0, ended = 0; i < w->count; i++) {
        live += up[i].span->size;
        while (ended < w->count && w->at[ended].span->end_ns <= up[i].span->start_ns)
            live -= w->at[ended++].span->size;
        if (live > w->most) {
            w->most = live;
            w->most_ns = up[i].span->start_ns;
        }
    }
    free(up);
    for (size_t i = 0; i < w->count; i++)
        w->bursts += i == 0 || w->at[i].burst != w->at[i - 1].burst;
    w->generations = w->per_step ? (size_t)((double)w->most / (double)w->per_step + 0.5) : 0;
    w->oom = ls_course_oom(ooms, w->course->history->device, 0);
    for (size_t i = 0; w->oom && i < w->count; i++)
        if (w->at[i].span->start_ns <= w->oom->ts_ns && w->oom->ts_ns < w->at[i].span->end_ns)
            w->at_oom += w->at[i].span->size;
    if (w->oom && (double)w->at_oom < LS_LINEAR_OOM_SHARE * (double)w->oom->allocated)
        w->oom = NULL;
}

/* ---- words ---- */

struct site_sum {
    uint32_t site;
    uint64_t bytes;
    size_t blocks;
};

static int by_sum(const void *a, const void *b) {
    const struct site_sum *x = a, *y = b;
    return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

/* Where the waiting memory was made, the most first; free it. */
static struct site_sum *sum_sites(const struct delay *w) {
    uint32_t sites = ls_history_site_count(w->course->history);
    struct site_sum *sum = ls_new(sites, sizeof *sum);
    for (size_t i = 0; i < w->count; i++) {
        struct site_sum *s = &sum[w->at[i].span->site];
        s->site = w->at[i].span->site;
        s->bytes += w->at[i].span->size;
        s->blocks++;
    }
    qsort(sum, sites, sizeof *sum, by_sum);
    return sum;
}

static json_t *sites_json(const struct delay *w, const struct site_sum *sum) {
    json_t *list = json_array();
    for (size_t i = 0; i < SITES_MOST && i < ls_history_site_count(w->course->history); i++)
        if (sum[i].bytes)
            json_array_append_new(
                list,
                json_pack("{s:o, s:I, s:I}", "site",
                          ls_json_text(ls_history_site(w->course->history, sum[i].site)), "bytes",
                          (json_int_t)sum[i].bytes, "blocks", (json_int_t)sum[i].blocks));
    return list;
}

static json_t *bursts_json(const struct delay *w) {
    json_t *list = json_array();
    for (size_t i = 0, to; i < w->count && json_array_size(list) < BURSTS_MOST; i = to) {
        uint64_t bytes = 0;
        for (to = i; to < w->count && w->at[to].burst == w->at[i].burst; to++)
            bytes += w->at[to].span->size;
        json_array_append_new(
            list,
            json_pack("{s:I, s:I, s:I, s:o}", "ts_ns", (json_int_t)w->at[i].span->end_ns, "blocks",
                      (json_int_t)(to - i), "bytes", (json_int_t)bytes, "site",
                      ls_json_text(ls_history_site(w->course->history, w->at[i].span->free_site))));
    }
    return list;
}

static enum ls_severity severity_of(const struct ls_detect *d, const struct delay *w,
                                    uint64_t extra) {
    uint64_t peak = 0;
    ls_peak_live_ns(w->course->history, &peak);
    int64_t capacity = w->course->history->capacity;
    double share = (double)extra / (double)(capacity > 0 ? capacity : d->capacity);
    bool good_part = (double)extra >= LS_DELAY_PEAK_SHARE * (double)peak;
    bool most_of_it = (double)extra >= LS_DELAY_OWN_SHARE * (double)peak;
    if (!w->collector || w->linked)
        return w->loop >= 0 && most_of_it && extra >= LS_DELAY_OWN_BYTES ? LS_WARNING : LS_INFO;
    if (w->oom || (good_part && share >= LS_SHARE_PROBLEM))
        return LS_PROBLEM;
    return good_part || share >= LS_SHARE_WARNING ? LS_WARNING : LS_INFO;
}

static void describe(struct ls_detect *d, const char *kind, const struct delay *w) {
    struct ls_human a, b, c;
    uint64_t extra = w->most > w->per_step ? w->most - w->per_step : 0;
    struct site_sum *sum = sum_sites(w);
    struct ls_finding *f = ls_finding_add(d, kind);
    const char *turn = w->loop >= 0 ? "step" : "turn";
    f->site = ls_format("%s", ls_history_site(w->course->history, sum[0].site));
    f->count = (int64_t)w->count;
    f->bytes = (int64_t)w->most;
    f->gain_bytes = (int64_t)extra;
    f->severity = severity_of(d, w, extra);
    f->title =
        ls_format("%s of each %s %s: up to %zu %ss' memory at once, %s more than one needs%s",
                  ls_human_bytes(&a, (int64_t)w->per_step), turn,
                  w->linked      ? "is given back several steps later, it seems by gc.collect()"
                  : w->collector ? "waits for Python's garbage collector"
                                 : "is given back several steps later",
                  w->generations, turn, ls_human_bytes(&b, (int64_t)extra),
                  w->oom ? "; so memory ran out" : "");
    char *why = ls_format(
        "The memory of %s %ss was given back in %s %s, %s. Between them it grows by as much in each "
        "%s.",
        ls_human_count(&a, (int64_t)w->born_steps), turn, ls_human_count(&c, (int64_t)w->bursts),
        ls_plural((int64_t)w->bursts, "burst", "bursts"),
        w->linked
            ? "deep inside of the interpreter and in the order in which it was made, as gc.collect() "
              "does it for objects that refer to each other in a circle (this interpreter has no "
              "names for its functions)"
        : w->collector ? "inside of the garbage collector: objects that refer to each other in a "
                         "circle held it, and nothing else did"
                       : "by the program, several steps' parts in one go",
        turn);
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    free(why);
    if (w->linked)
        json_object_set_new(f->evidence, "confidence", json_string("linked"));
    json_object_update_new(
        f->evidence,
        json_pack("{s:i, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "device",
                  w->course->history->device, "turn", turn, "collector", w->collector,
                  w->loop >= 0 ? "bytes_per_step" : "bytes_each", (json_int_t)w->per_step,
                  "generations", (json_int_t)w->generations, "bursts", (json_int_t)w->bursts,
                  "born_in", (json_int_t)w->born_steps, "peak_waiting", (json_int_t)w->most,
                  "peak_ns", (json_int_t)w->most_ns, "extra", (json_int_t)extra));
    json_object_set_new(f->evidence, "rows", bursts_json(w));
    json_object_set_new(f->evidence, "sites", sites_json(w, sum));
    if (w->oom)
        json_object_update_new(f->evidence, json_pack("{s:I, s:I}", "oom", w->oom->id,
                                                      "waiting_at_oom", (json_int_t)w->at_oom));
    json_object_set_new(f->evidence, "gain",
                        json_pack("{s:s}", "assumes", "that each step's part goes with its step"));
    const char *freed_at = ls_history_site(w->course->history, w->at[0].span->free_site);
    f->advice =
        w->linked
            ? ls_format("If %s calls gc.collect(): break the circle when the step is done (a weak "
                        "reference for the one that points back, or del of the attribute or "
                        "closure). If it drops a container: give each step's part back in its "
                        "step, where it is not needed longer.",
                        freed_at)
        : w->collector
            ? ls_format(
                  "Break the circle when the step is done: a weak reference for the one that "
                  "points back, or del of the attribute or closure. gc.collect() after a step "
                  "proves it; as a cure it costs its time in each step.")
            : ls_format("Give each step's part back in its step, where it is not needed longer; at "
                        "%s it goes several steps later.",
                        freed_at);
    free(sum);
}

static bool worth(const struct delay *w) {
    return w->count && w->most - w->per_step >= LS_LINEAR_BYTES &&
           w->generations >= LS_DELAY_GENERATIONS && w->born_steps >= LS_DELAY_GENERATIONS &&
           w->count >= LS_DELAY_COUNT;
}

static void look(struct ls_detect *d, const char *kind, const struct ls_course *c,
                 struct ls_collector *collector, const struct ls_oom_events *ooms) {
    struct delay w = {.course = c};
    w.loop = ls_growth_loop(c->history, &w.steps);
    if (w.steps == 0)
        w.loop = -1;
    w.at = ls_new(c->spans, sizeof *w.at);
    gather_collected(&w, collector);
    if (w.count)
        measure(&w, ooms);
    if (worth(&w)) {
        describe(d, kind, &w);
    } else {
        struct delay own = {.course = c, .loop = w.loop, .steps = w.steps, .at = w.at};
        gather_released(d, &own, ooms);
        if (own.count)
            measure(&own, ooms);
        if (worth(&own)) {
            own.collector = own.linked = like_collector(&own, collector);
            describe(d, kind, &own);
        }
    }
    free(w.at);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    int device[256];
    const struct ls_oom_events *ooms = ls_detect_oom_events(d);
    if (!ooms)
        return sqlite3_errcode(d->db);
    struct ls_collector *collector = ls_collector_new(d->db);
    size_t devices = ls_detect_devices(d, device, 256);
    for (size_t i = 0; i < devices; i++) {
        const struct ls_history *h = ls_detect_history(d, device[i]);
        const struct ls_course *course = h ? ls_course_of(d, h, false) : NULL;
        if (course)
            look(d, self->kind, course, collector, ooms);
    }
    ls_collector_free(collector);
    return SQLITE_OK;
}

const struct ls_detector ls_detect_delayed_release = {"delayed-release", run};
