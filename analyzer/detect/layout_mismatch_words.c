/*
 * layout_mismatch_words.c - how `layout-mismatch` says what it found. See layout_mismatch.h. Main
 * thread only.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../room.h"
#include "layout_mismatch.h"
#include "relayouts.h"

static const char *const verdict_name[] = {"", "mixed", "copied", "float32", "grouped", "operator"};

static const char *const tensor_name[] = {"input", "filter", "output or its gradient"};

static char *title_of(const struct ls_mismatch_group *g) {
    struct ls_human calls, ns, conv, count;
    char x[80], w[80];
    if (g->verdict == LS_MISMATCH_OPERATOR)
        return ls_format("%s copies %s %s of convolutions from nhwc to nchw: %s",
                         g->op_name ? g->op_name : "The program", ls_human_count(&count, g->copies),
                         ls_plural(g->copies, "output", "outputs"), ls_human_ns(&ns, g->copied_ns));
    const struct ls_conv_layer *l = g->worst;
    ls_dims_text(x, sizeof x, l->x);
    ls_dims_text(w, sizeof w, l->w);
    ls_human_count(&calls, g->calls);
    ls_human_ns(&ns, g->inside_ns + g->copied_ns);
    ls_human_ns(&conv, g->conv_ns);
    const char *calls_word = ls_plural(g->calls, "convolution", "convolutions");
    const char *against = g->timed && g->conv_ns ? ", the convolutions themselves " : "";
    if (g->verdict == LS_MISMATCH_MIXED)
        return ls_format(
            "%s %s with tensors in several layouts (%s: input %s, filter %s, output %s): "
            "conversions took %s%s%s",
            calls.text, calls_word, x, ls_layout_word(l->x), ls_layout_word(l->w),
            ls_layout_word(l->y), ns.text, against, *against ? conv.text : "");
    if (g->verdict == LS_MISMATCH_COPIED)
        return ls_format(
            "%s %s (%s, filter %s) had %s %s copied into another layout before: %s%s%s", calls.text,
            calls_word, x, w, ls_human_count(&count, g->copies),
            ls_plural(g->copies, "tensor", "tensors"), ns.text, against, *against ? conv.text : "");
    return ls_format(
        "%s %s in %s are channels last (%s, filter %s%s), and cuDNN converts them inside: "
        "%s%s%s",
        calls.text, calls_word, l->x ? l->x->dtype : "?", x, w,
        g->verdict == LS_MISMATCH_GROUPED ? ", with groups" : "", ns.text, against,
        *against ? conv.text : "");
}

/* The memory format of images, or of volumes. */
static const char *format_of(const struct ls_mismatch_group *g) {
    return g->worst && g->worst->x && g->worst->x->dims == 5 ? "channels_last_3d" : "channels_last";
}

/* Of a copy of a convolution's output back to channels first. */
static char *operator_advice(const struct ls_mismatch_group *g) {
    return ls_copy_is_asked_for(g->op_name)
               ? ls_format(
                     "The copy is asked for here, or by an operator's backward pass (group_norm's "
                     "does): what follows sees channels first, and the next convolution copies it "
                     "back. Leave it out where the program calls it. Where what follows takes "
                     "channels first alone, or the backward pass asks, leave the convolutions "
                     "around it channels first, too.")
               : ls_format(
                     "This operator has no kernel for channels last, so everything before it that "
                     "is channels last is copied, and copied back for the next convolution. "
                     "Replace it by one that has (BatchNorm, a fused GroupNorm), or leave the "
                     "convolutions around it channels first: with one such operator between every "
                     "two of them channels last costs more than it gains.");
}

/* Of convolutions that ran channels first, whose tensors came channels last. */
static char *channels_first_advice(const struct ls_mismatch_group *g) {
    const struct ls_flow_shape *x = g->worst->x;
    if (x && !strcmp(x->dtype, "float64"))
        return ls_format(
            "PyTorch runs convolutions in float64 channels first, whatever memory format they "
            "are given: leave out memory_format=torch.%s for both the model and its input.",
            format_of(g));
    return ls_format(
        "The convolution runs channels first, and these tensors come with the channels last: as "
        "views that a transpose or permute made of (batch, length, channels), say. Have them "
        "written channels first where they are made. PyTorch has no channels last for the tensors "
        "of conv1d: where the producer cannot change, conv2d over a height of 1 takes "
        "x.transpose(1, 2).unsqueeze(2) as it lies, with a weight in "
        "memory_format=torch.channels_last; it pays in bfloat16 or float16.");
}

