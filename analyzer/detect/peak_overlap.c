/*
 * peak_overlap.c - `peak-overlap`: the old value of a line is still there while the new one is
 * made, at the moment that decides (the peak, or when memory ran out).
 *
 * Needs: lifetimes. Cost: the old value's bytes at that moment. Told from double buffering (the new
 * one is filled from the host while the old one is in use) and from layers (the new one is made of
 * the old one, within a step). Where a framework took the device in one allocation and hands it out
 * itself, no such thing can be seen: then this says so, for all that looks at blocks. Main thread
 * only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../query.h"
#include "course.h"
#include "frames.h"
#include "thresholds.h"

/* Two values of one line that were there at once. */
struct pair {
    const struct ls_span *old;
    const struct ls_span *new;      /* NULL: it was asked for, and found no memory */
    const struct ls_oom_event *oom; /* or NULL: at the peak */
    uint64_t new_bytes;
    uint64_t live;    /* of all lines then */
    size_t turns;     /* how often the line did so */
    int64_t launches; /* while both were there */
};

/* ---- what happened in a time ---- */

static int64_t count_between(sqlite3 *db, const char *sql, int64_t from, int64_t to,
                             const struct ls_span *span) {
    sqlite3_stmt *stmt;
    int64_t count = 0;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return 0;
    sqlite3_bind_int64(stmt, 1, from);
    sqlite3_bind_int64(stmt, 2, to);
    if (span) {
        sqlite3_bind_int64(stmt, 3, (int64_t)span->address);
        sqlite3_bind_int64(stmt, 4, (int64_t)(span->address + span->size));
    }
    if (sqlite3_step(stmt) == SQLITE_ROW)
        count = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return count;
}

static int64_t launches_between(sqlite3 *db, int64_t from, int64_t to) {
    return count_between(db,
                         "SELECT COUNT(*) FROM call JOIN api ON api.id = call.api WHERE"
                         " api.class IN ('launch', 'graph') AND start_ns >= ?1"
                         " AND start_ns < ?2",
                         from, to, NULL);
}

/* Whether the host filled it: a buffer of a loader or a double buffer. */
static bool from_host(sqlite3 *db, const struct ls_span *s, int64_t until) {
    return count_between(db,
                         "SELECT COUNT(*) FROM copy WHERE direction = 1 AND start_ns >= ?1 AND"
                         " start_ns <= ?2 AND dst >= ?3 AND dst < ?4",
                         s->start_ns, until, s) > 0;
}

/* ---- pairs ---- */

/* Made in an earlier step than the other; within a step it is a layer's input. A step that was told
 * by its calls may begin with the very one that made the old value, and the step that was cut off
 * is none of the table's: so the end of the old value's step counts, too. Without steps nothing is
 * known, and it is taken for that. */
static bool of_earlier_step(const struct ls_history *h, int64_t old_ns, int64_t new_ns) {
    for (size_t i = 0; i < h->steps; i++) {
        const struct ls_history_step *s = &h->step[i];
        if ((s->start_ns > old_ns && s->start_ns <= new_ns) ||
            (s->start_ns <= old_ns && old_ns < s->end_ns && s->end_ns <= new_ns))
            return true;
    }
    return h->steps == 0;
}

/* How often a value of the line outlived the begin of the next one, and was gone before the one
 * after: the pattern of `x = make()`. */
static size_t turns_of(const struct ls_span *const *span, size_t count, uint64_t size) {
    size_t turns = 0;
    const struct ls_span *kept[3] = {0};
    for (size_t i = 0; i < count; i++) {
        if (span[i]->size * 2 < size)
            continue;
        kept[0] = kept[1];
        kept[1] = kept[2];
        kept[2] = span[i];
        if (kept[0] && kept[0]->end_ns > kept[1]->start_ns && kept[0]->end_ns <= kept[2]->start_ns)
            turns++;
    }
    return turns;
}

