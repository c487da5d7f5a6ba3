/*
 * timeline.c - a device's memory in rows. See timeline.h.
 *
 * One pass over what begins and ends, in the order of time. One thread; not async-signal-safe.
 */
#include "timeline.h"

#include <stdlib.h>

#include "../room.h"
#include "growth.h"
#include "history_own.h"

struct change {
    int64_t ts_ns;
    int64_t allocated, pending, reserved;
};

struct changes {
    struct change *change;
    size_t count;
};

static int by_time(const void *a, const void *b) {
    const struct change *x = a, *y = b;
    return x->ts_ns < y->ts_ns ? -1 : x->ts_ns > y->ts_ns;
}

static void add(struct changes *changes, int64_t ts_ns, int64_t allocated, int64_t pending,
                int64_t reserved) {
    if (ts_ns != LS_NEVER)
        changes->change[changes->count++] = (struct change){ts_ns, allocated, pending, reserved};
}

static void collect(const struct ls_history *h, struct changes *changes) {
    changes->change = ls_new(3 * h->spans + 2 * h->segments, sizeof *changes->change);
    changes->count = 0;
    for (size_t i = 0; i < h->spans; i++) {
        const struct ls_span *s = &h->span[i];
        int64_t size = (int64_t)s->size, held = h->framework ? 0 : size;
        add(changes, s->start_ns, size, 0, held);
        if (s->free_ns > s->end_ns) {
            add(changes, s->end_ns, -size, size, -held);
            add(changes, s->free_ns, 0, -size, 0);
        } else
            add(changes, s->end_ns, -size, 0, -held);
    }
    for (size_t i = 0; i < h->segments; i++) {
        add(changes, h->segment[i].start_ns, 0, 0, (int64_t)h->segment[i].size);
        add(changes, h->segment[i].end_ns, 0, 0, -(int64_t)h->segment[i].size);
    }
    if (changes->count)
        qsort(changes->change, changes->count, sizeof *changes->change, by_time);
}

static void choose_rows(const struct ls_history *h, size_t rows, struct ls_timeline *timeline) {
    size_t steps, most = rows < 2 ? 2 : rows;
    int loop = ls_growth_loop(h, &steps);
    timeline->by_step = steps > 0;
    timeline->row = ls_new(most + 1, sizeof *timeline->row);
    if (!timeline->by_step) {
        for (size_t i = 0; i < most; i++)
            timeline->row[timeline->count++].ts_ns = h->end_ns / (int64_t)most * (int64_t)i;
        return;
    }
    timeline->count = 1; /* what was before the first step */
    size_t stride = (steps + most - 2) / (most - 1), n = 0;
    for (size_t i = 0; i < h->steps; i++)
        if (h->step[i].loop == loop && n++ % stride == 0)
            timeline->row[timeline->count++] =
                (struct ls_timeline_row){.ts_ns = h->step[i].start_ns, .step = n};
}

void ls_timeline_make(const struct ls_history *history, size_t rows, struct ls_timeline *timeline) {
    struct changes changes;
    int64_t allocated = 0, pending = 0, reserved = 0;
    size_t next = 0;
    *timeline = (struct ls_timeline){0};
    choose_rows(history, rows, timeline);
    collect(history, &changes);
    for (size_t i = 0; i < timeline->count; i++) {
        struct ls_timeline_row *row = &timeline->row[i];
        int64_t end = i + 1 < timeline->count ? row[1].ts_ns : LS_NEVER;
        bool begun = false; /* all changes until the row's begin are in */
        while (!begun || (next < changes.count && changes.change[next].ts_ns < end)) {
            int64_t now = next < changes.count ? changes.change[next].ts_ns : LS_NEVER;
            if (!begun && (now > row->ts_ns || next == changes.count)) {
                row->allocated = row->peak = (uint64_t)allocated;
                row->pending = (uint64_t)pending;
                row->reserved = (uint64_t)reserved;
                begun = true;
                continue;
            }
            for (; next < changes.count && changes.change[next].ts_ns == now; next++) {
                allocated += changes.change[next].allocated;
                pending += changes.change[next].pending;
                reserved += changes.change[next].reserved;
            }
            if (begun && allocated > (int64_t)row->peak)
                row->peak = (uint64_t)allocated;
        }
    }
    free(changes.change);
}

void ls_timeline_free(struct ls_timeline *timeline) {
    free(timeline->row);
    *timeline = (struct ls_timeline){0};
}
