/*
 * cancelling_pair.c - `cancelling-pair`: a tensor was brought into another layout, and from there
 * back into the one that it had.
 *
 * Needs: copy kernels with known source and destination. The second copy's source is the first
 * one's result, whole, and nobody read that between; what the second wrote lies as the first one's
 * source did. Cost: the GPU time of both. Main thread only.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../room.h"
#include "layout_cost.h"
#include "relayouts.h"
#include "thresholds.h"

/* In memory the elements follow each other as they did before both. */
static bool there_and_back(const struct ls_relayout *first, const struct ls_relayout *second) {
    const struct ls_flow_shape *middle = second->src, *end = second->dst;
    int64_t begin[8];
    for (int i = 0; i < middle->dims; i++) {
        begin[i] = middle->size[i] <= 1
                       ? 0
                       : ls_relayout_source_stride(first, middle->stride[i], middle->size[i]);
        if (begin[i] < 0 || (begin[i] == 0 && middle->size[i] > 1))
            return false;
    }
    for (int i = 0; i < middle->dims; i++)
        for (int k = 0; k < middle->dims; k++)
            if (middle->size[i] > 1 && middle->size[k] > 1 &&
                (begin[i] > begin[k]) != (end->stride[i] > end->stride[k]))
                return false;
    return end->dims == middle->dims;
}

static bool wanted(const struct ls_flow *flow, size_t index, const void *with) {
    const struct ls_relayout *second = &flow->relayout[index];
    (void)with;
    if (second->told || second->from == LS_NO_RELAYOUT || !second->turned || second->repeated > 1)
        return false;
    const struct ls_relayout *first = &flow->relayout[second->from];
    return !first->told && first->turned && first->repeated == 1 &&
           first->dst_address == second->src_address &&
           first->dst->elements == second->src->elements &&
           (!first->reader || first->reader > second->call) && !first->touched &&
           ls_source_order(second) == LS_SOURCE_PERMUTED && there_and_back(first, second);
}

/* The pairs of one line of the second copy. */
struct pairs {
    int64_t ns, bytes;
    const struct ls_relayout *first;
    bool one_place; /* all first copies were made by one stack */
};

static struct pairs pairs_of(const struct ls_flow *flow, const struct ls_relayouts *g,
                             const bool *is_pair, sqlite3 *db) {
    struct pairs pairs = {.one_place = true};
    sqlite3_stmt *stmt = NULL;
    int64_t last_stack = -1;
    bool here = false;
    if (sqlite3_prepare_v2(db,
                           "SELECT COALESCE((SELECT site FROM stack_site WHERE id = ?),"
                           " '" LS_SITE_UNKNOWN "')",
                           -1, &stmt, NULL) != SQLITE_OK)
        return pairs;
    for (size_t i = 0; i < flow->count; i++) {
        const struct ls_relayout *second = &flow->relayout[i];
        if (!is_pair[i])
            continue;
        if (second->stack != last_stack) {
            sqlite3_bind_int64(stmt, 1, last_stack = second->stack);
            here = sqlite3_step(stmt) == SQLITE_ROW &&
                   !strcmp((const char *)sqlite3_column_text(stmt, 0), g->site);
            sqlite3_reset(stmt);
        }
        if (!here)
            continue;
        const struct ls_relayout *first = &flow->relayout[second->from];
        pairs.one_place &= !pairs.first || pairs.first->stack == first->stack;
        pairs.first = first;
        pairs.ns += ls_relayout_ns(first);
        pairs.bytes += ls_relayout_bytes(first);
    }
    sqlite3_finalize(stmt);
    return pairs;
}

static void add(struct ls_detect *d, const struct ls_flow *flow, const struct ls_detector *self,
                const struct ls_relayouts *g, const bool *is_pair) {
    struct pairs pairs = pairs_of(flow, g, is_pair, d->db);
    struct ls_relayouts both = *g;
    struct ls_human bytes, count;
    both.ns += pairs.ns;
    both.bytes += pairs.bytes;
    if (!pairs.first || ls_relayouts_negligible(d, &both))
        return;
    char *first_site = ls_site_of(d->db, pairs.first->stack);
    struct ls_finding *f = ls_relayouts_finding(d, flow, &both, self->kind, both.ns);
    f->severity = ls_relayouts_severity(d, both.ns, 0);
    f->title = ls_format("%s copied in %s %s that cancel: into another layout and back",
                         ls_human_bytes(&bytes, both.bytes), ls_human_count(&count, g->count),
                         ls_plural(g->count, "pair of copies", "pairs of copies"));
    f->advice = ls_format(
        "Keep one layout through: leave out both, the copy at %s and the one at this line. If what "
        "lies between was meant to run in the other layout, it did not: nothing read the tensor "
        "there. Where the second copy comes from a .contiguous() or .reshape() that a later call "
        "insists on, drop the first one.",
        first_site);
    char *why = ls_format("The copy at %s put the tensor into another order; this one's source is "
                          "its result, whole, which nobody else read, and puts it back.",
                          first_site);
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    free(why);
    json_object_set_new(f->evidence, "first_site", ls_json_text(first_site));
    json_object_set_new(f->evidence, "first_copy", ls_relayout_json(pairs.first));
    if (!pairs.one_place)
        json_object_set_new(f->evidence, "several_first_sites", json_true());
    free(first_site);
}

static bool is_one(const struct ls_flow *flow, size_t index, const void *with) {
    (void)flow;
    return ((const bool *)with)[index];
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    const struct ls_flow *flow = ls_detect_flow(d);
    struct ls_relayouts_list list;
    if (!flow)
        return SQLITE_ERROR;
    if (!ls_relayouts_known(d, flow, self->kind))
        return SQLITE_OK;
    bool *is_pair = ls_new(flow->count, sizeof *is_pair), *is_part = ls_new(flow->count, 1);
    for (size_t i = 0; i < flow->count; i++)
        /* Of three copies in a row the middle one belongs to one pair. */
        if (wanted(flow, i, NULL) && !is_part[flow->relayout[i].from])
            is_pair[i] = is_part[i] = is_part[flow->relayout[i].from] = true;
    int rc = ls_relayouts_read(d, flow, is_one, is_pair, &list);
    for (size_t i = 0; rc == SQLITE_OK && i < list.count; i++)
        add(d, flow, self, &list.group[i], is_pair);
    ls_relayouts_tell(flow, is_one, is_part, self->kind);
    ls_relayouts_free(&list);
    free(is_pair);
    free(is_part);
    return rc;
}

const struct ls_detector ls_detect_cancelling_pair = {"cancelling-pair", run};
