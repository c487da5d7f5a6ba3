/*
 * image_copies.h - which copies turned images from one layout to another: table `image_copy`.
 *
 * Made once, when a recording is finished: it needs the way of tensors between calls
 * (detect/flow.h). One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_IMAGE_COPIES_H
#define LAYOUTSPY_IMAGE_COPIES_H

#include "trace_db.h"

/* After operands, kernels and meta 'end_ns' are there. */
void ls_image_copies_build(struct ls_trace_db *db);

#endif
