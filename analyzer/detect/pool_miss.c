/*
 * pool_miss.c - `pool-miss`: a stream of allocations of ever new sizes, where rounded sizes would
 * have been used again.
 *
 * Needs: lifetimes of memory. Cost: host time in the calls; and what a pool of exact sizes holds
 * for nobody. Told by what the same requests would have taken from a pool that rounds sizes up,
 * over their real lifetimes. Three forms: each buffer is made and freed; a pool uses again only
 * what has exactly the size, and gives everything back when the device is full; PyTorch's allocator
 * goes on asking for new segments. Not a leak: what is live stays. Main thread only; not for signal
 * handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../room.h"
#include "../search.h"
#include "course.h"
#include "pool_rounding.h"
#include "thresholds.h"

#define TIMED_MOST 20000 /* calls whose time is looked up; of more it is scaled */

/* Requests of one owner: a pool, or a line of the program. */
struct stream {
    const struct ls_history *history;
    const char *owner; /* of a pool, static; NULL: a line of the program */
    uint32_t site;     /* of a line; of a pool the one with most bytes */
    bool segments;     /* PyTorch's */
    struct ls_request *at;
    size_t count, room;
    /* measured */
    size_t distinct; /* sizes that were wanted */
    size_t misses;   /* requests that a pool of exact sizes would have passed on, and bytes */
    uint64_t missed;
    uint64_t bytes, most, octaves, eighths; /* cumulative, at once, with rounded sizes */
    size_t octave_calls;
    uint64_t records;     /* bytes of requests larger than any before */
    size_t steps;         /* in which requests were made */
    bool kept, estimated; /* kept: a pool that gives back in bursts */
    size_t flushes;
    int64_t time_ns;
    unsigned quarters;
};

/* ---- gathering ---- */

static void add(struct stream *s, struct ls_request request) {
    s->at = ls_room(s->at, s->count, &s->room, sizeof *s->at);
    s->at[s->count++] = request;
}

/* Streams by owner, or by the function that asked: a pool that asks once more after it gave back
 * does so on another line of it. */
struct streams {
    struct stream *at;
    size_t count;
    uint32_t *of_site; /* index plus 1 */
};

static struct stream *stream_of(const struct ls_history *h, struct streams *all, const char *owner,
                                uint32_t site) {
    uint32_t found = owner ? 0 : all->of_site[site];
    for (uint32_t i = 0; !found && i < all->count; i++) {
        const struct stream *s = &all->at[i];
        if (owner ? s->owner == owner
                  : !s->owner &&
                        (s->site == site || ls_course_same_function(ls_history_site(h, s->site),
                                                                    ls_history_site(h, site))))
            found = i + 1;
    }
    if (!found) {
        all->at[all->count++] = (struct stream){.history = h, .owner = owner, .site = site};
        found = (uint32_t)all->count;
    }
    if (!owner)
        all->of_site[site] = found;
    return &all->at[found - 1];
}

/* The step that each request was made in; requests are in order of time. */
static void note_steps(struct stream *s) {
    const struct ls_history *h = s->history;
    size_t step = 0;
    for (size_t i = 0, k = 0; i < s->count; i++) {
        while (k < h->steps && h->step[k].start_ns <= s->at[i].start_ns) {
            k++;
            step++;
        }
        s->at[i].step = step;
        s->steps += step && (i == 0 || step != s->at[i - 1].step);
    }
}

static struct ls_request request_of(const struct ls_span *span) {
    return (struct ls_request){
        span->start_ns, span->end_ns, span->start_call, span->end_call,  span->size,
        span->size,     span->stack,  span->site,       span->free_site, 0};
}

static int by_start(const void *a, const void *b) {
    const struct ls_request *x = a, *y = b;
    return x->start_call < y->start_call ? -1 : x->start_call > y->start_call;
}

