/*
 * broadcast_materialised.c - `broadcast-materialised`: an expanded tensor was written out, each of
 * its elements many times over.
 *
 * Needs: copy kernels with known source and destination; a stride of 0 in the source is an expand.
 * Cost: the copy's GPU time, and the memory of the copies of the source. Main thread only.
 *
 * What an addition to a product begins with (addmm: the bias, expanded, is the result's first
 * value) is none: that memory is the result, and is needed anyway.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "relayouts.h"
#include "thresholds.h"

static bool wanted(const struct ls_flow *flow, size_t index, const void *with) {
    const struct ls_relayout *r = &flow->relayout[index];
    (void)with;
    return !r->told && r->repeated >= LS_BROADCAST_FACTOR &&
           r->repeated < r->dst->elements && /* else one number fills it: the gradient of a sum */
           ls_relayout_bytes(r) >= LS_BROADCAST_BYTES && !r->reader_adds;
}

/* How often the largest copy has each element of its source. */
static int64_t factor_of(const struct ls_relayouts *g) {
    return g->largest_bytes / g->largest_source;
}

static char *title_of(const struct ls_relayouts *g) {
    struct ls_human bytes, count, once, factor;
    char operand[64], *reader = NULL;
    if (*g->reader)
        reader = ls_format(" for %s%s", g->reader, ls_operand_words(g, operand, sizeof operand));
    char *title =
        ls_format("%s written %s from an expanded tensor%s: %s%s times its %s",
                  ls_human_bytes(&bytes, g->bytes), ls_times_words(&count, g->count),
                  reader ? reader : "", g->count > 1 ? "each time up to " : "",
                  ls_human_count(&factor, factor_of(g)), ls_human_bytes(&once, g->largest_source));
    free(reader);
    return title;
}

static char *advice_of(const struct ls_relayouts *g) {
    const char *product =
        "torch.matmul expands its operands to common batch dimensions, and a batched product reads "
        "each matrix of the batch from an address of its own, at one distance: a batch dimension "
        "that one operand shares must not be in the batch of the call. Let it be rows of the other "
        "operand: torch.einsum with the same subscripts does so, or reshape (N, B, 1, K) to (B, N, "
        "K) and multiply by (B, K, M). Where the shared operand is one matrix without any batch, "
        "F.linear, or flattening the other operand to two dimensions, reads it in place. It does not "
        "help where both operands need the dimension.";
    const char *other =
        "Leave the tensor expanded: elementwise operations, and sums, read it with its stride of 0 "
        "and copy nothing. What asks for one piece is .contiguous(), .reshape() across the expanded "
        "dimension, .repeat(), or an operation without strides.";
    return ls_format("%s", strstr(g->reader, "emm") ? product : other);
}

static void add(struct ls_detect *d, const struct ls_flow *flow, const struct ls_detector *self,
                const struct ls_relayouts *g) {
    struct ls_human written, once, factor;
    int64_t more = g->largest_bytes - g->largest_source;
    if (ls_relayouts_negligible(d, g) && ls_share_of_memory(d, more) < LS_SHARE_WARNING)
        return;
    struct ls_finding *f = ls_relayouts_finding(d, flow, g, self->kind, g->ns);
    f->gain_bytes = more;
    f->severity = ls_relayouts_severity(d, f->gain_ns, more);
    f->title = title_of(g);
    f->advice = advice_of(g);
    char *why = ls_format(
        "The source has a stride of 0: it is one tensor of %s, expanded. The copy reads each "
        "element %s times and writes %s, which the next call reads again: memory and bandwidth "
        "for what was there once.",
        ls_human_bytes(&once, g->largest_source), ls_human_count(&factor, factor_of(g)),
        ls_human_bytes(&written, g->largest_bytes));
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    free(why);
    json_object_set_new(f->evidence, "factor", json_integer(factor_of(g)));
    json_object_set_new(f->evidence, "source_bytes", json_integer(g->largest_source));
    json_object_set_new(f->evidence, "written_bytes", json_integer(g->largest_bytes));
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    const struct ls_flow *flow = ls_detect_flow(d);
    struct ls_relayouts_list list;
    if (!flow)
        return SQLITE_ERROR;
    if (!ls_relayouts_known(d, flow, self->kind))
        return SQLITE_OK;
    int rc = ls_relayouts_read(d, flow, wanted, NULL, &list);
    for (size_t i = 0; rc == SQLITE_OK && i < list.count; i++)
        add(d, flow, self, &list.group[i]);
    ls_relayouts_tell(flow, wanted, NULL, self->kind);
    ls_relayouts_free(&list);
    return rc;
}

const struct ls_detector ls_detect_broadcast_materialised = {"broadcast-materialised", run};
