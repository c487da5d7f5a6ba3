/*
 * ratchet.c - `ratchet`: what a framework's allocator holds grows whenever a request is larger than
 * any before it, while what is live between steps stays the same.
 *
 * Needs: blocks, segments, steps. Cost: what was added to the allocator's memory by new maxima
 * after the first steps. Told from a leak by what is live when steps begin, from fragmentation by
 * the sizes: each growth has a request behind it that is the largest of its line. Main thread only;
 * not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../memory/growth.h"
#include "../room.h"
#include "course.h"
#include "thresholds.h"

#define RECORDS_MOST 16 /* that are listed */

/* A moment at which the allocator held more than ever before. */
struct record {
    const struct ls_span *request; /* that it was for */
    uint64_t before;               /* the largest request of its line until then */
    uint64_t bytes;                /* by which the most that is held rose */
    uint64_t reserved;             /* after it */
    size_t step;
};

struct climb {
    const struct ls_history *history;
    int loop;
    size_t steps;
    struct record *record; /* after the first steps, those of new maxima */
    size_t records;
    size_t record_steps;            /* in so many different steps */
    uint64_t by_records, by_others; /* bytes after the first steps */
    uint64_t reserved;              /* the most at any time */
    uint64_t live_first, live_last; /* when the steps after the first ones began, the last ones */
    const struct ls_oom_event *oom; /* a request that failed, larger than any before; or NULL */
    uint64_t oom_median, oom_before;
    size_t oom_step;
};

/* ---- the climb ---- */

struct change {
    int64_t ts_ns, call;
    int64_t bytes; /* of a segment: negative when it goes */
    const struct ls_segment *segment;
};

