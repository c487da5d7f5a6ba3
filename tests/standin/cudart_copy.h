/*
 * cudart_copy.h - what the runtime's copy functions share.
 */
#ifndef STANDIN_CUDART_COPY_H
#define STANDIN_CUDART_COPY_H

#include "cuda_types.h"

#include "copy.h"
#include "standin.h"

/* Adds src_kind, dst_kind, direction and device to the call's line. */
void sd_put_copied(struct standin_call *call, const struct copied *copied);

/* A 3D copy as a graph's node; lock held. 0, 1 and the statuses of sd_copy(). */
int sd_copy_3d_work(const struct cudaMemcpy3DParms *p, struct work *work);

#endif
