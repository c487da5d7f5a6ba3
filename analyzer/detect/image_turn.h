/*
 * image_turn.h - copies that turn images from channels first to channels last, or back.
 *
 * A copy's own sizes do not tell: it joins dimensions as far as they go, so that images of any
 * kind are turned by a batched transpose. What they are is known of who is told their shape, the
 * library's call that reads what was copied, or that wrote what is. Main thread only.
 */
#ifndef LAYOUTSPY_DETECT_IMAGE_TURN_H
#define LAYOUTSPY_DETECT_IMAGE_TURN_H

#include "convolutions.h"

/* 1: channels last, -1: channels first, 0: neither. */
int ls_image_way(const struct ls_flow_shape *shape);

/* How an image, that lies on the side `from` of a copy as `shape` tells, lies on the other: 1
 * channels last, -1 channels first, 0 otherwise, or nothing is known. */
int ls_image_lies(const struct ls_flow_shape *shape, const struct ls_flow_shape *from,
                  const struct ls_flow_shape *to);

/* By the shape that the copy's reader was told: 1, to channels last, -1, to channels first, 0, no
 * such change, or nothing is known. */
int ls_relayout_turn(const struct ls_relayout *r);

/* The same by the shape that the convolution was told which wrote the copy's source: for each copy
 * that turned something, in order. 0 also where something else was copied there since. */
void ls_written_turns(const struct ls_flow *flow, const struct ls_convolutions *convs,
                      void (*take)(struct ls_relayout *r, int turn, void *context), void *context);

#endif
