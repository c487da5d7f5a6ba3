/*
 * layout_mismatch.h - what `layout-mismatch` found at one line, and the words for it. Main thread
 * only.
 */
#ifndef LAYOUTSPY_DETECT_LAYOUT_MISMATCH_H
#define LAYOUTSPY_DETECT_LAYOUT_MISMATCH_H

#include "convolutions.h"

enum ls_mismatch {
    LS_MISMATCH_FINE,
    LS_MISMATCH_MIXED,    /* one call's tensors differ, and the library copes */
    LS_MISMATCH_COPIED,   /* the framework turned one for the call */
    LS_MISMATCH_FLOAT32,  /* channels last without Tensor Cores, and the library turned them */
    LS_MISMATCH_GROUPED,  /* channels last with groups, the same */
    LS_MISMATCH_OPERATOR, /* no convolution: what copies a convolution's output to another layout */
};

enum { LS_MISMATCH_INPUT, LS_MISMATCH_FILTER, LS_MISMATCH_OUTPUT, LS_MISMATCH_TENSORS };

/* One finding. */
struct ls_mismatch_group {
    const char *site; /* equal pointers for equal sites */
    char *op_name;    /* of an operator, else NULL */
    enum ls_mismatch verdict;
    int64_t calls, conv_ns, inside, inside_ns, copies, copied_ns, bytes;
    int64_t by_tensor[LS_MISMATCH_TENSORS];
    int64_t to_nhwc, to_nchw;
    bool timed, float32, grouped, half;
    const struct ls_conv_layer *worst;
    size_t forced_by; /* 1 + the number of an operator's group, whose copies came right before and
                         were as large; 0: of none */
    json_t *layers;
    int64_t worst_ns;
};

/* Title, advice, and evidence; forcing: of an operator that makes tensors channels first in
 * between, NULL: none. */
void ls_mismatch_words(const struct ls_mismatch_group *g, const struct ls_mismatch_group *forcing,
                       struct ls_finding *f);

#endif
