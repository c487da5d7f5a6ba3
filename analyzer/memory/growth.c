/*
 * growth.c - how what each site holds develops from step to step. See growth.h.
 *
 * A span changes two cells, that of the first sample that sees it and that of the first one that no
 * longer does; sums along the samples make the table. One thread; not async-signal-safe.
 */
#include "growth.h"

#include <stdlib.h>
#include <string.h>

#include "../room.h"
#include "../search.h"
#include "history_own.h"

#define SLOPE_POINTS 128 /* about 8,000 slopes: a millisecond */

struct loop {
    size_t steps, known, launching;
};

static bool works(const struct loop *loop) {
    return 2 * loop->launching >= loop->known;
}

int ls_growth_loop(const struct ls_history *history, size_t *steps) {
    const struct ls_history *h = history;
    struct loop *loop = ls_new(h->steps + 1, sizeof *loop);
    size_t best = 0;
    for (size_t i = 0; i < h->steps; i++) {
        int number = h->step[i].loop;
        if (number < 0 || (size_t)number > h->steps)
            continue;
        loop[number].steps++;
        loop[number].known += h->step[i].launches >= 0;
        loop[number].launching += h->step[i].launches > 0;
    }
    for (size_t i = 1; i <= h->steps; i++) {
        bool better = loop[best].steps == 0 || works(&loop[i]) != works(&loop[best])
                          ? loop[best].steps == 0 || works(&loop[i])
                          : loop[i].steps > loop[best].steps;
        if (loop[i].steps && better)
            best = i;
    }
    *steps = works(&loop[best]) || !h->framework ? loop[best].steps : 0;
    free(loop);
    return (int)best;
}

size_t ls_growth_step(const struct ls_history *history, int64_t ts_ns, bool *inside) {
    size_t steps, step = 0;
    int loop = ls_growth_loop(history, &steps);
    *inside = false;
    for (size_t i = 0; i < history->steps && steps; i++) {
        const struct ls_history_step *s = &history->step[i];
        if (s->loop == loop && s->start_ns <= ts_ns) {
            step++;
            *inside = ts_ns < s->end_ns;
        }
    }
    return step;
}

static void choose_samples(const struct ls_history *h, struct ls_growth *growth) {
    size_t steps, most = LS_GROWTH_CELLS / growth->sites;
    int loop = ls_growth_loop(h, &steps);
    growth->stride = 1;
    growth->by_step = steps > 0;
    if (most > LS_GROWTH_STEPS)
        most = LS_GROWTH_STEPS;
    if (most < LS_GROWTH_SAMPLES)
        most = LS_GROWTH_SAMPLES;
    if (!growth->by_step) {
        growth->ts_ns = ls_new(LS_GROWTH_SAMPLES, sizeof *growth->ts_ns);
        growth->samples = LS_GROWTH_SAMPLES;
        for (int64_t i = 0; i < LS_GROWTH_SAMPLES; i++) /* the middle of each part */
            growth->ts_ns[i] = h->end_ns / (2 * LS_GROWTH_SAMPLES) * (2 * i + 1);
        return;
    }
    growth->stride = (steps + most - 1) / most;
    growth->ts_ns = ls_new(steps / growth->stride + 1, sizeof *growth->ts_ns);
    for (size_t i = 0, n = 0; i < h->steps; i++)
        if (h->step[i].loop == loop && n++ % growth->stride == 0)
            growth->ts_ns[growth->samples++] = h->step[i].start_ns;
}

/* The first sample that is not before ts_ns, looking from `from` on. */
static size_t sample_from(const struct ls_growth *growth, size_t from, int64_t ts_ns) {
    return from + LS_NUMBERS_UP_TO(growth->ts_ns + from, growth->samples - from, ts_ns - 1);
}

static void fill(const struct ls_span *span, size_t spans, struct ls_growth *growth) {
    size_t samples = growth->samples, first = 0;
    growth->live = ls_new((size_t)growth->sites * samples, sizeof *growth->live);
    growth->total = ls_new(samples, sizeof *growth->total);
    for (size_t i = 0; i < spans; i++) {
        const struct ls_span *s = &span[i];
        uint64_t *row = growth->live + (size_t)s->site * samples;
        while (first < samples && growth->ts_ns[first] < s->start_ns)
            first++;
        if (first == samples)
            break; /* the others begin even later */
        size_t end = sample_from(growth, first, s->end_ns);
        if (end == first)
            continue;
        row[first] += s->size;
        if (end < samples)
            row[end] -= s->size;
    }
    for (uint32_t site = 0; site < growth->sites; site++) {
        uint64_t *row = growth->live + (size_t)site * samples, sum = 0;
        for (size_t k = 0; k < samples; k++) {
            row[k] = sum += row[k];
            growth->total[k] += sum;
        }
    }
}

void ls_growth_load(const struct ls_history *history, struct ls_growth *growth) {
    *growth = (struct ls_growth){.sites = ls_history_site_count(history)};
    if (history->spans == 0 || history->end_ns <= 0)
        return;
    choose_samples(history, growth);
    fill(history->span, history->spans, growth);
}

void ls_growth_load_at(const struct ls_history *history, const struct ls_span *span, size_t spans,
                       const int64_t *ts_ns, size_t samples, struct ls_growth *growth) {
    *growth = (struct ls_growth){.sites = ls_history_site_count(history), .stride = 1};
    if (spans == 0 || samples == 0)
        return;
    growth->samples = samples;
    growth->ts_ns = ls_new(samples, sizeof *growth->ts_ns);
    memcpy(growth->ts_ns, ts_ns, samples * sizeof *ts_ns);
    fill(span, spans, growth);
}

void ls_growth_free(struct ls_growth *growth) {
    free(growth->ts_ns);
    free(growth->live);
    free(growth->total);
    *growth = (struct ls_growth){0};
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double ls_growth_slope(const uint64_t *series, size_t samples) {
    double slope[SLOPE_POINTS * (SLOPE_POINTS - 1) / 2];
    size_t points = samples < SLOPE_POINTS ? samples : SLOPE_POINTS, at[SLOPE_POINTS], count = 0;
    bool flat = true;
    if (samples < 3)
        return 0;
    for (size_t i = 0; i < points; i++) {
        at[i] = i * (samples - 1) / (points - 1);
        flat = flat && series[at[i]] == series[0];
    }
    if (flat)
        return 0;
    for (size_t i = 0; i < points; i++)
        for (size_t k = i + 1; k < points; k++)
            slope[count++] =
                ((double)series[at[k]] - (double)series[at[i]]) / (double)(at[k] - at[i]);
    qsort(slope, count, sizeof *slope, by_value);
    return (slope[(count - 1) / 2] + slope[count / 2]) / 2;
}