/* PyTorch's segments, each with the block that it was made for: the next one. */
static void gather_segments(const struct ls_history *h, struct stream *s) {
    *s = (struct stream){.history = h, .owner = "PyTorch's caching allocator", .segments = true};
    for (size_t i = 0; i < h->segments; i++) {
        const struct ls_segment *g = &h->segment[i];
        if (!g->expandable && g->size > LS_POOL_SMALL)
            add(s, (struct ls_request){g->start_ns, g->end_ns, g->start_call, g->end_call, g->size,
                                       g->size, g->stack, g->site, 0, 0});
    }
    if (s->count)
        qsort(s->at, s->count, sizeof *s->at, by_start);
    for (size_t i = 0, k = 0; i < s->count; i++) {
        while (k < h->spans && h->span[k].start_call < s->at[i].start_call)
            k++;
        if (k < h->spans && h->span[k].size <= s->at[i].size)
            s->at[i].wanted = h->span[k].size;
    }
}

/* ---- measuring ---- */

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Its place among the sizes, which are sorted. */
static size_t number_of(const uint64_t *size, size_t count, uint64_t wanted) {
    return LS_NUMBERS_UP_TO(size, count, (int64_t)wanted - 1);
}

/* Sizes, and what a pool that uses only exactly those again would have passed on. */
static void measure_sizes(struct stream *s, const struct ls_request *const *end) {
    uint64_t *size = ls_new(s->count, sizeof *size);
    uint32_t *waiting = ls_new(s->count, sizeof *waiting);
    for (size_t i = 0; i < s->count; i++)
        size[i] = s->at[i].wanted;
    qsort(size, s->count, sizeof *size, by_number);
    for (size_t i = 0; i < s->count; i++)
        if (i == 0 || size[i] != size[i - 1])
            size[s->distinct++] = size[i];
    for (size_t i = 0, e = 0; i < s->count; i++) {
        while (e < s->count && end[e]->end_ns <= s->at[i].start_ns)
            waiting[number_of(size, s->distinct, end[e++]->wanted)]++;
        uint32_t *fits = &waiting[number_of(size, s->distinct, s->at[i].wanted)];
        s->misses += *fits == 0;
        s->missed += *fits == 0 ? s->at[i].size : 0;
        *fits -= *fits > 0;
    }
    free(size);
    free(waiting);
}

static void measure_sums(struct stream *s, const struct ls_request *const *end) {
    uint64_t live = 0, largest = 0;
    for (size_t i = 0, e = 0; i < s->count; i++) {
        const struct ls_request *r = &s->at[i];
        while (e < s->count && end[e]->end_ns <= r->start_ns)
            live -= end[e++]->size;
        live += r->size;
        s->bytes += r->size;
        if (live > s->most)
            s->most = live;
        if (r->wanted > largest) {
            largest = r->wanted;
            s->records += r->size;
        }
    }
}

/* Ends with no request in between, of several steps' memory or because a request had failed: a pool
 * that gives all of it back. */
static void measure_flushes(struct stream *s, const struct ls_request *const *end,
                            const struct ls_oom_events *ooms) {
    uint64_t flushed = 0, ended = 0;
    for (size_t from = 0, to, begun = 0; from < s->count && end[from]->end_ns != LS_NEVER;
         from = to) {
        uint64_t bytes = 0;
        size_t first = end[from]->step, last = first, pressed = 0;
        while (begun < s->count && s->at[begun].start_ns <= end[from]->end_ns)
            begun++;
        for (to = from; to < s->count && end[to]->end_ns != LS_NEVER &&
                        (begun == s->count || end[to]->end_ns < s->at[begun].start_ns);
             to++) {
            bytes += end[to]->size;
            first = end[to]->step < first ? end[to]->step : first;
            last = end[to]->step > last ? end[to]->step : last;
            pressed += ls_oom_events_hold(ooms, end[to]->end_call);
        }
        ended += bytes;
        if (last >= first + LS_POOL_FLUSH_STEPS || pressed * 2 > to - from) {
            flushed += bytes;
            s->flushes++;
        }
    }
    s->kept = ended && flushed * 2 > ended;
}

