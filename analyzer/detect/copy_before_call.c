/*
 * copy_before_call.c - `copy-before-call`: what a library's call reads was copied into another
 * layout, or to another type, for it.
 *
 * Needs: copy kernels with known source and destination, and operands of libraries' calls. Cost:
 * the copies' GPU time. What was copied once and is read in step after step is none: that is what
 * should be done. Main thread only.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "relayouts.h"
#include "thresholds.h"

/* Made once for many steps. Where steps are told by repetition they begin anywhere in the loop's
 * body, between a copy and its reader, too: what the next step alone reads was made for that. */
static bool is_kept(const struct ls_relayout *r) {
    return r->step && r->last_reader_step ? r->last_reader_step > r->step + 1
                                          : r->readers >= LS_REPEATED;
}

static bool wanted(const struct ls_flow *flow, size_t index, const void *with) {
    const struct ls_relayout *r = &flow->relayout[index];
    bool casts = *(const bool *)with; /* the type alone; else the order */
    return !r->told && r->reader && !is_kept(r) && !r->reader_adds &&
           (casts ? r->cast && !r->turned : r->turned);
}

/* Gradients on their way to the other ranks. */
static bool is_bucket(const struct ls_relayouts *g) {
    return !strcmp(g->library, "nccl");
}

static bool is_product(const struct ls_relayouts *g) {
    return !strncmp(g->library, "cublas", 6);
}

static char *title_of(const struct ls_relayouts *g, bool casts) {
    struct ls_human bytes, count;
    const struct ls_relayout *r = g->largest;
    char operand[64], *source = ls_source_words(r), *title;
    if (casts)
        title =
            ls_format("%s cast %s for %s%s: %s to %s", ls_human_bytes(&bytes, g->bytes),
                      ls_times_words(&count, g->count), g->reader,
                      ls_operand_words(g, operand, sizeof operand), r->src->dtype, r->dst->dtype);
    else
        title = ls_format("%s copied %s for %s%s: the source is %s%s%s%s",
                          ls_human_bytes(&bytes, g->bytes), ls_times_words(&count, g->count),
                          g->reader, ls_operand_words(g, operand, sizeof operand), source,
                          r->cast ? ", cast to " : "", r->cast ? r->dst->dtype : "",
                          is_bucket(g) ? ", the bucket is not" : "");
    free(source);
    return title;
}

/* ---- advice ---- */

/* A view of more dimensions was joined into one matrix (patches, windows). */
static bool is_joined(const struct ls_relayout *r) {
    return r->reader_shape && r->reader_shape->dims == 2;
}

static char *product_advice(const struct ls_relayouts *g) {
    if (ls_reader_takes_source(g->largest))
        return ls_needless_words(g);
    enum ls_source_order order = ls_source_order(g->largest);
    switch (order == LS_SOURCE_PERMUTED && ls_source_is_stepped(g->largest) ? LS_SOURCE_STEPPED
                                                                            : order) {
    case LS_SOURCE_STEPPED:
        return ls_format(
            "A product takes matrices whose rows or columns are contiguous, and this "
            "view has neither. Keep what is needed in one piece where it is made, or "
            "split it once, outside of the loop; where the step is over rows ([::2] of "
            "the first dimension) nothing is copied.");
    case LS_SOURCE_SLICE:
        return ls_format("The matrices of the batch lie too far apart, or overlap, for one "
                         "distance from each to the next. Slice along the first dimension, or "
                         "flatten before the slice; a slice of a plain two-dimensional matrix is "
                         "read as it lies.");
    default:
        if (is_joined(g->largest))
            return ls_format(
                "The rows of this matrix are put together from a view whose dimensions were "
                "permuted (patches, windows, heads), and a product takes one distance from row to "
                "row. Write it in the order that is read where it is made, or permute once for all "
                "that read it; patches of an image are what a convolution of their size and stride "
                "takes without a copy.");
        return ls_format(
            "A batched product takes one distance from matrix to matrix, and within each a "
            "contiguous row or column: two batch dimensions whose order was exchanged have no such "
            "distance. Lay heads out as (batch, head, length, size) where they are made, use "
            "F.scaled_dot_product_attention (it reads exchanged dimensions as they lie, as long as "
            "the last one is contiguous), or torch.einsum. Transposing the last two dimensions "
            "alone costs nothing.");
    }
}

