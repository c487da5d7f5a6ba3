/*
 * oom_remains.c - what failed steps left behind. See oom_remains.h.
 *
 * Which blocks: those made below the call that failed, told by the stacks. The oom's stack and that
 * of what the program did next share the frames down to the one that caught the exception; what
 * that had called is gone, and so should be what it made. Where a census was taken, it has the last
 * word. Main thread only; not for signal handlers.
 */
#include "oom_remains.h"

#include <stdlib.h>
#include <string.h>

#include "../json_text.h"
#include "frames.h"
#include "oom_census.h"
#include "thresholds.h"

/* One search: what an oom's step made and left. */
struct search {
    struct ls_frame_cache *cache;
    const struct ls_oom *oom;
    const struct ls_frames *frames; /* of the oom */
    size_t catcher;                 /* index of the frame that caught it, where `below` */
    bool below;                     /* that frame is known, and called something */
    int8_t *made_below;             /* by stack: 0 not looked at, 1 yes, -1 no */
    uint32_t stacks;
    int64_t begin_ns; /* of the failed call: what was made before belongs to earlier ones */
    int64_t retry_ns;
    struct ls_oom_census *census;
    const struct ls_span **span; /* what is left */
    size_t spans;
};

/* ---- the retry ---- */

static const struct ls_frames *related(const struct search *s, uint32_t stack) {
    const struct ls_frames *f = ls_frames_of(s->cache, stack);
    return f->count && ls_frame_same_function(&f->at[0], &s->frames->at[0]) ? f : NULL;
}

/* The first thing that the program did with this memory after the oom: made a block, or failed. */
static const struct ls_frames *find_retry(struct search *s, const struct ls_ooms *all) {
    const struct ls_history *h = s->oom->history;
    const struct ls_frames *found = NULL, *f;
    s->retry_ns = LS_NEVER;
    for (size_t i = 0; i < h->spans && !found; i++)
        if (h->span[i].start_ns > s->oom->ts_ns && (f = related(s, h->span[i].stack))) {
            s->retry_ns = h->span[i].start_ns;
            found = f;
        }
    for (size_t i = 0; i < all->count; i++) {
        const struct ls_oom *o = &all->oom[i];
        if (o->device == s->oom->device && o->ts_ns > s->oom->ts_ns && o->begin_ns < s->retry_ns &&
            (f = related(s, o->stack))) {
            s->retry_ns = o->begin_ns;
            found = f;
        }
    }
    return found;
}

static void find_catcher(struct search *s, const struct ls_frames *retry) {
    size_t common = ls_frames_common(s->frames, retry);
    if (common < s->frames->count && common < retry->count &&
        ls_frame_same_function(&s->frames->at[common], &retry->at[common]))
        s->catcher = common; /* another line of the same call */
    else if (common > 0)
        s->catcher = common - 1; /* the same line: a loop */
    else
        return;
    if (s->catcher + 1 == s->frames->count && s->catcher > 0)
        s->catcher--; /* the innermost called nothing: it may have been called anew */
    s->below = s->catcher + 1 < s->frames->count;
}

/* ---- what was made below the failed call ---- */

static bool made_below(struct search *s, uint32_t stack) {
    if (stack >= s->stacks)
        return false;
    if (s->made_below[stack] == 0) {
        const struct ls_frames *f = ls_frames_of(s->cache, stack);
        bool yes = f->count > s->catcher + 1 && ls_frames_common(s->frames, f) > s->catcher &&
                   ls_frame_same_function(&f->at[s->catcher + 1], &s->frames->at[s->catcher + 1]);
        s->made_below[stack] = yes ? 1 : -1;
    }
    return s->made_below[stack] > 0;
}

struct change {
    int64_t ts_ns, bytes;
};

static int by_time(const void *a, const void *b) {
    const struct change *x = a, *y = b;
    if (x->ts_ns != y->ts_ns)
        return x->ts_ns < y->ts_ns ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Earlier calls of the same line ended with most of their memory given back: the failed one began
 * at the last such low. */
static int64_t last_low(const struct change *change, size_t count) {
    int64_t live = 0, low = 0, high = 0, low_ns = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        live += change[i].bytes;
        if (live > high)
            high = live;
        if (high - live >= (int64_t)(LS_STEP_FALL * (double)(high - low)) && high > low) {
            low = high = live;
            low_ns = change[i].ts_ns;
        } else if (live < low) {
            low = high = live;
            low_ns = change[i].ts_ns;
        }
    }
    return low_ns;
}

