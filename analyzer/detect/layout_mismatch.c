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
#include <uthash.h>

#include "../room.h"
#include "convolutions.h"
#include "detect.h"
#include "layout_cost.h"
#include "layout_mismatch.h"
#include "thresholds.h"

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
    struct ls_mismatch_group *group;
    size_t groups, room;
    char role[64]; /* of each role.id: enum above + 1, 0 for others */
    struct {
        int64_t x, y;
        bool same;
    } last_sites; /* asked about: most copies come in loops */
};

/* An address that a convolution wrote to, and what. */
struct written {
    uint64_t address;
    const struct ls_flow_shape *shape;
    UT_hash_handle hh;
};

/* ---- copies around ---- */

/* Where a copy puts (or takes from) a dimension of `size` elements that lie `stride` elements apart
 * on the side `from`: how far apart they lie on the other side; -1: not regularly. A copy's own
 * dimensions are joined as far as they go: height and width are one. */
static int64_t stride_across(const struct ls_flow_shape *from, const struct ls_flow_shape *to,
                             int64_t stride, int64_t size, int64_t unit) {
    int64_t from_unit = from->in_bytes ? unit : 1, to_unit = to->in_bytes ? unit : 1;
    for (int i = 0; i < from->dims && from->dims == to->dims; i++) {
        int64_t step = from->stride[i] / from_unit;
        if (from->size[i] <= 1 || step <= 0 || stride % step != 0 ||
            stride / step * (size - 1) >= from->size[i])
            continue;
        return stride / step * (to->stride[i] / to_unit);
    }
    return -1;
}

/* How an image, that lies on the side `from` as `shape` tells, lies on the other: 1 channels last,
 * -1 channels first, 0 otherwise, or nothing is known. */
static int lies(const struct ls_flow_shape *shape, const struct ls_flow_shape *from,
                const struct ls_flow_shape *to) {
    int last = shape->dims - 1;
    int64_t unit = shape->elements > 0 ? shape->bytes / shape->elements : 0;
    if (shape->dims < 4 || shape->ambiguous || unit < 1 || shape->size[1] < 2)
        return 0;
    while (last > 2 && shape->size[last] < 2)
        last--;
    if (stride_across(from, to, shape->stride[1], shape->size[1], unit) == 1)
        return 1;
    return stride_across(from, to, shape->stride[last], shape->size[last], unit) == 1 ? -1 : 0;
}

static int way_of(const struct ls_flow_shape *shape) {
    return !strcmp(shape->layout, "nhwc") ? 1 : !strcmp(shape->layout, "nchw") ? -1 : 0;
}

/* 1: what is read was turned to channels last, -1: to channels first, 0: no such change. */
static int turn_for_reader(const struct ls_relayout *r) {
    const struct ls_flow_shape *read = r->reader_shape;
    if (!r->turned || !read)
        return 0;
    int now = way_of(read), was = lies(read, r->dst, r->src);
    return was && now == -was ? now : 0;
}

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
    if (x == y)
        return true;
    if (look->last_sites.x == x && look->last_sites.y == y)
        return look->last_sites.same;
    char *a = ls_site_of(look->d->db, x), *b = ls_site_of(look->d->db, y);
    look->last_sites.x = x;
    look->last_sites.y = y;
    look->last_sites.same = strcmp(a, b) == 0;
    free(a);
    free(b);
    return look->last_sites.same;
}

/* The layer's tensor that the framework made this copy for, in *tensor; NULL: it is none of these.
 * What another line copied is that line's matter: copy-before-call tells of it. */
