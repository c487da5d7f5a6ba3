/*
 * oom_pins.c - the segments that a few live blocks keep from being given back, and who made those
 * blocks. See oom_facts.h.
 *
 * Main thread only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../json_text.h"
#include "oom_facts.h"
#include "thresholds.h"

static double use_of(const struct ls_piece *p) {
    return (double)(p->live + p->pending) / (double)p->size;
}

static int by_use(const void *a, const void *b) {
    double x = use_of(*(const struct ls_piece *const *)a),
           y = use_of(*(const struct ls_piece *const *)b);
    return x < y ? -1 : x > y;
}

static void take_pin(struct ls_oom_pins *pins, const struct ls_piece *p) {
    if (pins->pieces < sizeof pins->piece / sizeof pins->piece[0])
        pins->piece[pins->pieces++] = p;
    pins->count++;
    pins->size += (int64_t)p->size;
    pins->live += (int64_t)p->live;
    pins->pending += (int64_t)p->pending;
    pins->free += (int64_t)p->free;
    pins->blocks += p->blocks;
}

/* The one that would do alone, and holds the least; NULL: none would. */
static const struct ls_piece *one_pin(const struct ls_oom *oom, const struct ls_piece **piece,
                                      size_t pieces) {
    const struct ls_piece *best = NULL;
    for (size_t i = 0; i < pieces; i++)
        if ((int64_t)piece[i]->size >= oom->missing &&
            (!best || piece[i]->live + piece[i]->pending < best->live + best->pending))
            best = piece[i];
    return best && use_of(best) <= LS_PINNED_USE ? best : NULL;
}

/* Parts of segments that are well used: enough together, but each for itself too small. */
static bool take_parts(const struct ls_oom *oom, const struct ls_piece **piece, size_t pieces,
                       struct ls_oom_pins *pins) {
    memset(pins, 0, sizeof *pins);
    pins->parts = true;
    for (size_t i = 0; i < pieces && pins->free < oom->missing; i++)
        if (ls_oom_same_pool(oom, piece[i]) && piece[i]->free > 0)
            take_pin(pins, piece[i]);
    return pins->count && pins->free >= oom->missing;
}

bool ls_oom_pins(const struct ls_oom *oom, struct ls_oom_pins *pins) {
    size_t pieces = 0;
    memset(pins, 0, sizeof *pins);
    if (!oom->has_state || oom->state.pieces == 0)
        return false;
    const struct ls_piece **piece = calloc(oom->state.pieces, sizeof(const struct ls_piece *));
    if (!piece)
        ls_detect_no_memory();
    for (size_t i = 0; i < oom->state.pieces; i++)
        if (oom->state.piece[i].live + oom->state.piece[i].pending > 0)
            piece[pieces++] = &oom->state.piece[i];
    const struct ls_piece *one = one_pin(oom, piece, pieces);
    if (one) {
        take_pin(pins, one);
    } else if (pieces) {
        qsort(piece, pieces, sizeof(const struct ls_piece *), by_use);
        for (size_t i = 0; i < pieces && pins->size < oom->missing; i++)
            take_pin(pins, piece[i]);
    }
    bool found = pins->count && pins->size >= oom->missing &&
                 (double)(pins->live + pins->pending) <= LS_PINNED_USE * (double)pins->size;
    found = found || take_parts(oom, piece, pieces, pins);
    free(piece);
    return found;
}

/* ---- as evidence ---- */

struct pin_site {
    uint32_t site, blocks;
    int64_t bytes, oldest_ns;
};

static int by_bytes(const void *a, const void *b) {
    const struct pin_site *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->site < y->site ? -1 : x->site > y->site;
}

static bool lies_in(const struct ls_span *span, const struct ls_piece *const *piece,
                    size_t pieces) {
    for (size_t i = 0; i < pieces; i++)
        if (span->address - piece[i]->address < piece[i]->size)
            return true;
    return false;
}

json_t *ls_oom_pin_sites(const struct ls_history *history, int64_t ts_ns,
                         const struct ls_piece *const *piece, size_t pieces, const char **site) {
    uint32_t sites = ls_history_site_count(history);
    struct pin_site *all = calloc(sites, sizeof *all);
    json_t *list = json_array();
    if (!all)
        ls_detect_no_memory();
    for (size_t i = 0; i < history->spans && history->span[i].start_ns <= ts_ns; i++) {
        const struct ls_span *s = &history->span[i];
        if (ts_ns >= s->end_ns || !lies_in(s, piece, pieces))
            continue;
        struct pin_site *of = &all[s->site];
        if (!of->blocks++)
            of->oldest_ns = s->start_ns;
        of->site = s->site;
        of->bytes += (int64_t)s->size;
    }
    qsort(all, sites, sizeof *all, by_bytes);
    if (site)
        *site = all[0].blocks ? ls_history_site(history, all[0].site) : LS_SITE_UNKNOWN;
    for (uint32_t i = 0; i < sites && i < LS_SITES_SHOWN && all[i].blocks; i++)
        json_array_append_new(list, json_pack("{s:o, s:I, s:I, s:I}", "site",
                                              ls_json_text(ls_history_site(history, all[i].site)),
                                              "bytes", (json_int_t)all[i].bytes, "blocks",
                                              (json_int_t)all[i].blocks, "oldest_age_ns",
                                              (json_int_t)(ts_ns - all[i].oldest_ns)));
    free(all);
    return list;
}

json_t *ls_pieces_json(const struct ls_piece *const *piece, size_t pieces) {
    json_t *list = json_array();
    for (size_t i = 0; i < pieces; i++) {
        const struct ls_piece *p = piece[i];
        json_array_append_new(list,
                              json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "address",
                                        (json_int_t)p->address, "size", (json_int_t)p->size, "live",
                                        (json_int_t)p->live, "pending", (json_int_t)p->pending,
                                        "free", (json_int_t)p->free, "hole", (json_int_t)p->hole,
                                        "blocks", (json_int_t)p->blocks));
    }
    return list;
}
