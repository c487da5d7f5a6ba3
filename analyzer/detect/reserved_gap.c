/*
 * reserved_gap.c - `reserved-gap`: segments that the allocator kept through the steady part of the
 * run, and that nothing used: what loading, or the first steps, left in the cache.
 *
 * Needs: blocks, segments and steps. Cost: the bytes. What lies beside live blocks in a segment
 * that is in use is `stranded-remainder`. Main thread only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../query.h"
#include "detect.h"
#include "oom_facts.h"
#include "thresholds.h"
#include "unused.h"

enum born { WHILE_LOADING, IN_FIRST_STEPS };

/* Unused segments of one phase, and what lay in them before. */
struct gap {
    enum born born;
    int64_t bytes, segments;
    int64_t copies; /* bytes of blocks that lay in them, for which one of the same size lived on */
    json_t *sites;  /* array of site, bytes, blocks: who used them last */
    const char *site;
};

static bool belongs(const struct ls_unused_piece *u, const struct ls_steady *steady,
                    enum born born) {
    bool early = u->piece->segment->start_ns < steady->first_ns;
    return !u->touched && early == (born == WHILE_LOADING);
}

/* ---- who used them ---- */

struct of_site {
    int64_t bytes, blocks;
};

/* Index of the unused piece that holds an address, or -1; pieces are by address. */
static ptrdiff_t find_piece(const struct ls_unused *unused, uint64_t address) {
    size_t low = 0, high = unused->pieces;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (unused->piece[middle].piece->address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 ||
        address - unused->piece[low - 1].piece->address >= unused->piece[low - 1].piece->size)
        return -1;
    return (ptrdiff_t)low - 1;
}

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Bytes of `left` that have a partner of the same size in `live`; both are sorted here. */
static int64_t matched(uint64_t *left, size_t lefts, uint64_t *live, size_t lives) {
    int64_t bytes = 0;
    qsort(left, lefts, sizeof *left, by_size);
    qsort(live, lives, sizeof *live, by_size);
    for (size_t i = 0, j = 0; i < lefts && j < lives;) {
        if (left[i] == live[j]) {
            bytes += (int64_t)left[i++];
            j++;
        } else if (left[i] < live[j]) {
            i++;
        } else {
            j++;
        }
    }
    return bytes;
}

static void put_sites(const struct ls_history *h, struct of_site *of, struct gap *gap) {
    uint32_t sites = ls_history_site_count(h);
    gap->sites = json_array();
    gap->site = LS_SITE_UNKNOWN;
    for (size_t n = 0; n < LS_SITES_SHOWN; n++) {
        uint32_t top = 0;
        for (uint32_t i = 1; i < sites; i++)
            if (of[i].bytes > of[top].bytes)
                top = i;
        if (of[top].blocks == 0)
            break;
        if (n == 0)
            gap->site = ls_history_site(h, top);
        json_array_append_new(gap->sites, json_pack("{s:o, s:I, s:I}", "site",
                                                    ls_json_text(ls_history_site(h, top)), "bytes",
                                                    (json_int_t)of[top].bytes, "blocks",
                                                    (json_int_t)of[top].blocks));
        of[top] = (struct of_site){0};
    }
}

static void look_back(const struct ls_history *h, const struct ls_unused *unused,
                      const struct ls_steady *steady, struct gap *gap) {
    struct of_site *of = calloc(ls_history_site_count(h), sizeof *of);
    uint64_t *left = calloc(h->spans + 1, sizeof *left), *live = calloc(h->spans + 1, sizeof *live);
    size_t lefts = 0, lives = 0;
    if (!of || !left || !live)
        ls_detect_no_memory();
    for (size_t i = 0; i < h->spans && h->span[i].start_ns <= unused->state.ts_ns; i++) {
        const struct ls_span *s = &h->span[i];
        ptrdiff_t at = find_piece(unused, s->address);
        if (s->end_ns > unused->state.ts_ns) {
            live[lives++] = s->size;
        } else if (at >= 0 && belongs(&unused->piece[at], steady, gap->born) &&
                   s->start_ns >= unused->piece[at].piece->segment->start_ns) {
            of[s->site].bytes += (int64_t)s->size;
            of[s->site].blocks++;
            left[lefts++] = s->size;
        }
    }
    gap->copies = matched(left, lefts, live, lives);
    put_sites(h, of, gap);
    free(of);
    free(left);
    free(live);
}

/* ---- the finding ---- */