static int by_call(const void *a, const void *b) {
    const struct change *x = a, *y = b;
    if (x->call != y->call)
        return x->call < y->call ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static struct change *read_changes(const struct ls_history *h, size_t *count) {
    struct change *change = ls_new(2 * h->segments, sizeof *change);
    *count = 0;
    for (size_t i = 0; i < h->segments; i++) {
        const struct ls_segment *s = &h->segment[i];
        change[(*count)++] = (struct change){s->start_ns, s->start_call, (int64_t)s->size, s};
        if (s->end_ns != LS_NEVER)
            change[(*count)++] = (struct change){s->end_ns, s->end_call, -(int64_t)s->size, s};
    }
    if (*count)
        qsort(change, *count, sizeof *change, by_call);
    return change;
}

/* The largest request of each line, before the present step and in it. */
struct sizes {
    uint64_t before, now;
    size_t step;
};

static uint64_t largest_before(struct sizes *sizes, const struct ls_span *s, size_t step) {
    if (sizes->step != step) {
        if (sizes->now > sizes->before)
            sizes->before = sizes->now;
        sizes->now = 0;
        sizes->step = step;
    }
    if (s->size > sizes->now)
        sizes->now = s->size;
    return sizes->before;
}

/* All that a step with a new maximum added is its doing: the pieces behind it lie elsewhere then.
 * Rows that are no maxima go. */
static void share_out(struct climb *c) {
    size_t kept = 0;
    for (size_t i = 0, to; i < c->records; i = to) {
        uint64_t bytes = 0, others = 0;
        size_t first = kept;
        for (to = i; to < c->records && c->record[to].step == c->record[i].step; to++) {
            struct record r = c->record[to];
            if (r.request->size > r.before && r.before)
                c->record[kept++] = r;
            else
                others += r.bytes;
            bytes += r.bytes;
        }
        if (kept == first) {
            c->by_others += bytes;
            continue;
        }
        c->record[first].bytes += others;
        c->record_steps++;
        c->by_records += bytes;
    }
    c->records = kept;
}

/* The blocks in order of time, each with the memory that was added just before it. */
static void follow(struct climb *c) {
    const struct ls_history *h = c->history;
    struct sizes *sizes = ls_new(ls_history_site_count(h), sizeof *sizes);
    size_t changes, next = 0;
    struct change *change = read_changes(h, &changes);
    int64_t reserved = 0;
    size_t step = 0;
    c->record = ls_new(h->spans, sizeof *c->record);
    for (size_t i = 0, k = 0; i < h->spans; i++) {
        const struct ls_span *s = &h->span[i];
        uint64_t added = 0;
        for (; k < h->steps && h->step[k].start_ns <= s->start_ns; k++)
            step += h->step[k].loop == c->loop;
        for (; next < changes && change[next].call <= s->start_call; next++) {
            reserved += change[next].bytes;
            if (reserved > 0 && (uint64_t)reserved > c->reserved) {
                added += (uint64_t)reserved - c->reserved;
                c->reserved = (uint64_t)reserved;
            }
        }
        uint64_t before = largest_before(&sizes[s->site], s, step);
        if (added && step > LS_RATCHET_WARM_STEPS)
            c->record[c->records++] = (struct record){s, before, added, c->reserved, step};
    }
    free(change);
    free(sizes);
    share_out(c);
}

/* What is live between steps: medians of the begin and of the end of the run after the first. */
static void note_live(struct climb *c) {
    const struct ls_history *h = c->history;
    int64_t *ts = ls_new(c->steps, sizeof *ts);
    size_t count = 0;
    struct ls_growth growth;
    for (size_t i = 0, n = 0; i < h->steps; i++)
        if (h->step[i].loop == c->loop && ++n > LS_RATCHET_WARM_STEPS)
            ts[count++] = h->step[i].start_ns;
    if (count > LS_GROWTH_STEPS / 4) { /* evenly fewer */
        for (size_t i = 0; i < LS_GROWTH_STEPS / 4; i++)
            ts[i] = ts[i * count / (LS_GROWTH_STEPS / 4)];
        count = LS_GROWTH_STEPS / 4;
    }
    ls_growth_load_at(h, h->span, h->spans, ts, count, &growth);
    size_t part = growth.samples / 3;
    if (part) {
        c->live_first = ls_course_median(growth.total, part);
        c->live_last = ls_course_median(growth.total + growth.samples - part, part);
    }
    ls_growth_free(&growth);
    free(ts);
}

/* The request that failed, among those of its line before it. */
static void note_oom(struct climb *c, const struct ls_oom_events *ooms) {
    const struct ls_history *h = c->history;
    const struct ls_oom_event *oom = ls_course_oom(ooms, h->device, 0);
    if (!oom)
        return;
    /* The largest of each step: a line makes small ones, too. */
    uint64_t *size = ls_new(h->spans, sizeof *size);
    size_t count = 0, step = 0, last = 0;
    for (size_t i = 0, k = 0; i < h->spans && h->span[i].start_ns < oom->ts_ns; i++) {
        for (; k < h->steps && h->step[k].start_ns <= h->span[i].start_ns; k++)
            step += h->step[k].loop == c->loop;
        if (strcmp(ls_history_site(h, h->span[i].site), oom->site ? oom->site : "") != 0)
            continue;
        if (count == 0 || step != last)
            size[count++] = 0;
        last = step;
        if (h->span[i].size > size[count - 1])
            size[count - 1] = h->span[i].size;
        if (h->span[i].size > c->oom_before)
            c->oom_before = h->span[i].size;
    }
    c->oom_median = ls_course_median(size, count);
    free(size);
    if (count && oom->requested > 0 && (uint64_t)oom->requested > c->oom_before) {
        c->oom = oom;
        c->oom_step = ls_course_step(h, c->loop, oom->ts_ns);
    }
}

static bool is_ratchet(const struct climb *c) {
    uint64_t climbed = c->by_records + c->by_others;
    uint64_t grown = c->live_last > c->live_first ? c->live_last - c->live_first : 0;
    size_t steps = c->record_steps + (c->oom != NULL);
    return steps >= LS_RATCHET_RECORDS && climbed >= LS_LINEAR_BYTES &&
           (double)c->by_records >= LS_RATCHET_SHARE * (double)climbed &&
           (double)grown <= LS_RATCHET_LIVE * (double)c->by_records;
}

/* ---- words ---- */

/* The line whose new maxima added most. */
static uint32_t main_site(const struct climb *c) {
    uint64_t *sum = ls_new(ls_history_site_count(c->history), sizeof *sum);
    uint32_t best = 0;
    for (size_t i = 0; i < c->records; i++) {
        uint32_t site = c->record[i].request->site;
        sum[site] += c->record[i].bytes;
        if (sum[site] > sum[best])
            best = site;
    }
    free(sum);
    return best;
}

/* One row for each step: its largest request that was a new maximum, and what the step added. */
static json_t *records_json(const struct climb *c) {
    json_t *list = json_array();
    for (size_t i = 0, to; i < c->records && json_array_size(list) < RECORDS_MOST; i = to) {
        const struct record *largest = &c->record[i];
        uint64_t bytes = 0;
        for (to = i; to < c->records && c->record[to].step == c->record[i].step; to++) {
            bytes += c->record[to].bytes;
            if (c->record[to].request->size > largest->request->size)
                largest = &c->record[to];
        }
        json_array_append_new(
            list, json_pack("{s:I, s:I, s:I, s:I, s:I, s:o}", "step", (json_int_t)largest->step,
                            "request", (json_int_t)largest->request->size, "largest_before",
                            (json_int_t)largest->before, "added", (json_int_t)bytes, "reserved",
                            (json_int_t)c->record[to - 1].reserved, "site",
                            ls_json_text(ls_history_site(c->history, largest->request->site))));
    }
    return list;
}

static bool expandable(const struct ls_history *h) {
    for (size_t i = 0; i < h->segments; i++)
        if (h->segment[i].expandable)
            return true;
    return false;
}

static void describe(struct ls_detect *d, const char *kind, const struct climb *c) {
    struct ls_human a, b, e, g, n;
    const struct ls_history *h = c->history;
    struct ls_finding *f = ls_finding_add(d, kind);
    char *failed = ls_format("%s", "");
    double ratio = c->oom && c->oom_median ? (double)c->oom->requested / (double)c->oom_median : 0;
    double share = (double)c->by_records / (double)(h->capacity > 0 ? h->capacity : d->capacity);
    if (c->oom) {
        free(failed);
        failed = ls_format(
            "; in step %zu a request of %s, %.3g times what its line usually asks for, found no "
            "memory",
            c->oom_step, ls_human_bytes(&a, c->oom->requested), ratio);
    }
    f->site = c->oom ? ls_format("%s", c->oom->site ? c->oom->site : LS_SITE_UNKNOWN)
                     : ls_format("%s", ls_history_site(h, main_site(c)));
    f->severity = c->oom ? LS_PROBLEM : share >= LS_SHARE_PROBLEM ? LS_WARNING : LS_INFO;
    f->count = (int64_t)(c->record_steps + (c->oom != NULL));
    f->bytes = f->gain_bytes = (int64_t)c->by_records;
    f->title = ls_format(
        "the allocator's memory grows with each request that is larger than all before: by %s in %s "
        "steps, to %s, while %s stays live%s",
        ls_human_bytes(&b, (int64_t)c->by_records), ls_human_count(&n, (int64_t)c->record_steps),
        ls_human_bytes(&e, (int64_t)c->reserved), ls_human_bytes(&g, (int64_t)c->live_last),
        failed);
    free(failed);
    json_object_set_new(
        f->evidence, "why",
        json_string(
            "A freed block is used again only for a request that fits into it, so a new "
            "maximum needs new memory from the device, and the old pieces stay. What is live "
            "when steps begin does not grow: nothing leaks."));
    json_object_update_new(f->evidence, json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I}", "device",
                                                  h->device, "steps", (json_int_t)c->steps,
                                                  "by_new_maxima", (json_int_t)c->by_records,
                                                  "by_others", (json_int_t)c->by_others,
                                                  "reserved_peak", (json_int_t)c->reserved,
                                                  "live_at_first_steps", (json_int_t)c->live_first,
                                                  "live_at_last_steps", (json_int_t)c->live_last));
    json_object_set_new(f->evidence, "rows", records_json(c));
    if (c->oom)
        json_object_set_new(f->evidence, "failed",
                            json_pack("{s:I, s:I, s:I, s:I, s:I, s:f}", "oom",
                                      (json_int_t)c->oom->id, "step", (json_int_t)c->oom_step,
                                      "request", (json_int_t)c->oom->requested, "largest_before",
                                      (json_int_t)c->oom_before, "median",
                                      (json_int_t)c->oom_median, "ratio", ratio));
    f->advice = ls_format(
        "Bound the sizes (limit or crop what makes the outlier), or round them up to a few "
        "(buckets, padding), and run the largest once before the first step%s. Emptying the cache "
        "only delays it.",
        expandable(h) ? ""
                      : "; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True lets old pieces grow");
}

