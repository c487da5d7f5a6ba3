/*
 * kernel_words.h - what kernels' names tell of them: those that only move or convert data.
 *
 * Used by the target's library and by the collector. Any thread; no state; async-signal-safe.
 */
#ifndef LAYOUTSPY_COMMON_KERNEL_WORDS_H
#define LAYOUTSPY_COMMON_KERNEL_WORDS_H

#include <stdbool.h>
#include <stdint.h>

enum ls_kernel_change {
    LS_KERNEL_COPY,    /* a copy, a cast, a gather: of the layout its operands tell, or nobody */
    LS_KERNEL_STRIDED, /* a copy between different strides, unless its operands tell otherwise */
    LS_KERNEL_LAYOUT,  /* converts one layout to another */
};

/* Arrays, not pointers: no relocations in processes that launch nothing. */
struct ls_kernel_words {
    char pattern[48];
    char from[8], to[8]; /* LAYOUT: "nchw", "nhwc"; "": the name does not say */
    uint8_t change;      /* enum ls_kernel_change */
};

/* What the first pattern that fits says (kernel_words.def); NULL: the kernel computes. `name` is
 * mangled. */
const struct ls_kernel_words *ls_kernel_words(const char *name);

static inline bool ls_kernel_moves(const char *name) {
    return ls_kernel_words(name) != 0;
}

#endif
