/*
 * kernel_words.h - what kernels' names tell of them. Any thread; async-signal-safe.
 */
#ifndef LS_KERNEL_WORDS_H
#define LS_KERNEL_WORDS_H

#include <stdbool.h>

/* Does the kernel only move or convert data? See kernel_words.def. `name` is mangled. */
bool ls_kernel_moves(const char *name);

#endif
