/*
 * idle.c - see idle.h. Main thread only; not for signal handlers.
 */
#include "idle.h"

#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../query.h"
#include "../room.h"
#include "course.h"
#include "owner.h"
#include "thresholds.h"

/* What others have told of the same site's memory, where it cost something. */
static const char *const told_by[] = {
    "leak",         "linear-growth", "storage-held-by-views", "delayed-release",
    "peak-overlap", "pool-miss",     "stream-keyed-growth",   "unused-allocation"};

struct idles {
    struct ls_detect *d;
    const struct ls_detector *self;
    enum ls_idle_part part;
    const struct ls_uses *uses;
    const struct ls_uses_of *of;
    bool direct;
    struct ls_stretch *at;
    size_t count, room;
    bool judged; /* of some memory all uses are known */
    bool large;  /* there was memory that is worth it */
};

/* ---- stretches ---- */

static int64_t end_of(const struct ls_history *h, const struct ls_span *s) {
    return s->end_ns == LS_NEVER ? h->end_ns : s->end_ns;
}

/* What is looked at are blocks of a framework's allocator. */
static bool is_block(const struct idles *all) {
    return all->of->history->framework && !all->direct;
}

/* False: of this part of the life nothing is known. */
static bool stretch_of(struct idles *all, const struct ls_span *span, const struct ls_used *used,
                       struct ls_stretch *s) {
    const struct ls_uses *uses = all->uses;
    int64_t end = end_of(all->of->history, span);
    *s = (struct ls_stretch){.span = span, .used = used, .from_ns = span->start_ns, .to_ns = end};
    if (used->shared)
        return false;
    /* Tensors reach kernels by their own addresses; what a program hands out itself may be found in
     * a table, too. */
    int64_t table_ns = is_block(all) ? LS_NEVER : ls_uses_table_after(uses, span->start_ns);
    if (table_ns < end && all->part != LS_IDLE_EARLY)
        return false;
    if (all->part == LS_IDLE_UNUSED)
        return ls_uses_known_until(uses, span->start_ns, end) == end && end > span->start_ns;
    if (all->part == LS_IDLE_EARLY && used->count > 0 && used->first_ns < table_ns)
        s->to_ns = ls_uses_known_until(uses, span->start_ns, used->first_ns);
    else if (all->part == LS_IDLE_EARLY)
        return false;
    else
        s->from_ns = ls_uses_known_since(uses, used->count ? used->last_ns + 1 : end, end);
    return s->to_ns > s->from_ns;
}

