/*
 * layout_mismatch.c - `layout-mismatch`: convolutions whose input, filter and output do not lie
 * alike, or lie in a layout that the convolution has no good kernel for, or that are copied into
 * another layout before each call because a layer beside them wants it so. By line.
 *
 * Needs: operands of cuDNN's calls; times of the GPU for what cuDNN converts inside, and operands
 * of copies for what the framework converts around. Cost: all of these conversions. Marks the
 * copies that it tells of (flow.h). Main thread only; not for signal handlers.
 */
#include <stdlib.h>
#include <string.h>

#include "../room.h"
#include "by_site.h"
#include "convolutions.h"
#include "detect.h"
#include "image_turn.h"
#include "layout_cost.h"
#include "layout_mismatch.h"
#include "thresholds.h"

#define NO_GROUP SIZE_MAX

/* What the framework copied for one layer, by tensor. */
struct copied {
    int64_t count[LS_MISMATCH_TENSORS], ns[LS_MISMATCH_TENSORS];
    int64_t to_nhwc[LS_MISMATCH_TENSORS],
        bytes[LS_MISMATCH_TENSORS]; /* of count so many; the others to nchw */
    bool timed;
};

struct looking {
    struct ls_detect *d;
    const struct ls_flow *flow;
    const struct ls_convolutions *convs;
    struct copied *copied; /* by layer */
    size_t *group_of;      /* by layer; NO_GROUP: it is fine */
    struct ls_mismatch_group *group;
    size_t groups, room;
    struct ls_sites sites;
    char role[256]; /* of each role.id: enum above + 1, 0 for others */
};

/* ---- copies around ---- */

static void read_roles(struct looking *look) {
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(
            look->d->db,
            "SELECT id, CASE WHEN name IN ('x', 'dx') THEN 1 WHEN name IN ('w', 'dw')"
            " THEN 2 ELSE 3 END FROM role WHERE images",
            -1, &stmt, NULL) != SQLITE_OK)
        return;
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        int id = sqlite3_column_int(stmt, 0);
        if (id >= 0 && id < (int)sizeof look->role)
            look->role[id] = (char)sqlite3_column_int(stmt, 1);
    }
    sqlite3_finalize(stmt);
}

/* Two stacks of one line: a loop's first call has a stack of its own, and what a framework does for
 * a call has its line. */
static bool same_site(struct looking *look, int64_t x, int64_t y) {
    return x == y || ls_site_number(&look->sites, x) == ls_site_number(&look->sites, y);
}

/* The layer's tensor that the framework made this copy for, in *tensor; NULL: it is none of these.
 * What another line copied is that line's matter: copy-before-call tells of it. */
static struct copied *copied_for(struct looking *look, const struct ls_relayout *r, int *tensor) {
    const struct ls_conv_call *call = r->reader ? ls_conv_of(look->convs, r->reader) : NULL;
    bool role = r->reader_role >= 0 && r->reader_role < (int)sizeof look->role;
    *tensor = role ? look->role[r->reader_role] - 1 : -1;
    if (!call || *tensor < 0 || r->told || !ls_relayout_turn(r) ||
        !same_site(look, r->stack, look->convs->layer[call->layer].stack))
        return NULL;
    return &look->copied[call->layer];
}

static void take_copy(struct looking *look, const struct ls_relayout *r) {
    int tensor;
    struct copied *copied = copied_for(look, r, &tensor);
    if (!copied)
        return;
    copied->count[tensor]++;
    copied->ns[tensor] += ls_relayout_ns(r);
    copied->bytes[tensor] += ls_relayout_bytes(r);
    copied->to_nhwc[tensor] += ls_relayout_turn(r) > 0;
    copied->timed |= r->gpu_ns >= 0;
}

/* One line's convolutions with filters of one shape, whatever their stacks and sizes: with sizes
 * that change each has a copy or two. */
struct place {
    int64_t calls, copies[LS_MISMATCH_TENSORS];
};

static size_t place_of(struct looking *look, struct ls_numbers *places, size_t layer) {
    const struct ls_conv_layer *l = &look->convs->layer[layer];
    const struct {
        size_t site;
        int64_t api, setting, pass;
        const struct ls_flow_shape *w;
    } key = {ls_site_number(&look->sites, l->stack), l->api, l->setting, l->pass, l->w};
    return ls_number_of(places, &key, sizeof key);
}

/* What is made once, when a model is put into shape, is as it should be. */
static bool is_single(const struct place *place, int tensor) {
    return place->copies[tensor] < LS_CONVERSIONS ||
           place->copies[tensor] < place->calls / LS_CONVERSION_CALLS;
}