static char *advice_of(const struct ls_relayouts *g, bool casts) {
    if (casts)
        return ls_format(
            "Expected under autocast, which casts what it multiplies, and weights once in each "
            "autocast region: nothing to do in training. In inference, keep the weights in the "
            "type that is used: model.half(), or .to(torch.bfloat16).");
    if (ls_copy_is_the_work(g))
        return ls_format("The copy is what %s does: it would write its result in any layout, and "
                         "%s reads that as it lies. Nothing to do.",
                         g->called, g->reader);
    if (is_bucket(g))
        return ls_format("The gradient's strides are not those of its view in the bucket, so each "
                         "gradient is copied into another order. Keep the parameter in one layout "
                         "from before DistributedDataParallel is made (channels_last first, then "
                         "DDP), or make it contiguous.");
    if (is_product(g))
        return product_advice(g);
    if (!strncmp(g->library, "cudnn", 5))
        return ls_format(
            "Input and weight of a convolution must lie alike, NCHW or NHWC, and PyTorch copies "
            "the one that does not. Keep one layout through the network: model and input both "
            ".to(memory_format=torch.channels_last) (it pays in half precision, on tensor cores), "
            "or both contiguous; and look for what changes it between: a view or permute, or an "
            "operation without channels_last.%s",
            ls_copy_is_asked_for(g->called) ? " The copy is asked for at this line." : "");
    return ls_format("Make the operand in the layout that the call reads, or leave out the copy "
                     "where the call takes strides.");
}

static char *why_of(const struct ls_relayouts *g, bool casts) {
    struct ls_human ns;
    return ls_format("%s read what the copy wrote%s; the %s took %s of the GPU in all%s.",
                     g->reader,
                     g->touched ? " (kernels of which nothing is known had it between)" : "",
                     casts ? "casts" : "copies", ls_human_ns(&ns, g->ns),
                     g->without_times == 0 ? "" : ", by their bytes");
}

/* ---- findings ---- */

static void add(struct ls_detect *d, const struct ls_flow *flow, const struct ls_detector *self,
                const struct ls_relayouts *g, bool casts) {
    /* Casts are expected; told where somebody may wonder what takes that long. */
    if (casts ? ls_share_of_run(d, g->ns) < LS_SHARE_WARNING : ls_relayouts_negligible(d, g))
        return;
    bool wasted = casts ? (g->lasting == g->count && !g->rewritten && !g->source_touched)
                        : !ls_copy_is_the_work(g);
    struct ls_finding *f = ls_relayouts_finding(d, flow, g, self->kind, wasted ? g->ns : 0);
    f->severity = casts ? LS_INFO : ls_relayouts_severity(d, f->gain_ns, 0);
    f->title = title_of(g, casts);
    f->advice = advice_of(g, casts);
    char *why = why_of(g, casts);
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    free(why);
    json_object_set_new(f->evidence, "cast", json_boolean(g->largest->cast));
    json_object_set_new(f->evidence, "work_of_operator", json_boolean(ls_copy_is_the_work(g)));
    json_object_set_new(f->evidence, "asked_for", json_boolean(ls_copy_is_asked_for(g->called)));
    if (!casts && is_product(g))
        json_object_set_new(f->evidence, "source_is_readable",
                            json_boolean(ls_reader_takes_source(g->largest)));
}

static int look(struct ls_detect *d, const struct ls_flow *flow, const struct ls_detector *self,
                bool casts) {
    struct ls_relayouts_list list;
    int rc = ls_relayouts_read(d, flow, wanted, &casts, &list);
    for (size_t i = 0; rc == SQLITE_OK && i < list.count; i++)
        add(d, flow, self, &list.group[i], casts);
    ls_relayouts_tell(flow, wanted, &casts, self->kind);
    ls_relayouts_free(&list);
    return rc;
}

/* Copies into another order that nobody tells of: kernels alone read them, if anyone. */
static void say_unread(struct ls_detect *d, const struct ls_flow *flow, const char *kind) {
    int64_t count = 0, bytes = 0, ns = 0;
    struct ls_human copies, of_bytes, of_ns;
    for (size_t i = 0; i < flow->count; i++) {
        const struct ls_relayout *r = &flow->relayout[i];
        if (!r->turned || r->reader || r->told || r->reread)
            continue;
        count += !r->continues;
        bytes += ls_relayout_bytes(r);
        ns += ls_relayout_ns(r);
    }
    if (!ls_copies_negligible(d, ns, bytes))
        ls_detect_skip(d, kind,
                       "no library's call read %s %s into another layout (%s, %s%s): what kernels "
                       "alone read is judged by nothing; `layoutspy layouts` lists it",
                       ls_human_count(&copies, count), ls_plural(count, "copy", "copies"),
                       ls_human_bytes(&of_bytes, bytes), ls_human_ns(&of_ns, ns),
                       flow->timed ? "" : " by their bytes");
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    const struct ls_flow *flow = ls_detect_flow(d);
    if (!flow)
        return SQLITE_ERROR;
    if (!ls_relayouts_known(d, flow, self->kind))
        return SQLITE_OK;
    int rc = look(d, flow, self, false);
    if (rc == SQLITE_OK)
        rc = look(d, flow, self, true);
    if (rc == SQLITE_OK)
        say_unread(d, flow, self->kind);
    return rc;
}

const struct ls_detector ls_detect_copy_before_call = {"copy-before-call", run};
