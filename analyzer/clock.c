/*
 * clock.c - see clock.h. One thread; not async-signal-safe.
 */
#include "clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <x86intrin.h>

#include "common/clock_pair.h"

#define ANCHORS_KEPT 4096
#define SECOND 1000000000
#define LIMIT_NS INT64_C(4000000000000000000) /* no recording runs for a century */
#define APART_NS 1000000 /* between pairs of the header: a line through closer ones is crooked */

static void take_pair(struct ls_clock *clock, struct ls_clock_pair *pair) {
    uint64_t error = ls_clock_pair_take(pair, clock->tsc);
    if (error > clock->error_ticks)
        clock->error_ticks = error;
}

/* Old anchors matter only to calls that took that long: every second one is enough. */
static void thin_out(struct ls_clock *clock) {
    size_t kept = 1;
    for (size_t i = 2; i < clock->count; i++)
        if (i % 2 == 0 || i >= clock->count / 2)
            clock->anchor[kept++] = clock->anchor[i];
    clock->count = kept;
    clock->hint = 0;
}

/* Times that only a damaged spool can hold must not overflow what is reckoned with them. */
static int64_t clamp(int64_t ns) {
    return ns > LIMIT_NS ? LIMIT_NS : ns < -LIMIT_NS ? -LIMIT_NS : ns;
}

static void add_anchor(struct ls_clock *clock, uint64_t ticks, uint64_t mono) {
    struct ls_clock_anchor anchor = {ticks, clamp((int64_t)(mono - clock->origin_mono))};
    if (clock->count > 0) {
        const struct ls_clock_anchor *last = &clock->anchor[clock->count - 1];
        if (ticks <= last->ticks || anchor.ns <= last->ns)
            return;
    }
    if (clock->count == clock->room)
        thin_out(clock);
    clock->anchor[clock->count++] = anchor;
}

static bool same_boot(const struct ls_spool *spool) {
    char id[sizeof spool->start.boot_id] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file)
        return false;
    if (!fgets(id, sizeof id, file))
        id[0] = 0;
    fclose(file);
    id[strcspn(id, "\n")] = 0;
    return id[0] && strncmp(id, spool->start.boot_id, sizeof id) == 0;
}

static int compare_pairs(const void *a, const void *b) {
    uint64_t x = ((const struct ls_clock_pair *)a)->ticks;
    uint64_t y = ((const struct ls_clock_pair *)b)->ticks;
    return x < y ? -1 : x > y;
}

/*
 * A pair that was being overwritten when the target was killed is half old, half new. It shows: it
 * lies off the line from the first pair to `last`, far more than clocks drift (1 in 1000).
 */
static bool off_the_line(const struct ls_clock_pair *first, const struct ls_clock_pair *last,
                         const struct ls_clock_pair *pair) {
    double rate = (double)(last->mono_ns - first->mono_ns) / (double)(last->ticks - first->ticks);
    double ns = (double)(pair->ticks - first->ticks) * rate;
    double off = ns - (double)(int64_t)(pair->mono_ns - first->mono_ns);
    double allowed = 1e6 + ns / 1000;
    return off > allowed || off < -allowed;
}

static void add_header_pairs(struct ls_clock *clock, const struct ls_spool *spool,
                             const struct ls_clock_pair *now) {
    struct ls_clock_pair pair[LS_CLOCK_PAIRS];
    memcpy(pair, spool->start.clock, sizeof pair);
    qsort(pair + 1, LS_CLOCK_PAIRS - 1, sizeof pair[0], compare_pairs);
    const struct ls_clock_pair *first = &pair[0], *last = now ? now : &pair[LS_CLOCK_PAIRS - 1];
    for (int i = 1; i < LS_CLOCK_PAIRS; i++) {
        if (pair[i].ticks <= first->ticks || pair[i].ticks > last->ticks)
            continue;
        int64_t ns = clamp((int64_t)(pair[i].mono_ns - clock->origin_mono));
        if (ns - clock->anchor[clock->count - 1].ns < APART_NS)
            continue;
        if (pair + i == last || !off_the_line(first, last, &pair[i]))
            add_anchor(clock, pair[i].ticks, pair[i].mono_ns);
    }
}