static void forget_single_copies(struct looking *look) {
    size_t layers = look->convs->layers, *at = ls_new(layers, sizeof *at);
    struct place *place = ls_new(layers, sizeof *place);
    struct ls_numbers places = {0};
    for (size_t i = 0; i < layers; i++) {
        at[i] = place_of(look, &places, i);
        place[at[i]].calls += look->convs->layer[i].count;
        for (int t = 0; t < LS_MISMATCH_TENSORS; t++)
            place[at[i]].copies[t] += look->copied[i].count[t];
    }
    for (size_t i = 0; i < layers; i++)
        for (int t = 0; t < LS_MISMATCH_TENSORS; t++)
            if (is_single(&place[at[i]], t))
                look->copied[i].count[t] = 0;
    ls_numbers_free(&places);
    free(place);
    free(at);
}

static void tell_copies(struct looking *look) {
    int tensor;
    for (size_t i = 0; i < look->flow->count; i++) {
        const struct copied *copied = copied_for(look, &look->flow->relayout[i], &tensor);
        if (copied && copied->count[tensor])
            look->flow->relayout[i].told = "layout-mismatch";
    }
}

/* ---- groups ---- */

static struct ls_mismatch_group *group_for(struct looking *look, int64_t stack,
                                           enum ls_mismatch verdict) {
    size_t number = ls_site_number(&look->sites, stack);
    const char *site = look->sites.text[number];
    char *op_name = verdict == LS_MISMATCH_OPERATOR ? ls_operator_of(look->d->db, stack) : NULL;
    for (size_t i = 0; i < look->groups; i++) {
        struct ls_mismatch_group *g = &look->group[i];
        bool same = !op_name || !g->op_name ? op_name == g->op_name : !strcmp(op_name, g->op_name);
        if (g->verdict == verdict && same && g->site == site) {
            free(op_name);
            return g;
        }
    }
    look->group = ls_room(look->group, look->groups, &look->room, sizeof *look->group);
    struct ls_mismatch_group *made = &look->group[look->groups++];
    *made = (struct ls_mismatch_group){
        .site = site, .op_name = op_name, .verdict = verdict, .layers = json_array()};
    return made;
}

static enum ls_mismatch verdict_of(const struct ls_conv_layer *l, const struct copied *c) {
    const char *dtype = l->x ? l->x->dtype : "";
    if (l->layouts == LS_CONV_MIXED)
        return LS_MISMATCH_MIXED;
    if (c->count[LS_MISMATCH_INPUT] + c->count[LS_MISMATCH_FILTER] + c->count[LS_MISMATCH_OUTPUT])
        return LS_MISMATCH_COPIED;
    if (l->layouts != LS_CONV_NHWC || !l->inside.count)
        return LS_MISMATCH_FINE;
    return !strcmp(dtype, "float32") || !strcmp(dtype, "float64") ? LS_MISMATCH_FLOAT32
           : l->groups > 1                                        ? LS_MISMATCH_GROUPED
                                                                  : LS_MISMATCH_FINE;
}

static void take_layer(struct looking *look, size_t i) {
    const struct ls_conv_layer *l = &look->convs->layer[i];
    const struct copied *c = &look->copied[i];
    enum ls_mismatch verdict = verdict_of(l, c);
    look->group_of[i] = NO_GROUP;
    if (verdict == LS_MISMATCH_FINE)
        return;
    struct ls_mismatch_group *g = group_for(look, l->stack, verdict);
    look->group_of[i] = (size_t)(g - look->group);
    int64_t spent = l->inside.ns, copies = 0;
    for (int t = 0; t < LS_MISMATCH_TENSORS; t++) {
        if (!c->count[t])
            continue;
        g->by_tensor[t] += c->count[t];
        g->copied_ns += c->ns[t];
        g->bytes += c->bytes[t];
        g->to_nhwc += c->to_nhwc[t];
        g->to_nchw += c->count[t] - c->to_nhwc[t];
        spent += c->ns[t];
        copies += c->count[t];
    }
    g->copies += copies;
    g->calls += l->count;
    g->conv_ns += l->gpu_ns > l->inside.ns ? l->gpu_ns - l->inside.ns : 0;
    g->inside += l->inside.count;
    g->inside_ns += l->inside.ns;
    g->to_nhwc += l->inside.to_nhwc;
    g->to_nchw += l->inside.to_nchw;
    g->timed |= c->timed || l->timed > 0;
    g->grouped |= l->groups > 1;
    if (l->x) {
        g->float32 |= !strcmp(l->x->dtype, "float32") || !strcmp(l->x->dtype, "float64");
        g->half |= !strcmp(l->x->dtype, "float16") || !strcmp(l->x->dtype, "bfloat16");
    }
    if (!g->worst || spent > g->worst_ns) {
        g->worst = l;
        g->worst_ns = spent;
    }
    if (json_array_size(g->layers) < LS_ROWS_SHOWN) {
        json_t *row = ls_conv_json(l);
        json_object_set_new(row, "copies_before", json_integer(copies));
        json_array_append_new(g->layers, row);
    }
}