static void measure_time(struct stream *s) {
    sqlite3_stmt *stmt;
    int64_t sum = 0, asked = 0, stride = (int64_t)(s->count / TIMED_MOST) + 1;
    if (sqlite3_prepare_v2(s->history->db, "SELECT duration_ns FROM call WHERE id = ?", -1, &stmt,
                           NULL) != SQLITE_OK)
        return;
    for (size_t i = 0; i < s->count; i += (size_t)stride, asked++)
        for (int side = 0; side < 2; side++) {
            sqlite3_bind_int64(stmt, 1, side ? s->at[i].end_call : s->at[i].start_call);
            if (sqlite3_step(stmt) == SQLITE_ROW)
                sum += sqlite3_column_int64(stmt, 0);
            sqlite3_reset(stmt);
        }
    sqlite3_finalize(stmt);
    s->time_ns = asked ? (int64_t)((double)sum / (double)asked * (double)s->count) : 0;
}

/* In quarters of the calls: a short run's time is mostly its start. */
static void measure_quarters(const struct ls_detect *d, struct stream *s) {
    for (size_t i = 0; i < s->count; i++) {
        int64_t at = s->at[i].start_call * 4 / (d->calls + 1);
        s->quarters |= 1u << (at < 0 ? 0 : at > 3 ? 3 : at);
    }
}

/* PyTorch's blocks have real lifetimes; those that are large enough for segments of their own. */
static void round_blocks(struct stream *s) {
    const struct ls_history *h = s->history;
    struct stream blocks = {.history = h};
    size_t calls;
    for (size_t i = 0; i < h->spans; i++)
        if (h->span[i].size > LS_POOL_SMALL / 2)
            add(&blocks, request_of(&h->span[i]));
    const struct ls_request **end = ls_pool_ends(blocks.at, blocks.count);
    s->octaves = ls_pool_rounded(blocks.at, blocks.count, end, false, &s->octave_calls);
    s->eighths = ls_pool_rounded(blocks.at, blocks.count, end, true, &calls);
    free(end);
    free(blocks.at);
}

static void measure(const struct ls_detect *d, struct stream *s, const struct ls_oom_events *ooms) {
    const struct ls_request **end = ls_pool_ends(s->at, s->count);
    size_t calls;
    note_steps(s);
    measure_sizes(s, end);
    measure_sums(s, end);
    measure_flushes(s, end, ooms);
    measure_quarters(d, s);
    if (s->segments) {
        round_blocks(s);
    } else {
        s->octaves = ls_pool_rounded(s->at, s->count, end, false, &s->octave_calls);
        s->eighths = ls_pool_rounded(s->at, s->count, end, true, &calls);
        if (s->kept) {
            s->octaves =
                ls_pool_rounded_by_steps(s->at, s->count, s->steps, false, &s->octave_calls);
            s->eighths = ls_pool_rounded_by_steps(s->at, s->count, s->steps, true, &calls);
            s->estimated = true;
        }
    }
    free(end);
}

static double factor_of(const struct stream *s) {
    uint64_t rounded = s->octaves < s->eighths || !s->eighths ? s->octaves : s->eighths;
    return rounded ? (double)s->bytes / (double)rounded : 0;
}

static bool is_miss(const struct stream *s) {
    return s->misses >= (s->segments ? LS_POOL_SEGMENTS : LS_POOL_CALLS) &&
           (double)s->missed >= LS_POOL_MISSES * (double)s->bytes &&
           (double)s->bytes >= LS_POOL_TURNOVER * (double)s->most &&
           factor_of(s) >= LS_POOL_FACTOR &&
           __builtin_popcount(s->quarters) >= LS_GROWTH_QUARTERS &&
           !(s->segments && s->records * 2 > s->bytes);
}

/* ---- words ---- */

/* The line with most bytes, of a pool's. */
static uint32_t main_site(const struct stream *s) {
    uint64_t *sum = ls_new(ls_history_site_count(s->history), sizeof *sum);
    uint32_t best = s->at[0].site;
    for (size_t i = 0; i < s->count; i++)
        if ((sum[s->at[i].site] += s->at[i].size) > sum[best])
            best = s->at[i].site;
    free(sum);
    return best;
}