/* The largest live span of a site at a moment, and how many are about as large. */
static const struct ls_span *largest_at(const struct ls_span *const *span, size_t count,
                                        int64_t ts_ns, size_t *alike) {
    const struct ls_span *best = NULL;
    *alike = 0;
    for (size_t i = 0; i < count && span[i]->start_ns <= ts_ns; i++)
        if (ts_ns < span[i]->end_ns && (!best || span[i]->size > best->size))
            best = span[i];
    for (size_t i = 0; best && i < count && span[i]->start_ns <= ts_ns; i++)
        *alike += ts_ns < span[i]->end_ns && span[i]->size * 2 > best->size;
    return best;
}

static bool already_told(struct ls_detect *d, const char *site) {
    return ls_finding_at(d, "linear-growth", site) || ls_finding_at(d, "delayed-release", site);
}

/* Two live values of one line at the peak. */
static bool at_peak(const struct ls_course *c, struct pair *best) {
    const struct ls_history *h = c->history;
    struct ls_state state;
    uint64_t bytes;
    int64_t peak_ns = ls_peak_live_ns(h, &bytes);
    bool found = false;
    if (peak_ns < 0)
        return false;
    ls_state_at(h, peak_ns, &state);
    for (size_t i = 0; i < state.holders; i++) {
        size_t count, alike;
        if ((double)state.holder[i].bytes < LS_OVERLAP_SHARE * (double)bytes)
            break; /* the others hold even less */
        const struct ls_span **span = ls_course_of_site(c, state.holder[i].site, &count);
        const struct ls_span *largest = largest_at(span, count, peak_ns, &alike), *pair[2] = {0};
        for (size_t k = 0; alike == 2 && k < count; k++)
            if (span[k]->start_ns <= peak_ns && peak_ns < span[k]->end_ns &&
                span[k]->size * 2 > largest->size)
                pair[pair[0] != NULL] = span[k];
        if (pair[1] && pair[0]->end_ns != LS_NEVER &&
            of_earlier_step(h, pair[0]->start_ns, pair[1]->start_ns) &&
            (!found || pair[0]->size > best->old->size)) {
            size_t turns = turns_of(span, count, largest->size);
            if (turns >= LS_OVERLAP_TURNS) {
                *best = (struct pair){
                    .old = pair[0], .new = pair[1], .new_bytes = pair[1]->size, .live = bytes};
                best->turns = turns;
                found = true;
            }
        }
        free(span);
    }
    ls_state_free(&state);
    return found;
}

/* By the same calls, line by line; the same stack where there is no Python. (What a framework does
 * inside of a call differs with the state of its allocator.) */
static bool same_way(sqlite3 *db, uint32_t x, uint32_t y) {
    if (x == y)
        return x != 0;
    struct ls_frame_cache *cache = ls_frame_cache_new(db);
    const struct ls_frames *a = ls_frames_of(cache, x), *b = ls_frames_of(cache, y);
    bool same = a->count && a->count == b->count && ls_frames_common(a, b) == a->count;
    ls_frame_cache_free(cache);
    return same;
}

/* A request of a line that failed while the last value of the same line was there. */
static bool at_oom(const struct ls_course *c, const struct ls_oom_events *ooms, struct pair *pair) {
    const struct ls_history *h = c->history;
    const struct ls_oom_event *oom = ls_course_oom(ooms, h->device, 0);
    size_t count, alike;
    uint32_t site = 0;
    if (!oom || !oom->site || oom->requested <= 0)
        return false;
    while (site < ls_history_site_count(h) && strcmp(ls_history_site(h, site), oom->site) != 0)
        site++;
    if (site == ls_history_site_count(h) || site == 0)
        return false;
    const struct ls_span **span = ls_course_of_site(c, site, &count);
    const struct ls_span *old = largest_at(span, count, oom->ts_ns, &alike);
    bool fits = old && alike == 1 && old->size * 2 > (uint64_t)oom->requested &&
                of_earlier_step(h, old->start_ns, oom->ts_ns);
    size_t turns = fits ? turns_of(span, count, old->size) + 1 : 0;
    /* A line may ask for two things, and each only once. The same way to it twice is a second turn;
     * where there are no steps, only that or one turn before tells `x = make()`. */
    if (fits && h->steps == 0 && turns < 2 && !same_way(h->db, old->stack, oom->stack))
        fits = false;
    if (fits) {
        *pair = (struct pair){.old = old, .oom = oom, .new_bytes = (uint64_t)oom->requested};
        pair->turns = turns;
        struct ls_state state;
        ls_state_at(h, oom->ts_ns, &state);
        pair->live = state.live;
        ls_state_free(&state);
    }
    free(span);
    return fits;
}

