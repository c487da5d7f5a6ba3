/*
 * image_turn.c - see image_turn.h. Main thread only; not for signal handlers.
 */
#include "image_turn.h"

#include <stdlib.h>
#include <string.h>

#include "../hash.h"

/* An address that a convolution wrote to, and what; NULL: something else did. */
struct written {
    uint64_t address;
    const struct ls_flow_shape *shape;
    UT_hash_handle hh;
};

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

int ls_image_lies(const struct ls_flow_shape *shape, const struct ls_flow_shape *from,
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

int ls_image_way(const struct ls_flow_shape *shape) {
    return !strcmp(shape->layout, "nhwc") ? 1 : !strcmp(shape->layout, "nchw") ? -1 : 0;
}

int ls_relayout_turn(const struct ls_relayout *r) {
    const struct ls_flow_shape *read = r->reader_shape;
    if (!r->turned || !read)
        return 0;
    int now = ls_image_way(read), was = ls_image_lies(read, r->dst, r->src);
    return was && now == -was ? now : 0;
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

static int turn_of_written(const struct written *all, const struct ls_relayout *r) {
    const struct written *at;
    uint64_t address = (uint64_t)r->src_address;
    HASH_FIND(hh, all, &address, sizeof address, at);
    int was = at && at->shape ? ls_image_way(at->shape) : 0;
    int now = was ? ls_image_lies(at->shape, r->src, r->dst) : 0;
    return now == -was ? now : 0;
}

void ls_written_turns(const struct ls_flow *flow, const struct ls_convolutions *convs,
                      void (*take)(struct ls_relayout *r, int turn, void *context), void *context) {
    struct written *all = NULL, *at, *next;
    size_t call = 0;
    for (size_t i = 0; i < flow->count; i++) {
        struct ls_relayout *r = &flow->relayout[i];
        for (; call < convs->calls && convs->call[call].call < r->call; call++) {
            const struct ls_conv_call *c = &convs->call[call];
            write_to(&all, c->y_address, written_shape(&convs->layer[c->layer]));
        }
        if (r->turned)
            take(r, turn_of_written(all, r), context);
        write_to(&all, (uint64_t)r->dst_address, NULL);
    }
    HASH_ITER(hh, all, at, next) {
        HASH_DEL(all, at);
        free(at);
    }
}