/* A lone pair of a TSC: this machine's own rate is the best guess there is. */
static void add_guessed_rate(struct ls_clock *clock) {
    struct ls_clock_pair a, b;
    take_pair(clock, &a);
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    take_pair(clock, &b);
    add_anchor(clock, clock->anchor[0].ticks + (b.ticks - a.ticks),
               clock->origin_mono + (b.mono_ns - a.mono_ns));
}

bool ls_clock_init(struct ls_clock *clock, const struct ls_spool *spool) {
    memset(clock, 0, sizeof *clock);
    clock->room = ANCHORS_KEPT;
    clock->anchor = calloc(clock->room, sizeof clock->anchor[0]);
    if (!clock->anchor)
        return false;
    const struct ls_clock_pair *first = &spool->start.clock[0];
    clock->tsc = spool->start.flags & LS_SPOOL_TSC;
    clock->origin_mono = first->mono_ns;
    clock->origin_real = first->real_ns;
    add_anchor(clock, first->ticks, first->mono_ns);

    struct ls_clock_pair now;
    take_pair(clock, &now);
    clock->comparable =
        same_boot(spool) && now.ticks > first->ticks && now.mono_ns > first->mono_ns;
    if (!clock->tsc) /* ticks are nanoseconds: any second point on the line will do */
        add_anchor(clock, first->ticks + SECOND, first->mono_ns + SECOND);
    else
        add_header_pairs(clock, spool, clock->comparable ? &now : NULL);
    if (clock->tsc && clock->comparable)
        ls_clock_sample(clock, NULL);
    if (clock->count < 2)
        add_guessed_rate(clock);
    return true;
}

void ls_clock_destroy(struct ls_clock *clock) {
    free(clock->anchor);
    clock->anchor = NULL;
}

uint64_t ls_clock_sample(struct ls_clock *clock, struct ls_spool *spool) {
    struct ls_clock_pair pair;
    if (!clock->comparable)
        return clock->tsc ? __rdtsc() : UINT64_MAX;
    take_pair(clock, &pair);
    if (clock->tsc)
        add_anchor(clock, pair.ticks, pair.mono_ns);
    if (spool && spool->writable)
        ls_clock_pair_publish(spool->header, &pair);
    return pair.ticks;
}

static int64_t on_line(const struct ls_clock_anchor *a, const struct ls_clock_anchor *b,
                       uint64_t ticks) {
    double rate = (double)(b->ns - a->ns) / (double)(b->ticks - a->ticks);
    double ns = (double)(int64_t)(ticks - a->ticks) * rate;
    if (!(ns < (double)LIMIT_NS && ns > (double)-LIMIT_NS))
        return ns > 0 ? LIMIT_NS : -LIMIT_NS;
    return clamp(a->ns + (int64_t)ns);
}

int64_t ls_clock_ns(struct ls_clock *clock, uint64_t ticks) {
    const struct ls_clock_anchor *anchor = clock->anchor;
    if (!clock->tsc)
        return clamp((int64_t)(ticks - anchor[0].ticks));
    size_t i = clock->hint;
    if (ticks < anchor[i].ticks || (i + 2 < clock->count && ticks >= anchor[i + 1].ticks)) {
        size_t low = 0, high = clock->count - 1; /* anchor[low] <= ticks < anchor[high] */
        while (high - low > 1) {
            size_t middle = low + (high - low) / 2;
            if (anchor[middle].ticks <= ticks)
                low = middle;
            else
                high = middle;
        }
        clock->hint = i = low;
    }
    return on_line(&anchor[i], &anchor[i + 1], ticks);
}

int64_t ls_clock_error_ns(const struct ls_clock *clock) {
    const struct ls_clock_anchor *first = clock->anchor, *last = first + clock->count - 1;
    if (!clock->tsc)
        return 0;
    return (int64_t)((double)clock->error_ticks * (double)(last->ns - first->ns) /
                     (double)(last->ticks - first->ticks));
}