static json_t *free_sites(const struct stream *s) {
    json_t *list = json_array();
    for (size_t i = 0; i < s->count && json_array_size(list) < 4; i++) {
        const char *site = ls_history_site(s->history, s->at[i].free_site);
        bool seen = s->at[i].end_ns == LS_NEVER || s->at[i].free_site == 0;
        for (size_t k = 0; k < json_array_size(list); k++)
            seen = seen || strcmp(json_string_value(json_array_get(list, k)), site) == 0;
        if (!seen)
            json_array_append_new(list, ls_json_text(site));
    }
    return list;
}

/* Some of the sizes, evenly over the run. */
static json_t *sizes_json(const struct stream *s) {
    json_t *list = json_array();
    size_t rows = s->count < 8 ? s->count : 8;
    for (size_t i = 0; i < rows; i++) {
        const struct ls_request *r = &s->at[i * (s->count - 1) / (rows > 1 ? rows - 1 : 1)];
        json_array_append_new(list,
                              json_pack("{s:I, s:I, s:I, s:I}", "call", (json_int_t)r->start_call,
                                        "start_ns", (json_int_t)r->start_ns, "size",
                                        (json_int_t)r->size, "wanted", (json_int_t)r->wanted));
    }
    return list;
}

static char *advice_of(const struct ls_detect *d, const struct stream *s) {
    if (s->segments)
        return ls_format(
            "Round the sizes up to a few (pad or bucket what varies), or let the "
            "allocator do it: PYTORCH_CUDA_ALLOC_CONF=roundup_power2_divisions:8. Where "
            "max_split_size_mb is set, raise it: larger free blocks than that are not "
            "used for smaller requests.");
    if (s->owner && d->pytorch && strncmp(s->owner, "PyTorch", 7) == 0)
        return ls_format("Every tensor is a cudaMalloc here: take PYTORCH_NO_CUDA_MEMORY_CACHING "
                         "away, or pad what varies.");
    return ls_format(
        "%s, for example to the next eighth of a power of two, or sort what varies into "
        "a few buckets; or allocate once, for the largest.",
        s->kept ? "Let the pool round sizes up"
                : "Keep freed buffers in a pool that rounds sizes up");
}

static void describe(struct ls_detect *d, const char *kind, struct stream *s) {
    struct ls_human n, a, b, c, t, m;
    measure_time(s);
    struct ls_finding *f = ls_finding_add(d, kind);
    double share = ls_share_of_run(d, s->time_ns);
    double spared = 1 - (double)s->octave_calls / (double)s->count;
    f->site = ls_format("%s", ls_history_site(s->history, main_site(s)));
    f->severity = share >= LS_SHARE_PROBLEM      ? LS_PROBLEM
                  : share >= LS_SHARE_NEGLIGIBLE ? LS_WARNING
                                                 : LS_INFO;
    f->count = (int64_t)s->count;
    f->bytes = (int64_t)s->bytes;
    f->time_ns = s->time_ns;
    f->gain_ns = spared > 0 ? (int64_t)(spared * (double)s->time_ns) : 0;
    uint64_t held = s->kept && s->most > s->octaves ? s->most - s->octaves : 0;
    f->gain_bytes = (int64_t)held;
    f->title = ls_format(
        "%s allocations of %s different sizes, %s in all, where %s were in use at once: with sizes "
        "rounded up %s would have done (%.3gx)",
        ls_human_count(&n, (int64_t)s->count), ls_human_count(&c, (int64_t)s->distinct),
        ls_human_bytes(&a, (int64_t)s->bytes), ls_human_bytes(&m, (int64_t)s->most),
        ls_human_bytes(&b, (int64_t)s->octaves), (double)s->bytes / (double)s->octaves);
    char *why = ls_format(
        "%s, so nearly each request goes to the driver: %s in those calls, and a free waits for the "
        "device. What is live does not grow: no leak.",
        s->segments ? "Its free blocks do not fit the next request"
        : s->kept   ? "It uses again only memory of exactly the wanted size, and gives back all of "
                      "the rest when the device is full"
                    : "Each buffer is freed, and the next one has another size",
        ls_human_ns(&t, s->time_ns));
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    free(why);
    if (s->estimated)
        json_object_set_new(f->evidence, "confidence", json_string("linked"));
    json_object_update_new(
        f->evidence,
        json_pack("{s:i, s:s, s:s, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:f, s:f, s:I}", "device",
                  s->history->device, "owner", s->owner ? s->owner : "the program", "form",
                  s->segments ? "segments"
                  : s->kept   ? "exact pool"
                              : "each freed",
                  "calls", (json_int_t)s->count, "distinct_sizes", (json_int_t)s->distinct,
                  "distinct_share", (double)s->distinct / (double)s->count, "cumulative_bytes",
                  (json_int_t)s->bytes, "peak_bytes", (json_int_t)s->most,
                  "rounded_to_powers_of_two", (json_int_t)s->octaves, "rounded_to_eighths",
                  (json_int_t)s->eighths, "factor", (double)s->bytes / (double)s->octaves,
                  "reuse_with_rounding", spared > 0 ? spared : 0.0, "given_back_times",
                  (json_int_t)s->flushes));
    if (s->segments)
        json_object_set_new(f->evidence, "reuse",
                            json_real(1 - (double)s->count / (double)s->history->spans));
    json_object_set_new(f->evidence, "free_sites", free_sites(s));
    json_object_set_new(f->evidence, "rows", sizes_json(s));
    json_object_set_new(f->evidence, "gain",
                        json_pack("{s:s}", "assumes",
                                  "the calls that rounding to powers of two would have spared"));
    f->advice = advice_of(d, s);
}