/* ---- words ---- */

static bool enough_if_freed(const struct ls_history *h, const struct pair *p) {
    const struct ls_oom_event *oom = p->oom;
    if (p->old->size >= (uint64_t)oom->requested)
        return true;
    int64_t free_bytes = oom->device_free >= 0 ? oom->device_free
                         : h->capacity > 0     ? h->capacity - (int64_t)p->live
                                               : 0;
    return (int64_t)p->old->size + free_bytes >= oom->requested;
}

static void describe(struct ls_detect *d, const char *kind, const struct ls_history *h,
                     const struct pair *p) {
    struct ls_human a, b, c;
    int64_t capacity = h->capacity > 0 ? h->capacity : d->capacity;
    bool enough = p->oom && enough_if_freed(h, p);
    struct ls_finding *f = ls_finding_add(d, kind);
    f->site = ls_format("%s", ls_history_site(h, p->old->site));
    f->count = (int64_t)p->turns;
    f->bytes = f->gain_bytes = (int64_t)p->old->size;
    f->severity = enough                                                        ? LS_PROBLEM
                  : (double)p->old->size >= LS_SHARE_PROBLEM * (double)capacity ? LS_WARNING
                                                                                : LS_INFO;
    f->title =
        p->oom ? ls_format("the old value, %s, was still there when the same line asked for %s%s",
                           ls_human_bytes(&a, (int64_t)p->old->size),
                           ls_human_bytes(&b, (int64_t)p->new_bytes),
                           enough ? ", and found no memory: without it there was enough"
                                  : ", and found no memory")
               : ls_format("the old value of a line, %s, is still there while the new one is made: "
                           "both are part of the peak of %s, in each of %s turns",
                           ls_human_bytes(&a, (int64_t)p->old->size),
                           ls_human_bytes(&b, (int64_t)p->live),
                           ls_human_count(&c, (int64_t)p->turns));
    json_object_set_new(f->evidence, "confidence", json_string("linked"));
    json_object_set_new(
        f->evidence, "why",
        json_string("In `x = make()` the name x keeps its old value until make() has returned, so "
                    "the memory of both is needed at once. It is real use, not fragmentation."));
    json_object_update_new(f->evidence,
                           json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I}", "device", h->device,
                                     "overlap", (json_int_t)p->old->size, "new_bytes",
                                     (json_int_t)p->new_bytes, "live", (json_int_t)p->live,
                                     "old_since_ns", (json_int_t)p->old->start_ns, "at_ns",
                                     (json_int_t)(p->oom ? p->oom->ts_ns : p->new->start_ns),
                                     "turns", (json_int_t)p->turns));
    json_t *rows = json_array();
    json_array_append_new(rows,
                          json_pack("{s:s, s:I, s:I}", "value", "old", "id", (json_int_t)p->old->id,
                                    "size", (json_int_t)p->old->size));
    if (p->new)
        json_array_append_new(rows,
                              json_pack("{s:s, s:I, s:I}", "value", "new", "id",
                                        (json_int_t)p->new->id, "size", (json_int_t)p->new->size));
    json_object_set_new(f->evidence, "rows", rows);
    if (p->oom)
        json_object_update_new(f->evidence, json_pack("{s:I, s:b}", "oom", (json_int_t)p->oom->id,
                                                      "enough_without_it", enough));
    json_object_set_new(
        f->evidence, "gain",
        json_pack("{s:s}", "assumes", "that the new value is not made from the old one"));
    f->advice = ls_format(
        "%s before the new one is made, unless it is made from the old one; then reuse the memory "
        "(an out= or in-place form).",
        d->pytorch ? "`del` the name (or set it to None)" : "Free the old one");
}