static void find_begin(struct search *s) {
    const struct ls_history *h = s->oom->history;
    struct change *change = calloc(2 * h->spans + 1, sizeof *change);
    size_t count = 0;
    if (!change)
        ls_detect_no_memory();
    for (size_t i = 0; i < h->spans && h->span[i].start_ns <= s->oom->ts_ns; i++) {
        const struct ls_span *span = &h->span[i];
        if (!made_below(s, span->stack))
            continue;
        change[count++] = (struct change){span->start_ns, (int64_t)span->size};
        if (span->end_ns < s->oom->begin_ns)
            change[count++] = (struct change){span->end_ns, -(int64_t)span->size};
    }
    qsort(change, count, sizeof *change, by_time);
    s->begin_ns = last_low(change, count);
    free(change);
}

/* ---- what is left ---- */

static bool is_left(struct search *s, const struct ls_span *span) {
    if (span->start_ns > s->oom->ts_ns || span->end_ns <= s->retry_ns)
        return false;
    enum ls_oom_held held = ls_oom_census_held(s->census, span->address);
    if (held == LS_OOM_HELD_EXCEPTION)
        return true;
    return held == LS_OOM_HELD_UNKNOWN && s->below && span->start_ns > s->begin_ns &&
           made_below(s, span->stack);
}

static void find_left(struct search *s) {
    const struct ls_history *h = s->oom->history;
    s->span = calloc(h->spans, sizeof(const struct ls_span *));
    if (!s->span)
        ls_detect_no_memory();
    for (size_t i = 0; i < h->spans && h->span[i].start_ns <= s->oom->ts_ns; i++)
        if (is_left(s, &h->span[i]))
            s->span[s->spans++] = &h->span[i];
}

static int64_t left_at(const struct search *s, int64_t ts_ns) {
    int64_t bytes = 0;
    for (size_t i = 0; i < s->spans; i++)
        if (s->span[i]->end_ns > ts_ns)
            bytes += (int64_t)s->span[i]->size;
    return bytes;
}

static int64_t proven(const struct search *s) {
    int64_t bytes = 0;
    for (size_t i = 0; i < s->spans; i++)
        if (ls_oom_census_held(s->census, s->span[i]->address) == LS_OOM_HELD_EXCEPTION)
            bytes += (int64_t)s->span[i]->size;
    return s->census ? bytes : -1;
}

/* The deepest frame of the oom's stack that all of them have, too. */
static size_t deepest_common(struct search *s) {
    size_t common = s->frames->count - 1;
    for (size_t i = 0; i < s->spans; i++) {
        const struct ls_frames *f = ls_frames_of(s->cache, s->span[i]->stack);
        size_t same = ls_frames_common(s->frames, f);
        if (f->count && same < common) /* of a free-standing thread nothing is known */
            common = same;
    }
    return common;
}

static json_t *holders_of(const struct search *s) {
    const struct ls_history *h = s->oom->history;
    json_t *list = json_array();
    uint32_t sites = ls_history_site_count(h);
    int64_t *bytes = calloc(2 * (size_t)sites, sizeof *bytes);
    if (!bytes)
        ls_detect_no_memory();
    for (size_t i = 0; i < s->spans; i++) {
        bytes[2 * s->span[i]->site] += (int64_t)s->span[i]->size;
        bytes[2 * s->span[i]->site + 1]++;
    }
    for (size_t n = 0; n < LS_SITES_SHOWN; n++) {
        uint32_t top = 0;
        for (uint32_t i = 1; i < sites; i++)
            if (bytes[2 * i] > bytes[2 * top])
                top = i;
        if (bytes[2 * top] == 0)
            break;
        json_array_append_new(list, json_pack("{s:o, s:I, s:I}", "site",
                                              ls_json_text(ls_history_site(h, top)), "bytes",
                                              (json_int_t)bytes[2 * top], "blocks",
                                              (json_int_t)bytes[2 * top + 1]));
        bytes[2 * top] = 0;
    }
    free(bytes);
    return list;
}

/* ---- what came of it ---- */