/* The first step that begins at ts_ns or later. */
static size_t step_from(const struct ls_history *h, int64_t ts_ns) {
    size_t low = 0, high = h->steps;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (h->step[middle].start_ns < ts_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool in_step(const struct ls_history *h, int64_t ts_ns) {
    size_t next = step_from(h, ts_ns + 1);
    return next > 0 && ts_ns < h->step[next - 1].end_ns;
}

/* Whole steps, or, where the program was not in a loop at both ends, a good part of the run with
 * work in it: within a step memory comes and goes as layers need it. */
static bool is_long(const struct idles *all, struct ls_stretch *s) {
    const struct ls_history *h = all->of->history;
    for (size_t i = step_from(h, s->from_ns); i < h->steps && h->step[i].end_ns <= s->to_ns; i++)
        s->steps++;
    if (s->steps >= LS_IDLE_STEPS)
        return true;
    if (in_step(h, s->from_ns) && in_step(h, s->to_ns - 1))
        return false;
    return (double)(s->to_ns - s->from_ns) >= LS_IDLE_SHARE * (double)all->d->run_ns &&
           ls_uses_launches(all->uses, s->from_ns, s->to_ns) >= LS_IDLE_LAUNCHES;
}

/* Memory that the program, or a framework's allocator for it, asked for: what libraries have of
 * their own they use by addresses that lie in device memory. */
static bool is_programs(const struct idles *all, const struct ls_span *span) {
    if (is_block(all))
        return true;
    char sql[80];
    snprintf(sql, sizeof sql, "SELECT kind FROM allocation WHERE id = %lld", (long long)span->id);
    int kind = (int)ls_query_int(all->d->db, -1, sql);
    return (kind == LS_MEMORY_DEVICE || kind == LS_MEMORY_ASYNC) && span->stack != 0 &&
           ls_owner_of(all->d->db, span->stack, kind).rule == LS_OWNER_USER;
}

static void look_at(struct idles *all, const struct ls_span *span, const struct ls_used *used) {
    struct ls_stretch s;
    if (span->size < LS_IDLE_BLOCK)
        return;
    all->large = true;
    if (!stretch_of(all, span, used, &s)) {
        all->judged |= all->part != LS_IDLE_UNUSED && used->count > 0;
        return;
    }
    all->judged = true;
    if ((all->part == LS_IDLE_UNUSED && used->count > 0) || !is_long(all, &s) ||
        !is_programs(all, span))
        return;
    all->at = ls_room(all->at, all->count, &all->room, sizeof *all->at);
    all->at[all->count++] = s;
}

/* Of a course, which is a part of the history's spans, in their order. */
static void gather(struct idles *all, const struct ls_course *course) {
    const struct ls_history *h = course->history;
    const struct ls_span *span = course->direct ? h->direct : h->span;
    const struct ls_used *used = course->direct ? all->of->direct : all->of->span;
    size_t count = course->direct ? h->directs : h->spans;
    for (size_t i = 0, k = 0; i < count && k < course->spans; i++)
        if (span[i].id == course->span[k].id) {
            look_at(all, &span[i], &used[i]);
            k++;
        }
}

/* ---- what they cost ---- */

struct change {
    int64_t ts_ns, bytes;
};

static int by_time(const void *a, const void *b) {
    const struct change *x = a, *y = b;
    return x->ts_ns < y->ts_ns ? -1 : x->ts_ns > y->ts_ns;
}

struct changes {
    struct change *at;
    size_t count;
};

static void put(struct changes *all, int64_t from_ns, int64_t to_ns, uint64_t size) {
    if (to_ns <= from_ns)
        return;
    all->at[all->count++] = (struct change){from_ns, (int64_t)size};
    all->at[all->count++] = (struct change){to_ns, -(int64_t)size};
}

static int64_t most_of(struct changes *all, int64_t *most_ns) {
    int64_t sum = 0, most = 0;
    if (all->count)
        qsort(all->at, all->count, sizeof *all->at, by_time);
    for (size_t i = 0; i < all->count;) {
        int64_t now = all->at[i].ts_ns;
        while (i < all->count && all->at[i].ts_ns == now)
            sum += all->at[i++].bytes;
        if (sum <= most)
            continue;
        most = sum;
        if (most_ns)
            *most_ns = now;
    }
    return most;
}

/* All that holds the device's memory, with `idle` taken out of it. Beside a framework's allocator
 * it is what that took from the device, not what it handed out, that memory lies beside. */
static int64_t peak_without(const struct ls_history *h, bool direct, const struct ls_stretch *idle,
                            size_t count, int64_t *peak_ns) {
    const struct ls_span *span = direct ? h->direct : h->span;
    size_t spans = direct ? h->directs : h->spans, segments = direct ? h->segments : 0;
    struct changes all = {.at = ls_new(2 * (spans + segments + count), sizeof(struct change))};
    for (size_t i = 0; i < spans; i++)
        put(&all, span[i].start_ns, span[i].end_ns, span[i].size);
    for (size_t i = 0; i < segments; i++)
        put(&all, h->segment[i].start_ns, h->segment[i].end_ns, h->segment[i].size);
    for (size_t i = 0; i < count; i++)
        put(&all, idle[i].from_ns,
            idle[i].to_ns == end_of(h, idle[i].span) ? idle[i].span->end_ns : idle[i].to_ns,
            -idle[i].span->size);
    int64_t most = most_of(&all, peak_ns);
    free(all.at);
    return most;
}

static int64_t idle_at(const struct ls_stretch *at, size_t count, int64_t ts_ns) {
    int64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        if (at[i].from_ns <= ts_ns && ts_ns < at[i].to_ns)
            bytes += (int64_t)at[i].span->size;
    return bytes;
}

static int64_t most_idle(const struct ls_stretch *at, size_t count) {
    struct changes all = {.at = ls_new(2 * count, sizeof(struct change))};
    for (size_t i = 0; i < count; i++)
        put(&all, at[i].from_ns, at[i].to_ns, at[i].span->size);
    int64_t most = most_of(&all, NULL);
    free(all.at);
    return most;
}

/* The request that found no memory while the most of them lay idle. */
static void find_oom(struct idles *all, struct ls_idle *idle) {
    const struct ls_oom_events *ooms = ls_detect_oom_events(all->d);
    for (size_t i = 0; ooms && i < ooms->count; i++) {
        const struct ls_oom_event *oom = &ooms->oom[i];
        if (oom->device != idle->history->device || oom->recovered)
            continue;
        int64_t bytes = idle_at(idle->at, idle->count, oom->ts_ns);
        if (bytes > idle->oom_bytes) {
            idle->oom = oom;
            idle->oom_bytes = bytes;
        }
    }
}

static bool is_held(const struct idles *all, const struct ls_idle *idle) {
    const struct ls_stretch *s = &idle->at[0];
    return (double)(s->to_ns - s->from_ns) >= LS_IDLE_HELD * (double)all->d->run_ns &&
           ls_share_of_memory(all->d, idle->bytes) >= LS_SHARE_WARNING;
}

/* ---- sites ---- */

static int by_site(const void *a, const void *b) {
    const struct ls_stretch *x = a, *y = b;
    if (x->span->site != y->span->site)
        return x->span->site < y->span->site ? -1 : 1;
    if (x->span->size != y->span->size)
        return x->span->size > y->span->size ? -1 : 1;
    return x->span->id < y->span->id ? -1 : x->span->id > y->span->id;
}

static bool is_told(const struct idles *all, const char *site) {
    for (size_t i = 0; i < sizeof told_by / sizeof *told_by; i++) {
        const struct ls_finding *f = ls_finding_at(all->d, told_by[i], site);
        if (f && f->severity > LS_INFO && strcmp(f->kind, all->self->kind) != 0)
            return true;
    }
    return false;
}

static void weigh(struct idles *all, struct ls_idle *idle,
                  void (*tell)(struct ls_detect *, const struct ls_detector *,
                               const struct ls_idle *)) {
    const struct ls_history *h = idle->history;
    if (is_told(all, ls_history_site(h, idle->at[0].span->site)))
        return;
    idle->bytes = most_idle(idle->at, idle->count);
    if (idle->bytes < LS_IDLE_BYTES)
        return;
    if (idle_at(idle->at, idle->count, idle->peak_ns) >= LS_IDLE_BYTES)
        idle->gain = idle->peak_bytes - peak_without(h, idle->direct, idle->at, idle->count, NULL);
    find_oom(all, idle);
    idle->held = is_held(all, idle);
    if (idle->gain >= LS_IDLE_BYTES || idle->oom_bytes >= LS_IDLE_BYTES || idle->held)
        tell(all->d, all->self, idle);
}

static void each_site(struct idles *all,
                      void (*tell)(struct ls_detect *, const struct ls_detector *,
                                   const struct ls_idle *)) {
    struct ls_idle idle = {.history = all->of->history, .direct = all->direct};
    if (all->count == 0)
        return;
    qsort(all->at, all->count, sizeof *all->at, by_site);
    idle.peak_bytes = peak_without(idle.history, all->direct, NULL, 0, &idle.peak_ns);
    for (size_t i = 0, next; i < all->count; i = next) {
        struct ls_idle one = idle;
        for (next = i; next < all->count && all->at[next].span->site == all->at[i].span->site;)
            next++;
        one.at = &all->at[i];
        one.count = next - i;
        weigh(all, &one, tell);
    }
}

int ls_idle_each(struct ls_detect *d, const struct ls_detector *self, enum ls_idle_part part,
                 void (*tell)(struct ls_detect *, const struct ls_detector *,
                              const struct ls_idle *)) {
    struct idles all = {.d = d, .self = self, .part = part, .uses = ls_detect_uses(d)};
    struct ls_human a, b, c;
    if (!all.uses)
        return sqlite3_errcode(d->db);
    if (all.uses->why_not) {
        ls_detect_skip(d, self->kind, "%s", all.uses->why_not);
        return SQLITE_OK;
    }
    for (size_t i = 0; i < 2 * all.uses->devices; i++) {
        all.of = &all.uses->of[i / 2];
        all.direct = i % 2;
        all.count = 0;
        const struct ls_course *course = ls_course_of(d, all.of->history, all.direct);
        if (course)
            gather(&all, course);
        each_site(&all, tell);
    }
    free(all.at);
    if (all.large && !all.judged)
        ls_detect_skip(d, self->kind,
                       "of no memory all uses are known: %s launches whose arguments could not be "
                       "read, %s launches of graphs, %s calls with arrays of addresses",
                       ls_human_count(&a, all.uses->unread), ls_human_count(&b, all.uses->graphs),
                       ls_human_count(&c, all.uses->arrays));
    return SQLITE_OK;
}
