/*
 * kernel_choice.c - `kernel-choice`: a convolution for which cuDNN ran a kernel that is far from
 * what the same layer reaches at a neighbouring size or in another type, or one that is meant for
 * grouped convolutions although it has none; and whether 2^31 elements are the border between.
 *
 * Needs: operands of cuDNN's calls, and times of the GPU. Cost: what is above the time that the
 * better neighbour's rate would take. Main thread only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../room.h"
#include "convolutions.h"
#include "detect.h"
#include "layout_cost.h"
#include "thresholds.h"

#define INT32_ELEMENTS (INT64_C(1) << 31)

struct choice {
    const struct ls_conv_layer *layer,
        *better; /* better: a neighbour that is much faster, or NULL */
    bool grouped_kernel;
    char *kernel; /* with most of the time */
};

static double rate_of(const struct ls_conv_layer *l) {
    return l->timed && l->gpu_ns > 0 ? l->flops * (double)l->timed / (double)l->gpu_ns : 0;
}

static bool equal_filters(const struct ls_flow_shape *x, const struct ls_flow_shape *y) {
    bool same = x->dims == y->dims;
    for (int i = 0; same && i < x->dims; i++)
        same = x->size[i] == y->size[i];
    return same;
}

/* The same layer, of another size or type. */
static bool neighbours(const struct ls_conv_layer *x, const struct ls_conv_layer *y) {
    double near = x->flops / y->flops;
    return x != y && x->pass == y->pass && x->groups == y->groups && equal_filters(x->w, y->w) &&
           near < LS_KERNEL_CHOICE_NEAR && near > 1 / LS_KERNEL_CHOICE_NEAR;
}

static int64_t elements_of(const struct ls_conv_layer *l) {
    int64_t most = l->x ? l->x->elements : 0;
    return l->y && l->y->elements > most ? l->y->elements : most;
}

static bool usable(const struct ls_conv_layer *l) {
    return l->w && l->x && l->flops > 0 && rate_of(l) > 0;
}

static void compare(const struct ls_convolutions *convs, struct choice *choice) {
    for (size_t i = 0; i < convs->layers; i++) {
        const struct ls_conv_layer *x = &convs->layer[i];
        choice[i].layer = x;
        if (!usable(x) || x->flops < LS_KERNEL_CHOICE_FLOPS)
            continue;
        for (size_t k = 0; k < convs->layers; k++) {
            const struct ls_conv_layer *y = &convs->layer[k];
            if (!usable(y) || !neighbours(x, y) ||
                rate_of(y) < LS_KERNEL_CHOICE_FACTOR * rate_of(x))
                continue;
            if (!choice[i].better || rate_of(y) > rate_of(choice[i].better))
                choice[i].better = y;
        }
    }
}

