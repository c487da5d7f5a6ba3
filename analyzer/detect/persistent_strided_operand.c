/*
 * persistent_strided_operand.c - `persistent-strided-operand`: memory that outlives the steps (a
 * weight, a buffer) is brought into the same other layout in step after step.
 *
 * Needs: copy kernels with known source and destination, and steps. Cost: their GPU time. Whether
 * the memory was written between is known of calls, copies and PyTorch's kernels over lists of
 * tensors; of other kernels only that they were given its address. Main thread only.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../room.h"
#include "relayouts.h"
#include "thresholds.h"

/* What a copy put there is on its way, whatever it lies in. */
static bool candidate(const struct ls_relayout *r) {
    return !r->told && r->turned && r->repeated == 1 && r->src_is_lasting &&
           r->from == LS_NO_RELAYOUT;
}

/* Of each relayout: in how many steps its source was re-laid out so, in all. */
static int64_t *steps_of(const struct ls_flow *flow) {
    size_t *head = ls_new(flow->count, sizeof *head);
    int64_t *steps = ls_new(flow->count, sizeof *steps);
    for (size_t i = 0; i < flow->count; i++) {
        const struct ls_relayout *r = &flow->relayout[i];
        bool more = r->before != LS_NO_RELAYOUT && flow->relayout[r->before].dst == r->dst &&
                    flow->relayout[r->before].src_life == r->src_life;
        head[i] = more ? head[r->before] : i;
        if (!more || flow->relayout[r->before].step != r->step)
            steps[head[i]]++;
    }
    for (size_t i = 0; i < flow->count; i++)
        steps[i] = steps[head[i]];
    free(head);
    return steps;
}

static bool wanted(const struct ls_flow *flow, size_t index, const void *with) {
    return candidate(&flow->relayout[index]) && ((const int64_t *)with)[index] >= LS_STEADY_STEPS;
}

static char *title_of(const struct ls_relayouts *g) {
    struct ls_human bytes, steps, sources;
    char operand[64], *reader = NULL;
    char *source = ls_source_words(g->largest);
    if (*g->reader)
        reader = ls_format(" for %s%s", g->reader, ls_operand_words(g, operand, sizeof operand));
    char *title = ls_format(
        "%s copied in %s steps%s: %s %s, %s, re-laid out step after step",
        ls_human_bytes(&bytes, g->bytes), ls_human_count(&steps, g->steps), reader ? reader : "",
        ls_human_count(&sources, g->sources),
        g->sources == 1 ? "tensor that outlives them" : "tensors that outlive them", source);
    free(source);
    free(reader);
    return title;
}

static char *why_of(const struct ls_relayouts *g) {
    const char *known =
        g->rewritten ? "Calls that are known to write there did so between, so the copy was not "
                       "the same each time."
        : g->source_touched
            ? "Kernels of which nothing more is known were given its address between: an optimizer "
              "that updates it, or others that read it."
            : "As far as is known nothing was written there between, so each copy was the same.";
    return ls_format(
        "The memory was there before the step and after it, and was read with the same "
        "strides each time. %s",
        known);
}

static char *advice_of(const struct ls_relayouts *g) {
    bool convolution = strstr(g->library, "cudnn") != NULL;
    const char *once =
        convolution
            ? "Bring the model into the layout that its input has, once after loading: "
              "model.to(memory_format=torch.channels_last); parameters keep it through training."
            : "Make it contiguous once, after loading: weight.data = weight.data.contiguous(), or "
              "self.register_buffer(name, tensor.contiguous()) where it is a transposed or sliced "
              "view that is kept (a merged LoRA weight, a table of positions).";
    if (ls_reader_takes_source(g->largest))
        return ls_needless_words(g);
    if (g->rewritten)
        return ls_format("Write it in the layout in which it is read: let the call that fills it "
                         "each step (a copy_ into it, or a transfer) have that order, or read it "
                         "with the strides that it has. %s",
                         convolution ? once : "");
    return ls_format("%s%s", once,
                     g->source_touched ? " If an optimizer updates it, it keeps that layout; if "
                                         "each step makes it anew by other means, have that write "
                                         "it in the layout that is read."
                                       : "");
}

static void add(struct ls_detect *d, const struct ls_flow *flow, const struct ls_detector *self,
                const struct ls_relayouts *g) {
    if (ls_relayouts_negligible(d, g))
        return;
    struct ls_finding *f = ls_relayouts_finding(d, flow, g, self->kind, g->ns);
    f->severity = ls_relayouts_severity(d, f->gain_ns, 0);
    f->title = title_of(g);
    f->advice = advice_of(g);
    char *why = why_of(g);
    json_object_set_new(f->evidence, "why", ls_json_text(why));
    free(why);
    json_object_set_new(f->evidence, "rewritten", json_integer(g->rewritten));
    json_object_set_new(f->evidence, "given_to_unknown_kernels", json_integer(g->source_touched));
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    const struct ls_flow *flow = ls_detect_flow(d);
    struct ls_relayouts_list list;
    if (!flow)
        return SQLITE_ERROR;
    if (!ls_relayouts_known(d, flow, self->kind))
        return SQLITE_OK;
    int64_t *steps = steps_of(flow);
    int rc = ls_relayouts_read(d, flow, wanted, steps, &list);
    for (size_t i = 0; rc == SQLITE_OK && i < list.count; i++)
        add(d, flow, self, &list.group[i]);
    ls_relayouts_tell(flow, wanted, steps, self->kind);
    ls_relayouts_free(&list);
    free(steps);
    return rc;
}

const struct ls_detector ls_detect_persistent_strided_operand = {"persistent-strided-operand", run};