static struct copied *copied_for(struct looking *look, const struct ls_relayout *r, int *tensor) {
    const struct ls_conv_call *call = r->reader ? ls_conv_of(look->convs, r->reader) : NULL;
    bool role = r->reader_role >= 0 && r->reader_role < (int)sizeof look->role;
    *tensor = role ? look->role[r->reader_role] - 1 : -1;
    if (!call || *tensor < 0 || r->told || !turn_for_reader(r) ||
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
    copied->to_nhwc[tensor] += turn_for_reader(r) > 0;
    copied->timed |= r->gpu_ns >= 0;
}

/* The same convolution of the same line. */
static bool same_place(struct looking *look, const struct ls_conv_layer *x,
                       const struct ls_conv_layer *y) {
    return x->api == y->api && x->pass == y->pass && x->x == y->x && x->w == y->w && x->y == y->y &&
           x->setting == y->setting && same_site(look, x->stack, y->stack);
}

/* What is made once, when a model is put into shape, is as it should be. */
static bool is_single(struct looking *look, size_t layer, int tensor) {
    int64_t copies = 0, calls = 0;
    for (size_t k = 0; k < look->convs->layers; k++) {
        if (!same_place(look, &look->convs->layer[layer], &look->convs->layer[k]))
            continue;
        copies += look->copied[k].count[tensor];
        calls += look->convs->layer[k].count;
    }
    return copies < LS_CONVERSIONS || copies < calls / 2;
}

static void forget_single_copies(struct looking *look) {
    bool(*single)[LS_MISMATCH_TENSORS] = ls_new(look->convs->layers, sizeof *single);
    for (size_t i = 0; i < look->convs->layers; i++)
        for (int t = 0; t < LS_MISMATCH_TENSORS; t++)
            single[i][t] = look->copied[i].count[t] && is_single(look, i, t);
    for (size_t i = 0; i < look->convs->layers; i++)
        for (int t = 0; t < LS_MISMATCH_TENSORS; t++)
            if (single[i][t])
                look->copied[i].count[t] = 0;
    free(single);
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

static struct ls_mismatch_group *group_of(struct looking *look, int64_t stack,
                                          enum ls_mismatch verdict) {
    char *site = ls_site_of(look->d->db, stack);
    char *op_name = verdict == LS_MISMATCH_OPERATOR ? ls_operator_of(look->d->db, stack) : NULL;
    for (size_t i = 0; i < look->groups; i++) {
        struct ls_mismatch_group *g = &look->group[i];
        bool same = !op_name || !g->op_name ? op_name == g->op_name : !strcmp(op_name, g->op_name);
        if (g->verdict == verdict && same && strcmp(g->site, site) == 0) {
            free(site);
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
    if (verdict == LS_MISMATCH_FINE)
        return;
    struct ls_mismatch_group *g = group_of(look, l->stack, verdict);
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

static void write_to(struct written **all, uint64_t address, const struct ls_flow_shape *shape) {
    struct written *at;
    HASH_FIND(hh, *all, &address, sizeof address, at);
    if (!at) {
        at = ls_new(1, sizeof *at);
        at->address = address;
        HASH_ADD(hh, *all, address, sizeof at->address, at);
    }
    at->shape = shape;
}

static const struct ls_flow_shape *written_shape(const struct ls_conv_layer *l) {
    return l->pass == LS_CONV_FORWARD ? l->y : l->pass == LS_CONV_DATA ? l->x : NULL;
}

static void take_operator(struct looking *look, const struct written *all, struct ls_relayout *r) {
    const struct written *at;
    uint64_t address = (uint64_t)r->src_address;
    HASH_FIND(hh, all, &address, sizeof address, at);
    if (!at || !at->shape || way_of(at->shape) != 1 || lies(at->shape, r->src, r->dst) != -1)
        return;
    struct ls_mismatch_group *g = group_of(look, r->stack, LS_MISMATCH_OPERATOR);
    g->calls++;
    g->copies++;
    g->copied_ns += ls_relayout_ns(r);
    g->bytes += ls_relayout_bytes(r);
    g->to_nchw++;
    g->timed |= r->gpu_ns >= 0;
    r->told = "layout-mismatch";
}

/* Copies of convolutions' outputs from channels last back to channels first, that no library call
 * reads: an operator has no kernel for channels last. */
static void take_operators(struct looking *look) {
    struct written *all = NULL, *at, *next;
    size_t call = 0;
    for (size_t i = 0; i < look->flow->count; i++) {
        struct ls_relayout *r = &look->flow->relayout[i];
        for (; call < look->convs->calls && look->convs->call[call].call < r->call; call++) {
            const struct ls_conv_call *c = &look->convs->call[call];
            write_to(&all, c->y_address, written_shape(&look->convs->layer[c->layer]));
        }
        if (r->turned && !r->told && !r->reader)
            take_operator(look, all, r);
        write_to(&all, (uint64_t)r->dst_address, NULL);
    }
    HASH_ITER(hh, all, at, next) {
        HASH_DEL(all, at);
        free(at);
    }
}

static void add(struct looking *look, const struct ls_detector *self,
                const struct ls_mismatch_group *g) {
    struct ls_detect *d = look->d;
    int64_t spent = g->inside_ns + g->copied_ns;
    const struct ls_mismatch_group *forcing = NULL;
    for (size_t i = 0; i < look->groups && !forcing; i++)
        if (look->group[i].verdict == LS_MISMATCH_OPERATOR)
            forcing = &look->group[i];
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
    read_roles(look);
    for (size_t i = 0; i < look->flow->count; i++)
        take_copy(look, &look->flow->relayout[i]);
    forget_single_copies(look);
    tell_copies(look);
    for (size_t i = 0; i < look->convs->layers; i++)
        take_layer(look, i);
    take_operators(look);
    for (size_t i = 0; i < look->groups; i++)
        add(look, self, &look->group[i]);
    for (size_t i = 0; i < look->groups; i++) {
        free(look->group[i].site);
        free(look->group[i].op_name);
        json_decref(look->group[i].layers);
    }
    free(look->group);
    free(look->copied);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct looking look = {.d = d};
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