static char *advice_of(const struct ls_mismatch_group *g, const struct ls_mismatch_group *forcing) {
    if (g->verdict == LS_MISMATCH_OPERATOR)
        return operator_advice(g);
    if (g->verdict == LS_MISMATCH_COPIED && g->worst->layouts == LS_CONV_NCHW)
        return channels_first_advice(g);
    const char *filter = g->by_tensor[LS_MISMATCH_FILTER] || g->verdict == LS_MISMATCH_MIXED
                             ? " The filter is a weight: convert it once, when the model is made "
                               "(model.to(memory_format=...)), not in each step."
                             : "";
    const char *groups = g->grouped
                             ? " Some have groups: channels-last kernels for these are missing or "
                               "slow in many versions of cuDNN, so time both layouts."
                             : "";
    char *around =
        forcing ? ls_format(" %s at %s makes tensors channels first in between: see its own "
                            "finding; while it is there, converting more of the model to "
                            "channels last will not help.",
                            forcing->op_name ? forcing->op_name : "An operator", forcing->site)
                : ls_copied("");
    char *advice =
        g->float32 && !g->half
            ? ls_format(
                  "In float32 without Tensor Cores channels last gains nothing, so let these stay "
                  "channels first: leave out memory_format=torch.%s for both the model "
                  "and its input. It pays in bfloat16 or float16 (autocast), or with TF32 where "
                  "that precision will do; then convert both.%s%s%s",
                  format_of(g), filter, groups, around)
            : ls_format(
                  "Give input, filter and output one layout: for %s, whose kernels use Tensor "
                  "Cores, channels last (memory_format=torch.%s), for model and input alike and "
                  "from the first layer on.%s%s%s",
                  g->worst && g->worst->x ? g->worst->x->dtype : "16 bits", format_of(g), filter,
                  groups, around);
    free(around);
    return advice;
}

static void put_evidence(const struct ls_mismatch_group *g, struct ls_finding *f) {
    json_t *copied = json_object();
    for (int t = 0; t < LS_MISMATCH_TENSORS; t++)
        if (g->by_tensor[t])
            json_object_set_new(copied, tensor_name[t], json_integer(g->by_tensor[t]));
    if (g->copies)
        json_object_set_new(f->evidence, "confidence", json_string("linked"));
    json_object_update_new(
        f->evidence,
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:O}", "shape",
                  verdict_name[g->verdict], "calls", (json_int_t)g->calls, "conversions_inside",
                  (json_int_t)g->inside, "conversions_inside_ns", (json_int_t)g->inside_ns,
                  "copies_around", (json_int_t)g->copies, "copies_around_ns",
                  (json_int_t)g->copied_ns, "convolutions_ns", (json_int_t)g->conv_ns, "to_nhwc",
                  (json_int_t)g->to_nhwc, "to_nchw", (json_int_t)g->to_nchw,
                  "conversions_are_inside", g->inside > 0, "copied", copied, "layers", g->layers));
    if (g->op_name)
        json_object_set_new(f->evidence, "operator", ls_json_text(g->op_name));
    json_object_set_new(
        f->evidence, "why",
        json_string(
            g->verdict == LS_MISMATCH_FLOAT32
                ? "Kernels for float32 without Tensor Cores are written for channels first; "
                  "given channels last, each call converts before and after."
                : "A convolution's kernel works in one layout: a tensor in the other one is "
                  "read and written once more, for each call."));
}

void ls_mismatch_words(const struct ls_mismatch_group *g, const struct ls_mismatch_group *forcing,
                       struct ls_finding *f) {
    f->title = title_of(g);
    f->advice = advice_of(g, forcing);
    put_evidence(g, f);
}
