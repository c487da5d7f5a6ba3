/*
 * cudart_copy.h - what the runtime's copy functions share.
 */
#ifndef STANDIN_CUDART_COPY_H
#define STANDIN_CUDART_COPY_H

#include "copy.h"
#include "standin.h"

/* Adds src_kind, dst_kind, direction and device to the call's line. */
void sd_put_copied(struct standin_call *call, const struct copied *copied);

#endif
