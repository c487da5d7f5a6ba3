/*
 * stranded_remainder.c - `stranded-remainder`: the parts of segments in use that nothing lay in
 * through the whole steady part of the run, and that cannot be given back because of what lies
 * beside them.
 *
 * Needs: blocks, segments and steps. Cost: the bytes. Main thread only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "detect.h"
#include "oom_advice.h"
#include "oom_facts.h"
#include "thresholds.h"
#include "unused.h"

static int by_bytes(const void *a, const void *b) {
    const struct ls_unused_piece *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->piece->address < y->piece->address ? -1 : x->piece->address > y->piece->address;
}

/* The touched ones, those with most to themselves first, into `piece`; returns how many. */
static size_t choose(struct ls_unused *unused, const struct ls_piece **piece, size_t room) {
    size_t count = 0;
    qsort(unused->piece, unused->pieces, sizeof *unused->piece, by_bytes);
    for (size_t i = 0; i < unused->pieces && count < room; i++)
        if (unused->piece[i].touched && unused->piece[i].bytes > 0)
            piece[count++] = unused->piece[i].piece;
    return count;
}

/* The same segments as they were at the end: what came to lie in them during the steps is what
 * keeps them. Segments that are empty then stay as they were. */
static void as_at_the_end(const struct ls_state *end, const struct ls_piece **piece, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < end->pieces; k++)
            if (end->piece[k].segment == piece[i]->segment && end->piece[k].live > 0)
                piece[i] = &end->piece[k];
}

static enum ls_severity severity_of(struct ls_detect *d, const struct ls_history *h,
                                    const struct ls_steady *steady, const struct ls_unused *unused,
                                    int64_t capacity) {
    int rc;
    const struct ls_ooms *ooms = ls_ooms_of(d, &rc);
    if (!ls_unused_is_large(unused, unused->rest, capacity))
        return LS_INFO;
    for (size_t i = 0; ooms && i < ooms->count; i++)
        if (ooms->oom[i].device == h->device && ooms->oom[i].verdict == LS_OOM_FRAGMENTED)
            return LS_INFO; /* `fragmentation` tells it */
    return ls_memory_was_short(h, capacity, steady->from_ns, steady->to_ns) ? LS_PROBLEM
                                                                            : LS_WARNING;
}

static void add(struct ls_detect *d, const struct ls_history *h, struct ls_unused *unused,
                const struct ls_steady *steady, int64_t capacity) {
    const struct ls_piece *piece[LS_ROWS_SHOWN];
    const char *site;
    int rc;
    size_t shown = choose(unused, piece, LS_ROWS_SHOWN);
    struct ls_state end;
    int64_t count = 0;
    struct ls_finding *f = ls_finding_add(d, "stranded-remainder");
    struct ls_human bytes, number, reserved;
    for (size_t i = 0; i < unused->pieces; i++)
        count += unused->piece[i].touched && unused->piece[i].bytes > 0;
    f->severity = severity_of(d, h, steady, unused, capacity);
    ls_state_at(h, steady->to_ns - 1, &end);
    as_at_the_end(&end, piece, shown);
    json_t *sites = ls_oom_pin_sites(h, end.ts_ns, piece, shown, &site);
    f->site = ls_format("%s", site);
    f->count = count;
    f->bytes = f->gain_bytes = (int64_t)unused->rest;
    f->title = ls_format("%s in %s %s lie beside blocks in use and are never used themselves (%s "
                         "reserved in all)",
                         ls_human_bytes(&bytes, f->bytes), ls_human_count(&number, count),
                         ls_plural(count, "segment", "segments"),
                         ls_human_bytes(&reserved, (int64_t)end.reserved));
    json_object_update_new(
        f->evidence,
        json_pack(
            "{s:i, s:I, s:I, s:I, s:I, s:o, s:o, s:s}", "device", h->device, "reserved",
            (json_int_t)end.reserved, "allocated", (json_int_t)end.live, "steady_from_ns",
            (json_int_t)steady->from_ns, "steady_to_ns", (json_int_t)steady->to_ns, "segments",
            ls_pieces_json(piece, shown), "pinned_by", sites, "why",
            "From the third step to the last nothing lay in these parts: what the steps ask "
            "for does not fit there. A segment goes back to the driver whole or not at all, so "
            "emptying the cache does not free them."));
    f->advice = ls_fragmentation_advice(ls_ooms_of(d, &rc),
                                        piece[0]->size > 0 ? (int64_t)piece[0]->size : 0);
    ls_state_free(&end);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    int devices[256];
    size_t count = ls_detect_devices(d, devices, 256);
    (void)self;
    for (size_t i = 0; i < count; i++) {
        const struct ls_history *h = ls_detect_history(d, devices[i]);
        struct ls_unused unused;
        struct ls_steady steady;
        if (!h || !h->framework || !ls_steady_find(h, &steady))
            continue;
        int64_t capacity = h->capacity > 0 ? h->capacity : d->capacity;
        ls_unused_find(h, steady.from_ns, steady.to_ns, &unused);
        if (unused.rest > 0 && ((double)unused.rest >= LS_SHARE_WARNING * (double)capacity ||
                                ls_unused_is_large(&unused, unused.rest, capacity)))
            add(d, h, &unused, &steady, capacity);
        ls_unused_free(&unused);
    }
    return SQLITE_OK;
}

const struct ls_detector ls_detect_stranded_remainder = {"stranded-remainder", run};