static void look(struct ls_detect *d, const char *kind, const struct ls_history *h,
                 const struct ls_oom_events *ooms) {
    struct climb c = {.history = h};
    c.loop = ls_growth_loop(h, &c.steps);
    if (c.steps <= LS_RATCHET_WARM_STEPS + LS_RATCHET_RECORDS)
        return;
    follow(&c);
    note_live(&c);
    note_oom(&c, ooms);
    /* What grows is larger each time, too: one cause, told once. */
    const char *site = c.oom && c.oom->site ? c.oom->site : ls_history_site(h, main_site(&c));
    if (is_ratchet(&c) && !ls_course_told_of(d, "linear-growth", site) &&
        !ls_course_told_of(d, "linear-growth", ls_history_site(h, main_site(&c))))
        describe(d, kind, &c);
    free(c.record);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    int device[256];
    const struct ls_oom_events *ooms = ls_detect_oom_events(d);
    if (!ooms)
        return sqlite3_errcode(d->db);
    size_t devices = ls_detect_devices(d, device, 256);
    for (size_t i = 0; i < devices; i++) {
        const struct ls_history *h = ls_detect_history(d, device[i]);
        if (h && h->framework && h->segments)
            look(d, self->kind, h, ooms);
    }
    return SQLITE_OK;
}

const struct ls_detector ls_detect_ratchet = {"ratchet", run};