/* The kernels that ran in the calls. */
static int read_kernels(struct ls_detect *d, const struct ls_convolutions *convs,
                        struct choice *choice) {
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(
        d->db,
        "SELECT w.under, COALESCE(k.short, ''), COALESCE(k.name, '') FROM gpu_work AS w JOIN kernel"
        " AS k ON k.id = w.v0 WHERE w.kind = 1 AND w.under NOT NULL AND w.v0 NOT IN (SELECT kernel"
        " FROM kernel_layout) ORDER BY w.end_ns - w.start_ns DESC",
        -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const struct ls_conv_call *call = ls_conv_of(convs, sqlite3_column_int64(stmt, 0));
        if (!call)
            continue;
        struct choice *c = &choice[call->layer];
        if (!c->kernel)
            c->kernel = ls_copied((const char *)sqlite3_column_text(stmt, 1));
        c->grouped_kernel |=
            strstr((const char *)sqlite3_column_text(stmt, 2), "grouped_direct") != NULL &&
            convs->layer[call->layer].groups == 1;
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int64_t gain_of(const struct choice *c) {
    if (!c->better)
        return 0;
    double wanted = (double)c->layer->gpu_ns * rate_of(c->layer) / rate_of(c->better);
    return c->layer->gpu_ns - (int64_t)wanted;
}

static char *title_of(const struct choice *c) {
    const struct ls_conv_layer *l = c->layer;
    struct ls_human ns;
    char x[80], w[80], y[80], tera[64] = "";
    ls_dims_text(x, sizeof x, l->x);
    ls_dims_text(w, sizeof w, l->w);
    ls_human_ns(&ns, l->timed ? l->gpu_ns / l->timed : 0);
    if (c->better) {
        ls_dims_text(y, sizeof y, c->better->x);
        return ls_format(
            "A convolution of %s (%s, filter %s) took %s in %s: %.0f times slower, for its "
            "work, than with %s in %s",
            x, l->x->dtype, w, ns.text, c->kernel ? c->kernel : "its kernel",
            rate_of(c->better) / rate_of(l), y, c->better->x->dtype);
    }
    if (rate_of(l) > 0)
        snprintf(tera, sizeof tera, ", %.2f TFLOP/s", rate_of(l) / 1e3);
    return ls_format(
        "A convolution of %s (%s, filter %s) without groups ran %s, which is for grouped "
        "ones: %s each%s",
        x, l->x ? l->x->dtype : "?", w, c->kernel, ns.text, tera);
}

static char *advice_of(const struct choice *c) {
    bool crosses = elements_of(c->layer) >= INT32_ELEMENTS &&
                   (!c->better || elements_of(c->better) < INT32_ELEMENTS);
    return ls_format(
        "%s%sOtherwise compare layouts and types for this one size (channels last, bfloat16, float32), "
        "let cuDNN try its kernels (torch.backends.cudnn.benchmark), and try another version: which "
        "kernel is taken is its choice.",
        crosses
            ? "A tensor has 2^31 elements or more, and most of cuDNN's kernels count in 32 bits: "
              "split the batch in two so that each part stays below. "
            : "",
        c->better && !crosses
            ? "Pad or cut to the size that is fast, or run this layer in the type that "
              "is. "
            : "");
}

static void add(struct ls_detect *d, const struct ls_detector *self, const struct choice *c) {
    const struct ls_conv_layer *l = c->layer;
    char *title = title_of(c), *advice = advice_of(c), *site = ls_site_of(d->db, l->stack);
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->title = title;
    f->advice = advice;
    f->site = site;
    f->count = l->count;
    f->time_ns = l->gpu_ns;
    f->gain_ns = gain_of(c);
    f->severity = ls_severity_of(d, f->gain_ns);
    if (f->severity == LS_INFO && c->grouped_kernel && ls_severity_of(d, l->gpu_ns) != LS_INFO)
        f->severity = LS_WARNING; /* what it should take is not known */
    json_object_set_new(
        f->evidence, "why",
        json_string("cuDNN chooses a kernel for each size, layout and type; beyond "
                    "what the good ones can do it falls back to one that can do all."));
    ls_finding_basis(f, true, "GPU", "this size reaches the rate of the neighbour");
    json_object_set_new(f->evidence, "confidence", json_string(c->better ? "linked" : "seen"));
    json_object_update_new(
        f->evidence,
        json_pack("{s:o, s:o, s:b, s:f, s:f, s:I, s:b, s:o}", "kernel",
                  ls_json_text(c->kernel ? c->kernel : "unknown"), "layer", ls_conv_json(l),
                  "kernel_for_groups", c->grouped_kernel, "flops_per_s", rate_of(l) * 1e9,
                  "times_slower", c->better ? rate_of(c->better) / rate_of(l) : 0.0, "elements",
                  (json_int_t)elements_of(l), "crosses_2_31", elements_of(l) >= INT32_ELEMENTS,
                  "neighbour", c->better ? ls_conv_json(c->better) : json_null()));
    ls_finding_gpu_share(d, f, l->gpu_ns);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    if (!ls_operands_told(d, self->kind))
        return SQLITE_OK;
    const struct ls_convolutions *convs = ls_detect_convolutions(d);
    if (!convs)
        return SQLITE_ERROR;
    if (convs->calls == 0)
        return SQLITE_OK;
    if (ls_kernels_ns(d) == 0) {
        ls_detect_skip(d, self->kind, "no times of kernels are in this trace");
        return SQLITE_OK;
    }
    struct choice *choice = ls_new(convs->layers, sizeof *choice);
    compare(convs, choice);
    int rc = read_kernels(d, convs, choice);
    for (size_t i = 0; i < convs->layers; i++) {
        if (rc == SQLITE_OK && (choice[i].better || choice[i].grouped_kernel))
            add(d, self, &choice[i]);
        free(choice[i].kernel);
    }
    free(choice);
    return rc;
}

const struct ls_detector ls_detect_kernel_choice = {"kernel-choice", run};
