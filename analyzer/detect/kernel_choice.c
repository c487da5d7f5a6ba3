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
#include "by_site.h"
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

/* One line's with the same reason and the same advice: a finding. */
struct line {
    const struct choice *worst;
    int64_t shapes, count, gpu_ns, gain_ns;
};

static double rate_of(const struct ls_conv_layer *l) {
    return l->timed && l->gpu_ns > 0 ? l->flops * (double)l->timed / (double)l->gpu_ns : 0;
}

static int64_t elements_of(const struct ls_conv_layer *l) {
    int64_t most = l->x ? l->x->elements : 0;
    return l->y && l->y->elements > most ? l->y->elements : most;
}

static bool usable(const struct ls_conv_layer *l) {
    return l->w && l->x && l->flops > 0 && rate_of(l) > 0;
}

/* What one layer at different sizes and in different types has in common. Layers that are compared
 * are of one family, and in it in order of their work. */
struct member {
    size_t family, number; /* of the layer */
    const struct ls_conv_layer *layer;
};

static size_t family_of(struct ls_numbers *families, const struct ls_conv_layer *l) {
    struct {
        enum ls_conv_pass pass;
        int dims;
        int64_t groups, size[8];
    } key;
    memset(&key, 0, sizeof key);
    key.pass = l->pass;
    key.dims = l->w->dims;
    key.groups = l->groups;
    for (int i = 0; i < l->w->dims; i++)
        key.size[i] = l->w->size[i];
    return ls_number_of(families, &key, sizeof key);
}