static bool grows(struct ls_detect *d, const struct stream *s) {
    return ls_finding_at(d, "linear-growth", ls_history_site(s->history, main_site(s))) != NULL;
}

static void judge(struct ls_detect *d, const char *kind, struct stream *s,
                  const struct ls_oom_events *ooms) {
    if (s->count >= (s->segments ? LS_POOL_SEGMENTS : LS_POOL_CALLS)) {
        measure(d, s, ooms);
        if (is_miss(s) && !grows(d, s))
            describe(d, kind, s);
    }
    free(s->at);
}

static void look(struct ls_detect *d, const char *kind, const struct ls_course *c,
                 const struct ls_oom_events *ooms) {
    const struct ls_history *h = c->history;
    struct streams all = {.at = ls_new(ls_history_site_count(h) + 64, sizeof *all.at)};
    all.of_site = ls_new(ls_history_site_count(h), sizeof *all.of_site);
    uint32_t stacks = 0;
    for (size_t i = 0; i < c->spans; i++)
        stacks = c->span[i].stack > stacks ? c->span[i].stack : stacks;
    struct ls_owner *owner = ls_new((size_t)stacks + 1, sizeof *owner);
    bool *asked = ls_new((size_t)stacks + 1, sizeof *asked);
    for (size_t i = 0; i < c->spans; i++) {
        const struct ls_span *span = &c->span[i];
        struct ls_owner *o = &owner[span->stack];
        if (!asked[span->stack])
            *o = ls_owner_of(h->db, span->stack, LS_MEMORY_DEVICE);
        asked[span->stack] = true;
        if (o->rule == LS_OWNER_LIBRARY)
            continue;
        add(stream_of(h, &all, o->rule == LS_OWNER_POOL ? o->name : NULL, span->site),
            request_of(span));
    }
    for (size_t i = 0; i < all.count; i++)
        judge(d, kind, &all.at[i], ooms);
    free(owner);
    free(asked);
    free(all.of_site);
    free(all.at);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    int device[256];
    const struct ls_oom_events *ooms = ls_detect_oom_events(d);
    if (!ooms)
        return sqlite3_errcode(d->db);
    size_t devices = ls_detect_devices(d, device, 256);
    for (size_t i = 0; i < devices; i++) {
        const struct ls_history *h = ls_detect_history(d, device[i]);
        const struct ls_course *course;
        if (!h)
            continue;
        if (h->framework) {
            struct stream segments;
            gather_segments(h, &segments);
            judge(d, self->kind, &segments, ooms);
        }
        if ((course = ls_course_of(d, h, h->framework)))
            look(d, self->kind, course, ooms);
    }
    return SQLITE_OK;
}

const struct ls_detector ls_detect_pool_miss = {"pool-miss", run};
