/*
 * pool_rounding.c - what a stream of requests would have taken from a pool that rounds sizes up.
 * See pool_rounding.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "pool_rounding.h"

#include <stdlib.h>
#include <string.h>

#include "../room.h"
#include "course.h"
#include "thresholds.h"

#define CLASSES 512 /* 64 octaves in eighths */

static int octave(uint64_t size) {
    return size > 1 ? 64 - __builtin_clzll(size - 1) : 0; /* 2^n is at least the size */
}

/* The class of sizes that a size is rounded up to: octaves, or eighths of them. */
static int class_of(uint64_t size, bool eighths, uint64_t *rounded) {
    int n = octave(size);
    if (!eighths || n < 4) {
        *rounded = (uint64_t)1 << n;
        return n * 8;
    }
    uint64_t step = (uint64_t)1 << (n - 4); /* an eighth of the octave below 2^n */
    uint64_t part = (size + step - 1) / step;
    *rounded = part * step;
    return n * 8 + (int)(part - 8) - 8;
}

static int by_end(const void *a, const void *b) {
    const struct ls_request *x = *(struct ls_request *const *)a,
                            *y = *(struct ls_request *const *)b;
    return x->end_ns < y->end_ns ? -1 : x->end_ns > y->end_ns;
}

const struct ls_request **ls_pool_ends(const struct ls_request *at, size_t count) {
    const struct ls_request **end = ls_new(count, sizeof(const struct ls_request *));
    for (size_t i = 0; i < count; i++)
        end[i] = &at[i];
    qsort(end, count, sizeof *end, by_end);
    return end;
}

uint64_t ls_pool_rounded(const struct ls_request *at, size_t count,
                         const struct ls_request *const *end, bool eighths, size_t *calls) {
    uint32_t waiting[CLASSES + 8] = {0};
    uint64_t sum = 0, rounded;
    *calls = 0;
    for (size_t i = 0, e = 0; i < count; i++) {
        while (e < count && end[e]->end_ns <= at[i].start_ns)
            waiting[class_of(end[e++]->size, eighths, &rounded)]++;
        int class = class_of(at[i].size, eighths, &rounded);
        if (waiting[class]) {
            waiting[class]--;
            continue;
        }
        sum += rounded;
        (*calls)++;
    }
    return sum;
}

uint64_t ls_pool_rounded_by_steps(const struct ls_request *at, size_t count, size_t steps,
                                  bool eighths, size_t *calls) {
    bool by_step = steps * LS_POOL_STEP_CALLS >= count;
    uint32_t now[CLASSES + 8] = {0}, most[CLASSES + 8] = {0};
    uint64_t size[CLASSES + 8] = {0}, sum = 0;
    for (size_t i = 0; i < count; i++) {
        if (i && (by_step ? at[i].step != at[i - 1].step : at[i].size != at[i - 1].size))
            memset(now, 0, sizeof now);
        uint64_t rounded;
        int class = class_of(at[i].size, eighths, &rounded);
        size[class] = rounded;
        if (++now[class] > most[class])
            most[class]++;
    }
    *calls = 0;
    for (int i = 0; i < CLASSES + 8; i++) {
        sum += size[i] * most[i];
        *calls += most[i];
    }
    return sum;
}