static int by_work(const void *x, const void *y) {
    const struct member *a = x, *b = y;
    if (a->family != b->family)
        return a->family < b->family ? -1 : 1;
    if (a->layer->flops != b->layer->flops)
        return a->layer->flops < b->layer->flops ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static bool faster(const struct member *x, const struct member *y) {
    double a = rate_of(x->layer), b = rate_of(y->layer);
    return a != b ? a > b : x->number < y->number;
}

/* Of one family. `best` has room for all: of those near in work each that is slower than all behind
 * it is left out, so that the first one is the fastest. */
static void compare_family(const struct member *m, size_t count, size_t *best,
                           struct choice *choice) {
    size_t first = 0, end = 0, next = 0;
    for (size_t i = 0; i < count; i++) {
        const struct ls_conv_layer *x = m[i].layer;
        for (; next < count && m[next].layer->flops < LS_KERNEL_CHOICE_NEAR * x->flops; next++) {
            while (end > first && faster(&m[next], &m[best[end - 1]]))
                end--;
            best[end++] = next;
        }
        while (m[best[first]].layer->flops * LS_KERNEL_CHOICE_NEAR <= x->flops)
            first++;
        const struct ls_conv_layer *y = m[best[first]].layer;
        if (x->flops >= LS_KERNEL_CHOICE_FLOPS &&
            rate_of(y) >= LS_KERNEL_CHOICE_FACTOR * rate_of(x))
            choice[m[i].number].better = y;
    }
}

static void compare(const struct ls_convolutions *convs, struct choice *choice) {
    struct member *m = ls_new(convs->layers, sizeof *m);
    size_t *best = ls_new(convs->layers, sizeof *best), count = 0;
    struct ls_numbers families = {0};
    for (size_t i = 0; i < convs->layers; i++) {
        const struct ls_conv_layer *l = choice[i].layer = &convs->layer[i];
        if (usable(l))
            m[count++] =
                (struct member){.family = family_of(&families, l), .number = i, .layer = l};
    }
    qsort(m, count, sizeof *m, by_work);
    for (size_t from = 0, end; from < count; from = end) {
        for (end = from + 1; end < count && m[end].family == m[from].family;)
            end++;
        compare_family(m + from, end - from, best, choice);
    }
    ls_numbers_free(&families);
    free(best);
    free(m);
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

static bool crosses(const struct choice *c) {
    return elements_of(c->layer) >= INT32_ELEMENTS &&
           (!c->better || elements_of(c->better) < INT32_ELEMENTS);
}

static char *advice_of(const struct choice *c) {
    return ls_format(
        "%s%sOtherwise compare layouts and types for this one size (channels last, bfloat16, float32), "
        "let cuDNN try its kernels (torch.backends.cudnn.benchmark), and try another version: which "
        "kernel is taken is its choice.",
        crosses(c)
            ? "A tensor has 2^31 elements or more, and most of cuDNN's kernels count in 32 bits: "
              "split the batch in two so that each part stays below. "
            : "",
        c->better && !crosses(c)
            ? "Pad or cut to the size that is fast, or run this layer in the type that "
              "is. "
            : "");
}

/* "", or what is to be said of the line's others. To be freed. */
static char *others_of(const struct line *line) {
    struct ls_human others;
    return line->shapes > 1 ? ls_format("; %s other %s on this line too",
                                        ls_human_count(&others, line->shapes - 1),
                                        ls_plural(line->shapes - 1, "shape", "shapes"))
                            : ls_copied("");
}

static void add(struct ls_detect *d, const struct ls_detector *self, const struct line *line) {
    const struct choice *c = line->worst;
    const struct ls_conv_layer *l = c->layer;
    char *one = title_of(c), *others = others_of(line);
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->title = ls_format("%s%s", one, others);
    free(one);
    free(others);
    f->advice = advice_of(c);
    f->site = ls_site_of(d->db, l->stack);
    f->count = line->count;
    f->time_ns = line->gpu_ns;
    f->gain_ns = line->gain_ns;
    f->severity = ls_severity_of(d, f->gain_ns);
    if (f->severity == LS_INFO && c->grouped_kernel && ls_severity_of(d, line->gpu_ns) != LS_INFO)
        f->severity = LS_WARNING; /* what it should take is not known */
    json_object_set_new(
        f->evidence, "why",
        json_string("cuDNN chooses a kernel for each size, layout and type; beyond "
                    "what the good ones can do it falls back to one that can do all."));
    ls_finding_basis(f, true, "GPU", "this size reaches the rate of the neighbour");
    json_object_set_new(f->evidence, "confidence", json_string(c->better ? "linked" : "seen"));
    json_object_update_new(
        f->evidence,
        json_pack("{s:o, s:o, s:I, s:b, s:f, s:f, s:I, s:b, s:o}", "kernel",
                  ls_json_text(c->kernel ? c->kernel : "unknown"), "layer", ls_conv_json(l),
                  "shapes", (json_int_t)line->shapes, "kernel_for_groups", c->grouped_kernel,
                  "flops_per_s", rate_of(l) * 1e9, "times_slower",
                  c->better ? rate_of(c->better) / rate_of(l) : 0.0, "elements",
                  (json_int_t)elements_of(l), "crosses_2_31", elements_of(l) >= INT32_ELEMENTS,
                  "neighbour", c->better ? ls_conv_json(c->better) : json_null()));
    ls_finding_gpu_share(d, f, line->gpu_ns);
}

/* The line that a choice counts to. */
static size_t line_of(struct ls_numbers *lines, struct ls_sites *sites, const struct choice *c) {
    struct {
        size_t site;
        bool better, grouped_kernel, crosses;
    } key;
    memset(&key, 0, sizeof key);
    key.site = ls_site_number(sites, c->layer->stack);
    key.better = c->better != NULL;
    key.grouped_kernel = c->grouped_kernel;
    key.crosses = crosses(c);
    return ls_number_of(lines, &key, sizeof key);
}

/* The line has this shape for the first time: stacks of one line may each have it. */
static bool is_new(struct ls_numbers *shapes, size_t line, const struct ls_conv_layer *l) {
    struct {
        size_t line;
        const struct ls_flow_shape *x, *w, *y;
        int64_t setting, pass;
    } key = {line, l->x, l->w, l->y, l->setting, l->pass};
    size_t known = shapes->count;
    return ls_number_of(shapes, &key, sizeof key) == known;
}

/* Of two choices of a line the one to show. */
static bool worse(const struct choice *x, const struct choice *y) {
    int64_t a = gain_of(x), b = gain_of(y);
    if (a != b)
        return a > b;
    return x->layer->gpu_ns != y->layer->gpu_ns ? x->layer->gpu_ns > y->layer->gpu_ns
                                                : x->layer->flops > y->layer->flops;
}

static void add_choice(struct line *line, const struct choice *c, bool new_shape) {
    if (!line->worst || worse(c, line->worst))
        line->worst = c;
    line->shapes += new_shape;
    line->count += c->layer->count;
    line->gpu_ns += c->layer->gpu_ns;
    line->gain_ns += gain_of(c);
}

static void add_lines(struct ls_detect *d, const struct ls_detector *self,
                      const struct choice *choice, size_t count) {
    struct ls_sites sites = {.db = d->db};
    struct ls_numbers lines = {0}, shapes = {0};
    struct line *line = NULL;
    size_t room = 0;
    for (size_t i = 0; i < count; i++) {
        if (!choice[i].better && !choice[i].grouped_kernel)
            continue;
        size_t known = lines.count, at = line_of(&lines, &sites, &choice[i]);
        if (at == known) {
            line = ls_room(line, known, &room, sizeof *line);
            line[at] = (struct line){0};
        }
        add_choice(&line[at], &choice[i], is_new(&shapes, at, choice[i].layer));
    }
    for (size_t i = 0; i < lines.count; i++)
        add(d, self, &line[i]);
    free(line);
    ls_numbers_free(&lines);
    ls_numbers_free(&shapes);
    ls_sites_free(&sites);
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
    if (rc == SQLITE_OK)
        add_lines(d, self, choice, convs->layers);
    for (size_t i = 0; i < convs->layers; i++)
        free(choice[i].kernel);
    free(choice);
    return rc;
}

const struct ls_detector ls_detect_kernel_choice = {"kernel-choice", run};