/* Worth a line at all: a good part of what was live then. */
static bool worth(const struct pair *p) {
    return p->old->size >= LS_LINEAR_BYTES &&
           (double)p->old->size >= LS_OVERLAP_SHARE * (double)(p->live ? p->live : 1);
}

/* At the peak: what the program does meanwhile tells a value that nobody needs any more from one
 * that is still worked on. */
static bool idle(const struct ls_history *h, struct pair *p) {
    if (from_host(h->db, p->new, p->old->end_ns))
        return false;
    p->launches = launches_between(h->db, p->new->start_ns, p->old->end_ns);
    int64_t turn = launches_between(h->db, p->old->start_ns, p->new->start_ns);
    return p->launches <= LS_OVERLAP_LAUNCHES ||
           (double)p->launches <= LS_OVERLAP_LAUNCH_SHARE * (double)turn;
}

static void look(struct ls_detect *d, const char *kind, const struct ls_course *c,
                 const struct ls_oom_events *ooms) {
    struct pair pair;
    const struct ls_history *h = c->history;
    if (at_oom(c, ooms, &pair) && worth(&pair) && !from_host(h->db, pair.old, pair.oom->ts_ns)) {
        if (!already_told(d, ls_history_site(h, pair.old->site)))
            describe(d, kind, h, &pair);
        return;
    }
    if (at_peak(c, &pair) && worth(&pair) && idle(h, &pair) &&
        !already_told(d, ls_history_site(h, pair.old->site)))
        describe(d, kind, h, &pair);
}

/* ---- what cannot be seen ---- */

/* One allocation of most of the device, and next to nothing beside it: whoever made it hands it out
 * by itself, and nobody tells how. */
static bool one_pool(struct ls_detect *d, const struct ls_history *h) {
    static const char *const blind[] = {
        "peak-overlap",  "fragmentation",   "reserved-gap", "stranded-remainder",
        "linear-growth", "delayed-release", "ratchet",      "pool-miss"};
    struct ls_human a, b;
    const struct ls_span *largest = NULL;
    uint64_t most;
    if (h->framework || h->capacity <= 0 || ls_peak_live_ns(h, &most) < 0)
        return false;
    for (size_t i = 0; i < h->spans; i++)
        if (!largest || h->span[i].size > largest->size)
            largest = &h->span[i];
    if ((double)largest->size < LS_ONE_POOL_DEVICE * (double)h->capacity ||
        (double)largest->size < LS_ONE_POOL_LIVE * (double)most)
        return false;
    struct ls_owner owner = ls_owner_of(h->db, largest->stack, LS_MEMORY_DEVICE);
    for (size_t i = 0; i < sizeof blind / sizeof *blind; i++)
        ls_detect_skip(
            d, blind[i],
            "one allocation of %s, %s of the device, by %s%s%s: pooled inside one segment: "
            "block-level truth not visible without the framework's hook",
            ls_human_bytes(&a, (int64_t)largest->size),
            ls_human_share(&b, (double)largest->size / (double)h->capacity),
            owner.name ? owner.name : "the program", " at ", ls_history_site(h, largest->site));
    return true;
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    int device[256];
    const struct ls_oom_events *ooms = ls_detect_oom_events(d);
    if (!ooms)
        return sqlite3_errcode(d->db);
    size_t devices = ls_detect_devices(d, device, 256);
    for (size_t i = 0; i < devices; i++) {
        const struct ls_history *h = ls_detect_history(d, device[i]);
        const struct ls_course *course = h && !one_pool(d, h) ? ls_course_of(d, h, false) : NULL;
        if (course)
            look(d, self->kind, course, ooms);
    }
    return SQLITE_OK;
}

const struct ls_detector ls_detect_peak_overlap = {"peak-overlap", run};