/* The group of the first convolution after this copy, if its input or output has as many elements
 * (an operator that copies keeps them, and so does what most often follows it): what that
 * convolution is given is in the layout that the copy made. NO_GROUP: nothing tells. */
static size_t group_after(const struct looking *look, const struct ls_relayout *r) {
    const struct ls_convolutions *convs = look->convs;
    size_t low = 0, high = convs->calls;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (convs->call[middle].call < r->call)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == convs->calls)
        return NO_GROUP;
    const struct ls_conv_layer *next = &convs->layer[convs->call[low].layer];
    const struct ls_flow_shape *given = next->pass == LS_CONV_FORWARD ? next->x : next->y;
    return given && given->elements == r->dst->elements ? look->group_of[convs->call[low].layer]
                                                        : NO_GROUP;
}

/* Copies of convolutions' outputs from channels last back to channels first, that no library call
 * reads: an operator has no kernel for channels last. */
static void take_operator(struct ls_relayout *r, int turn, void *context) {
    if (turn != -1 || r->told || r->reader)
        return;
    struct looking *look = context;
    struct ls_mismatch_group *g = group_for(look, r->stack, LS_MISMATCH_OPERATOR);
    size_t after = group_after(look, r);
    if (after != NO_GROUP && !look->group[after].forced_by)
        look->group[after].forced_by = (size_t)(g - look->group) + 1;
    g->calls++;
    g->copies++;
    g->copied_ns += ls_relayout_ns(r);
    g->bytes += ls_relayout_bytes(r);
    g->to_nchw++;
    g->timed |= r->gpu_ns >= 0;
    r->told = "layout-mismatch";
}

static void add(struct looking *look, const struct ls_detector *self,
                const struct ls_mismatch_group *g) {
    struct ls_detect *d = look->d;
    int64_t spent = g->inside_ns + g->copied_ns;
    const struct ls_mismatch_group *forcing = g->forced_by ? &look->group[g->forced_by - 1] : NULL;
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->count = g->calls;
    f->bytes = g->bytes;
    f->time_ns = f->gain_ns = spent;
    f->severity = g->inside + g->copies < LS_CONVERSIONS ? LS_INFO : ls_severity_of(d, spent);
    f->site = ls_copied(g->site);
    ls_finding_basis(f, g->timed, "GPU",
                     "no tensor is converted, and the convolutions stay as fast");
    ls_mismatch_words(g, forcing, f);
    if (g->timed)
        ls_finding_gpu_share(d, f, spent);
}

/* ---- the whole ---- */

static void look_for(struct looking *look, const struct ls_detector *self) {
    look->copied = ls_new(look->convs->layers, sizeof *look->copied);
    look->group_of = ls_new(look->convs->layers, sizeof *look->group_of);
    read_roles(look);
    for (size_t i = 0; i < look->flow->count; i++)
        take_copy(look, &look->flow->relayout[i]);
    forget_single_copies(look);
    tell_copies(look);
    for (size_t i = 0; i < look->convs->layers; i++)
        take_layer(look, i);
    ls_written_turns(look->flow, look->convs, take_operator, look);
    for (size_t i = 0; i < look->groups; i++)
        add(look, self, &look->group[i]);
    for (size_t i = 0; i < look->groups; i++) {
        free(look->group[i].op_name);
        json_decref(look->group[i].layers);
    }
    free(look->group);
    free(look->copied);
    ls_sites_free(&look->sites);
    free(look->group_of);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct looking look = {.d = d, .sites.db = d->db};
    if (!ls_operands_told(d, self->kind))
        return SQLITE_OK;
    look.flow = ls_detect_flow(d);
    look.convs = look.flow ? ls_detect_convolutions(d) : NULL;
    if (!look.convs)
        return SQLITE_ERROR;
    if (look.convs->calls == 0)
        return SQLITE_OK;
    if (!look.flow->timed)
        ls_detect_skip(
            d, self->kind,
            "no times of the GPU are in this trace: what cuDNN converts inside of its calls "
            "is not seen");
    look_for(&look, self);
    return SQLITE_OK;
}

const struct ls_detector ls_detect_layout_mismatch = {"layout-mismatch", run};