static void note_later(const struct search *s, struct ls_ooms *all, struct ls_oom_left *left) {
    for (size_t i = 0; i < all->count; i++) {
        struct ls_oom *o = &all->oom[i];
        if (o->device != s->oom->device || o->ts_ns <= s->oom->ts_ns || o->cause)
            continue;
        int64_t bytes = left_at(s, o->ts_ns);
        bool consequence = bytes > 0 && bytes >= o->missing;
        if (consequence) {
            o->cause = s->oom;
            left->consequences++;
        }
        if (json_array_size(left->later) < LS_ROWS_SHOWN)
            json_array_append_new(
                left->later, json_pack("{s:I, s:I, s:I, s:o, s:I, s:b}", "oom", (json_int_t)o->id,
                                       "ts_ns", (json_int_t)o->ts_ns, "requested",
                                       (json_int_t)o->requested, "site", ls_json_text(o->site),
                                       "outlived", (json_int_t)bytes, "consequence", consequence));
    }
}

static void measure(struct search *s, struct ls_oom_left *left) {
    const struct ls_history *h = s->oom->history;
    for (size_t i = 0; i < s->spans; i++) {
        left->bytes += (int64_t)s->span[i]->size;
        left->blocks++;
        if (s->span[i]->end_ns > left->until_ns)
            left->until_ns = s->span[i]->end_ns;
    }
    for (size_t i = 0; i < h->spans; i++)
        if (h->span[i].start_ns >= s->retry_ns && h->span[i].start_ns < left->until_ns)
            left->made_after += (int64_t)h->span[i].size;
    left->retry_ns = s->retry_ns;
    left->proven = proven(s);
}

static void name_frames(struct search *s, struct ls_oom_left *left) {
    size_t at = s->below ? s->catcher + 1 : deepest_common(s);
    if (left->proven > 0 && s->below && deepest_common(s) < at)
        at = deepest_common(s);
    left->below = ls_frame_text(&s->frames->at[at]);
    left->site = at > 0 ? ls_frame_text(&s->frames->at[at - 1]) : ls_format("%s", s->oom->site);
    left->holders = holders_of(s);
}

static bool matters(const struct ls_detect *d, const struct ls_oom_left *left) {
    if (left->bytes == 0 || left->proven == 0)
        return false;
    return left->consequences > 0 ||
           (ls_share_of_memory(d, left->bytes) >= LS_SHARE_WARNING &&
            (double)left->made_after >= LS_RETRY_SHARE * (double)left->bytes);
}

static void free_left(struct ls_oom_left *left) {
    free(left->below);
    free(left->site);
    json_decref(left->holders);
    json_decref(left->later);
}

static void look_at(struct ls_detect *d, struct ls_ooms *all, const struct ls_oom *oom,
                    struct ls_frame_cache *cache, struct ls_oom_remains *remains) {
    struct search s = {.cache = cache, .oom = oom, .frames = ls_frames_of(cache, oom->stack)};
    struct ls_oom_left left = {.first = oom,
                               .backward = s.frames->count && s.frames->at[0].forward};
    const struct ls_frames *retry = s.frames->count ? find_retry(&s, all) : NULL;
    if (!retry)
        return;
    find_catcher(&s, retry);
    for (size_t i = 0; i < oom->history->spans; i++)
        if (oom->history->span[i].stack >= s.stacks)
            s.stacks = oom->history->span[i].stack + 1;
    s.made_below = calloc(s.stacks, 1);
    if (!s.made_below)
        ls_detect_no_memory();
    if (s.below)
        find_begin(&s);
    s.census = ls_oom_census_load(d->db, oom);
    find_left(&s);
    left.later = json_array();
    if (s.spans) {
        measure(&s, &left);
        if (left.proven != 0)
            note_later(&s, all, &left);
        name_frames(&s, &left);
    }
    if (matters(d, &left)) {
        remains->left = realloc(remains->left, (remains->count + 1) * sizeof left);
        if (!remains->left)
            ls_detect_no_memory();
        remains->left[remains->count++] = left;
    } else {
        free_left(&left);
    }
    ls_oom_census_free(s.census);
    free(s.made_below);
    free(s.span);
}

struct ls_oom_remains *ls_oom_remains_find(struct ls_detect *d, struct ls_ooms *all) {
    struct ls_oom_remains *remains = calloc(1, sizeof *remains);
    struct ls_frame_cache *cache = ls_frame_cache_new(d->db);
    if (!remains)
        ls_detect_no_memory();
    for (size_t i = 0; i < all->count; i++)
        if (all->oom[i].reported && all->oom[i].has_state && !all->oom[i].cause)
            look_at(d, all, &all->oom[i], cache, remains);
    ls_frame_cache_free(cache);
    return remains;
}

void ls_oom_remains_free(struct ls_oom_remains *remains) {
    if (!remains)
        return;
    for (size_t i = 0; i < remains->count; i++)
        free_left(&remains->left[i]);
    free(remains->left);
    free(remains);
}
