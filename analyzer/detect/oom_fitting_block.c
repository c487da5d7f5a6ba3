/*
 * oom_fitting_block.c - `oom-fitting-block`: the allocator gave up though a block that fits had
 * become free inside the failing call.
 *
 * Needs: the ooms, and the blocks that waited for other streams. Main thread only; not for signal
 * handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "detect.h"
#include "oom_facts.h"
#include "oom_pool.h"
#include "thresholds.h"

/* The largest block in the piece that stopped waiting inside the call. */
static const struct ls_span *came_free(const struct ls_oom *o, const struct ls_piece *piece) {
    const struct ls_span *best = NULL;
    for (size_t i = 0; i < o->history->spans; i++) {
        const struct ls_span *s = &o->history->span[i];
        if (s->start_ns > o->ts_ns)
            break;
        if (s->free_ns > s->end_ns && s->free_ns > o->begin_ns && s->free_ns <= o->ts_ns &&
            s->end_ns <= o->begin_ns && s->address - piece->address < piece->size &&
            (!best || s->size > best->size))
            best = s;
    }
    return best;
}

static void put_evidence(const struct ls_oom *o, const struct ls_piece *piece,
                         const struct ls_span *block, json_t *evidence) {
    const char *given_back = block ? ls_history_site(o->history, block->free_site) : NULL;
    json_object_update_new(evidence,
                           json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o}", "confidence", "linked",
                                     "oom", (json_int_t)o->id, "requested",
                                     (json_int_t)o->requested, "largest_hole", (json_int_t)o->hole,
                                     "largest_hole_before", (json_int_t)o->hole_before, "device",
                                     (json_int_t)o->device, "segments", ls_pieces_json(&piece, 1)));
    if (block)
        json_object_set_new(evidence, "block",
                            json_pack("{s:I, s:I, s:I, s:I, s:o, s:o}", "id", (json_int_t)block->id,
                                      "size", (json_int_t)block->size, "given_back_ns",
                                      (json_int_t)block->end_ns, "free_ns",
                                      (json_int_t)block->free_ns, "site",
                                      ls_json_text(ls_history_site(o->history, block->site)),
                                      "free_site", ls_json_text(given_back)));
    json_object_set_new(
        evidence, "why",
        json_string("The request failed, the allocator waited for the other stream, the block "
                    "became free, and the allocator asked the driver again without looking into "
                    "its own pool. There was no shortage, and the memory was not in pieces. That "
                    "the piece belongs to the request's stream is told from what ran on it."));
}

static void add(struct ls_detect *d, const struct ls_oom *o) {
    const struct ls_piece *piece = ls_oom_fitting_piece(o);
    struct ls_finding *f = ls_finding_at(d, "oom-fitting-block", o->site);
    struct ls_human asked, hole, waited;
    if (f) {
        f->count++;
        return;
    }
    const struct ls_span *block = came_free(o, piece);
    f = ls_finding_add(d, "oom-fitting-block");
    f->severity = LS_PROBLEM;
    f->site = ls_format("%s", o->site);
    f->count = 1;
    f->bytes = o->hole;
    f->gain_bytes = o->requested;
    f->title =
        ls_format("The allocator gave up on %s though a free piece of %s fitted: a block that "
                  "another stream had used became free inside the failing call",
                  ls_human_bytes(&asked, o->requested), ls_human_bytes(&hole, o->hole));
    if (block)
        f->time_ns = o->ts_ns - o->begin_ns;
    put_evidence(o, piece, block, f->evidence);
    f->advice = ls_format("A defect of the allocator (pytorch issue 189504): asking once more "
                          "succeeds, the piece is in its pool now. To avoid it, wait for the other "
                          "stream before the large request%s%s. Neither a split limit nor a "
                          "smaller batch is called for.",
                          block ? "; it kept the block for " : "",
                          block ? ls_human_ns(&waited, block->free_ns - block->end_ns) : "");
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    int rc;
    const struct ls_ooms *all = ls_ooms_of(d, &rc);
    (void)self;
    for (size_t i = 0; all && i < all->count; i++)
        if (all->oom[i].verdict == LS_OOM_FITTING)
            add(d, &all->oom[i]);
    return rc;
}

const struct ls_detector ls_detect_oom_fitting_block = {"oom-fitting-block", run};
