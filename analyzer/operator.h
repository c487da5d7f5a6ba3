/*
 * operator.h - what a framework was doing, told from its C++ frames: the operators, and the step of
 * a backward pass that a thread without any Python frame was at.
 *
 * No state; any thread.
 */
#ifndef LAYOUTSPY_OPERATOR_H
#define LAYOUTSPY_OPERATOR_H

#include <stdbool.h>
#include <stddef.h>

#include "site.h"

#define LS_OPERATOR_MAX 160 /* bytes of a name, with its NUL; longer ones are cut */

struct ls_operators {
    char outer[LS_OPERATOR_MAX]; /* what was called, */
    char inner[LS_OPERATOR_MAX]; /* and what of it was at work */
};

/* The operator that a C++ function belongs to: "aten::add.Tensor" of
 * at::_ops::add_Tensor::call(...). False: to none. */
bool ls_operator_name(const char *function, char *name, size_t size);

/* Of `count` frames, innermost first. Without an operator, NVIDIA's library function. False:
 * neither. */
bool ls_operators_of(const struct ls_site_frame *frame, int count, struct ls_operators *operators);

/* "backward of convolution", where a backward pass is at work that no Python frame called. */
bool ls_backward_text(const struct ls_site_frame *frame, int count, char *text, size_t size);

#endif
