/*
 * convolutions.h - the convolutions that cuDNN was asked for, by its old API and by graphs: what
 * their tensors looked like, what it converted inside of the call, and how long that took.
 *
 * One pass over the operands of the calls that have a convolution's settings among them; loaded at
 * the first wish of a detector, kept in `struct ls_detect`. Main thread only.
 */
#ifndef LAYOUTSPY_DETECT_CONVOLUTIONS_H
#define LAYOUTSPY_DETECT_CONVOLUTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "flow.h"

enum ls_conv_pass { LS_CONV_FORWARD, LS_CONV_DATA, LS_CONV_FILTER };

/* How input, filter and output lie. Those that are ambiguous fit any. */
enum ls_conv_layouts { LS_CONV_UNKNOWN, LS_CONV_NCHW, LS_CONV_NHWC, LS_CONV_MIXED };

/* Conversions by kernels of the library's own, inside of the calls. */
struct ls_conv_inside {
    int64_t count, ns; /* ns 0 where untimed */
    int64_t to_nhwc, to_nchw;
};

/* Calls of one function, from one stack, with the same tensors and settings. */
struct ls_conv_layer {
    int64_t stack, api;
    char *api_name;
    enum ls_conv_pass pass;
    /* In the forward pass's names: gradients stand for what they are of. NULL: not known. */
    const struct ls_flow_shape *x, *w, *y;
    int64_t setting; /* shape.id of the convolution's settings */
    int64_t groups;  /* 0: not known */
    int64_t math;    /* cudnnMathType_t; -1: not told */
    enum ls_conv_layouts layouts;
    double flops; /* of one call; 0: not known */
    int64_t count, first_call;
    int64_t timed, gpu_ns; /* calls with a GPU time, and that time, conversions included */
    struct ls_conv_inside inside;
};

struct ls_conv_call {
    int64_t call;
    size_t layer;
    int64_t gpu_ns;     /* -1: not known */
    uint64_t y_address; /* what it wrote: output or gradient */
};

struct ls_convolutions {
    struct ls_conv_layer *layer;
    size_t layers;
    struct ls_conv_call *call; /* by number */
    size_t calls;
};

/* NULL: the trace cannot be read. It belongs to `d`. */
const struct ls_convolutions *ls_detect_convolutions(struct ls_detect *d);

/* The convolution with this call.id, or NULL. */
const struct ls_conv_call *ls_conv_of(const struct ls_convolutions *c, int64_t call);

/* "32x64x56x56", or "?" where it is not known; into `text`, which is returned. */
const char *ls_dims_text(char *text, size_t size, const struct ls_flow_shape *shape);

/* The layout's word: nchw, nhwc, "nchw or nhwc" where ambiguous, unknown. */
const char *ls_layout_word(const struct ls_flow_shape *shape);

/* The layer as evidence shows it: dims, layouts, types, groups, counts and times. */
json_t *ls_conv_json(const struct ls_conv_layer *layer);

void ls_convolutions_free(struct ls_convolutions *c);

#endif
