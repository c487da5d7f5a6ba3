/*
 * shape.h - numbers for the shapes of tensors and the like, as the spool tells them (LS_REC_SHAPE).
 *
 * A shape is kept from its first sight until the process ends, recording or not: descriptors are
 * often set up before the first recorded call. Each recording is told of a shape before the first
 * call that has it. Bounded: once the room is used up, new shapes have no number.
 *
 * Any thread, lock-free; ls_shape_number() is async-signal-safe, ls_shape_tell() is called in a
 * recorded call.
 */
#ifndef LS_SHAPE_H
#define LS_SHAPE_H

#include <stdint.h>

#include "layoutspy/format.h"
#include "thread.h"

/* What a record of it says (struct ls_rec_shape). To be zeroed first: it is compared as bytes. */
struct ls_shape {
    uint8_t kind, dims, flags, dtype;
    int32_t dtype_told;
    uint16_t vector_count, vector_dim;
    uint32_t values; /* of value[]; not part of the record */
    int64_t uid;
    int64_t value[LS_SHAPE_VALUES];
};

/* The number of the shape, from 1; 0: no room. */
uint32_t ls_shape_number(const struct ls_shape *shape);

/* The shape with this number; NULL for 0. Lives as long as the process. */
const struct ls_shape *ls_shape_at(uint32_t number);

/* The recording knows of the shape from here on. Returns `number`, or 0 where the record could not
 * be written or `number` is 0: what needs it goes without, and is counted here. `self` is busy. */
uint32_t ls_shape_tell(struct ls_thread *self, uint32_t number);

#endif
