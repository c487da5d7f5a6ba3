/*
 * shape.h - numbers for the shapes of tensors and the like, as the spool tells them (LS_REC_SHAPE).
 *
 * A shape is kept from its first sight until the process ends, recording or not: descriptors are
 * often set up before the first recorded call. Each recording is told of a shape before the first
 * call that has it. Bounded: once the room is used up, new shapes have LS_SHAPE_NO_ROOM for a
 * number, and what is told of them is counted (LS_LOST_SHAPES).
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

/* Not the number of a shape: one of those that there was no room for. */
#define LS_SHAPE_NO_ROOM UINT32_MAX

/* The number of the shape, from 1; or LS_SHAPE_NO_ROOM. */
uint32_t ls_shape_number(const struct ls_shape *shape);

/* The shape with this number; NULL for 0 and LS_SHAPE_NO_ROOM. Lives as long as the process. */
const struct ls_shape *ls_shape_at(uint32_t number);

/* The recording knows of the shape from here on. Returns `number`, or 0 where there is no such
 * shape: what needs it goes without, and is counted here if there was no room for it, in memory or
 * in the spool. `self` is busy. */
uint32_t ls_shape_tell(struct ls_thread *self, uint32_t number);

#endif