static void put_figures(const struct ls_history *h, const struct ls_unused *unused,
                        const struct ls_steady *steady, const struct gap *gap, json_t *evidence) {
    const struct ls_piece *shown[LS_ROWS_SHOWN];
    size_t count = 0;
    for (size_t i = 0; i < unused->pieces && count < LS_ROWS_SHOWN; i++)
        if (belongs(&unused->piece[i], steady, gap->born))
            shown[count++] = unused->piece[i].piece;
    json_object_update_new(
        evidence,
        json_pack("{s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "device",
                  h->device, "phase",
                  gap->born == WHILE_LOADING ? "before the first step" : "first steps", "gap",
                  (json_int_t)gap->bytes, "segments", (json_int_t)gap->segments, "copies_bytes",
                  (json_int_t)gap->copies, "allocated", (json_int_t)unused->state.live, "reserved",
                  (json_int_t)unused->state.reserved, "steady_from_ns", (json_int_t)steady->from_ns,
                  "steady_to_ns", (json_int_t)steady->to_ns, "first_step_ns",
                  (json_int_t)steady->first_ns, "sites", gap->sites, "largest",
                  ls_pieces_json(shown, count)));
}

/* The allocator itself gives such segments back before it fails; others that ask cannot know. */
static bool others_failed(const struct ls_history *h, const struct ls_steady *steady) {
    char *sql = sqlite3_mprintf("SELECT COUNT(*) FROM oom WHERE device = %d AND source = 2 AND "
                                "recovered IS NOT 1 AND ts_ns BETWEEN %lld AND %lld",
                                h->device, (long long)steady->first_ns, (long long)steady->to_ns);
    bool failed = sql && ls_query_int(h->db, 0, sql) > 0;
    sqlite3_free(sql);
    return failed;
}

static void add(struct ls_detect *d, const struct ls_history *h, const struct ls_unused *unused,
                const struct ls_steady *steady, struct gap *gap, int64_t capacity) {
    bool large = ls_unused_is_large(unused, (uint64_t)gap->bytes, capacity);
    struct ls_finding *f = ls_finding_add(d, "reserved-gap");
    struct ls_human bytes, copies, reserved;
    f->severity = !large ? LS_INFO : others_failed(h, steady) ? LS_PROBLEM : LS_WARNING;
    f->site = ls_format("%s", gap->site);
    f->count = gap->segments;
    f->bytes = f->gain_bytes = gap->bytes;
    f->title =
        ls_format("%s stay reserved that %s left and no step ever uses (%s reserved in all)",
                  ls_human_bytes(&bytes, gap->bytes),
                  gap->born == WHILE_LOADING ? "the time before the first step" : "the first steps",
                  ls_human_bytes(&reserved, (int64_t)unused->state.reserved));
    put_figures(h, unused, steady, gap, f->evidence);
    char *copied =
        gap->copies ? ls_format(" %s of what lay there were copies: blocks of the same size live "
                                "on, as of a state that was loaded beside the one that stays.",
                                ls_human_bytes(&copies, gap->copies))
                    : ls_format("%s", "");
    json_object_set_new(
        f->evidence, "why",
        json_sprintf("These segments hold no block from the third step to the last: "
                     "what the steps ask for does not fit, or is cut from others "
                     "first.%s Nobody else can have the memory meanwhile.",
                     copied));
    free(copied);
    f->advice =
        gap->born == WHILE_LOADING
            ? ls_format("Call torch.cuda.empty_cache() once, after loading and before the first "
                        "step; or load on the host (map_location=\"cpu\") and copy into what is "
                        "there, piece by piece, dropping each one.")
            : ls_format("Call torch.cuda.empty_cache() once after the first steps. Not in every "
                        "step: that would cost more than it gives.");
}

static void look_at(struct ls_detect *d, const struct ls_history *h, enum born born) {
    int64_t capacity = h->capacity > 0 ? h->capacity : d->capacity;
    struct gap gap = {.born = born};
    struct ls_unused unused;
    struct ls_steady steady;
    if (!ls_steady_find(h, &steady))
        return;
    ls_unused_find(h, born == WHILE_LOADING ? steady.first_ns : steady.from_ns, steady.to_ns,
                   &unused);
    for (size_t i = 0; i < unused.pieces; i++)
        if (belongs(&unused.piece[i], &steady, born)) {
            gap.bytes += (int64_t)unused.piece[i].bytes;
            gap.segments++;
        }
    if ((double)gap.bytes >= LS_SHARE_WARNING * (double)capacity ||
        ls_unused_is_large(&unused, (uint64_t)gap.bytes, capacity)) {
        look_back(h, &unused, &steady, &gap);
        add(d, h, &unused, &steady, &gap, capacity);
    }
    ls_unused_free(&unused);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    int devices[256];
    size_t count = ls_detect_devices(d, devices, 256);
    (void)self;
    for (size_t i = 0; i < count; i++) {
        const struct ls_history *h = ls_detect_history(d, devices[i]);
        if (h && h->framework) {
            look_at(d, h, WHILE_LOADING);
            look_at(d, h, IN_FIRST_STEPS);
        }
    }
    return SQLITE_OK;
}

const struct ls_detector ls_detect_reserved_gap = {"reserved-gap", run};
