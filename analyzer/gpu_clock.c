/*
 * gpu_clock.c - see gpu_clock.h. One thread; not async-signal-safe.
 */
#include "gpu_clock.h"

#include <stdlib.h>
#include <string.h>

#define KEPT 4096
#define FAR INT64_C(10000000)       /* ns: pairs so far apart tell the rate of the clock */
#define DRIFT 1e-3                  /* no clock's rate is off by more */
#define LIMIT_NS (INT64_C(1) << 61) /* no recording runs for a century */

static int64_t minus(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static double rate(const struct ls_gpu_pair *a, const struct ls_gpu_pair *b) {
    return (double)minus(b->ns, a->ns) / (double)minus(b->gpu_ns, a->gpu_ns);
}

/* On the line from `a` with that rate. */
static int64_t on_line(const struct ls_gpu_pair *a, double rate, int64_t gpu_ns) {
    double ns = (double)a->ns + (double)minus(gpu_ns, a->gpu_ns) * rate;
    if (!(ns < (double)LIMIT_NS && ns > (double)-LIMIT_NS))
        return ns > 0 ? LIMIT_NS : -LIMIT_NS;
    return a->ns + (int64_t)((double)minus(gpu_ns, a->gpu_ns) * rate);
}

/* Of the whole clock: what lines are drawn on with, and where there is but one pair. */
static double own_rate(const struct ls_gpu_clock *clock) {
    const struct ls_gpu_pair *first = clock->at, *last = first + clock->count - 1;
    if (clock->count < 2 || minus(last->gpu_ns, first->gpu_ns) < FAR)
        return 1;
    double found = rate(first, last);
    return found > 1 - DRIFT && found < 1 + DRIFT ? found : 1;
}

/* Somebody was interrupted between the two readings: far less sure than the best. */
static bool loose(const struct ls_gpu_clock *clock, const struct ls_gpu_pair *pair) {
    return pair->width / 4 > clock->narrowest + 250;
}

/* A pair that is narrower than all before it may make some of them loose. */
static void drop_loose(struct ls_gpu_clock *clock) {
    size_t kept = 0;
    for (size_t i = 0; i < clock->count; i++)
        if (!loose(clock, &clock->at[i]))
            clock->at[kept++] = clock->at[i];
    clock->count = kept;
    clock->hint = 0;
}

/* Old ones are looked up no more, or for work that took long: every second one is enough. */
static void thin_out(struct ls_gpu_clock *clock) {
    size_t kept = 1;
    for (size_t i = 1; i < clock->count; i++)
        if (i % 2 == 0 || i >= clock->count / 2)
            clock->at[kept++] = clock->at[i];
    clock->count = kept;
    clock->hint = 0;
}

static void note_error(struct ls_gpu_clock *clock, int64_t error) {
    if (error > clock->error_ns)
        clock->error_ns = error;
}

/* How far a pair lies off the line between its neighbours, and what its own width leaves open. */
static void check(struct ls_gpu_clock *clock, size_t i) {
    const struct ls_gpu_pair *pair = &clock->at[i];
    int64_t off = 0;
    if (i > 0 && i + 1 < clock->count)
        off = minus(on_line(pair - 1, rate(pair - 1, pair + 1), pair->gpu_ns), pair->ns);
    note_error(clock, (off < 0 ? minus(0, off) : off) + pair->width / 2);
}

/* The number of pairs at or before `gpu_ns`. */
static size_t place(const struct ls_gpu_clock *clock, int64_t gpu_ns) {
    size_t low = 0, high = clock->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (clock->at[middle].gpu_ns <= gpu_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool ls_gpu_clock_add(struct ls_gpu_clock *clock, struct ls_gpu_pair pair) {
    if (!clock->at && !(clock->at = calloc(KEPT, sizeof *clock->at)))
        return false;
    if (pair.width < 0 || pair.width > LIMIT_NS || pair.gpu_ns < 0 || pair.ns > LIMIT_NS ||
        pair.ns < -LIMIT_NS) /* only of a damaged record */
        return true;
    bool narrowest = clock->pairs++ == 0 || pair.width < clock->narrowest;
    if (narrowest)
        clock->narrowest = pair.width;
    else if (clock->count > 0 && loose(clock, &pair))
        return true;
    if (narrowest)
        drop_loose(clock);
    if (clock->count == KEPT)
        thin_out(clock);
    size_t i = place(clock, pair.gpu_ns);
    const struct ls_gpu_pair *before = i > 0 ? &clock->at[i - 1] : NULL,
                             *after = i < clock->count ? &clock->at[i] : NULL;
    if (before && before->gpu_ns == pair.gpu_ns)
        return true;
    if ((before && before->ns >= pair.ns) || (after && after->ns <= pair.ns)) {
        /* One of the two clocks was set back: no line through these. */
        int64_t off = before && before->ns >= pair.ns ? minus(before->ns, pair.ns)
                                                      : minus(pair.ns, after->ns);
        note_error(clock, off + pair.width / 2);
        return true;
    }
    memmove(clock->at + i + 1, clock->at + i, (clock->count - i) * sizeof pair);
    clock->at[i] = pair;
    clock->count++;
    check(clock, i);
    if (i > 0)
        check(clock, i - 1);
    return true;
}

bool ls_gpu_clock_ns(struct ls_gpu_clock *clock, int64_t gpu_ns, int64_t *ns) {
    if (clock->count == 0 || gpu_ns < 0)
        return false;
    const struct ls_gpu_pair *at = clock->at;
    size_t i = clock->hint;
    if (i + 1 >= clock->count || gpu_ns < at[i].gpu_ns || gpu_ns >= at[i + 1].gpu_ns) {
        i = place(clock, gpu_ns);
        if (i == 0 || i == clock->count) {
            *ns = on_line(i == 0 ? at : &at[i - 1], own_rate(clock), gpu_ns);
            return *ns > -LIMIT_NS && *ns < LIMIT_NS;
        }
        clock->hint = --i;
    }
    *ns = on_line(&at[i], rate(&at[i], &at[i + 1]), gpu_ns);
    return true;
}

void ls_gpu_clock_destroy(struct ls_gpu_clock *clock) {
    free(clock->at);
    *clock = (struct ls_gpu_clock){0};
}
