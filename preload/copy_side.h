/*
 * copy_side.h - a tensor that a copy kernel reads or writes, between its arguments and the shape
 * that is recorded. For copy_kernels.c and copy_cat.c alone.
 *
 * Any thread, busy; no lock.
 */
#ifndef LS_COPY_SIDE_H
#define LS_COPY_SIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "copy_kernels.h"
#include "layoutspy/shape.h"

struct ls_copy_type {
    uint8_t dtype, bytes; /* enum ls_dtype, which may be UNKNOWN; 0: not even the size is known */
};

struct ls_copy_side {
    struct ls_copy_type of;
    uint32_t dims;
    int64_t size[LS_SHAPE_DIMS], stride[LS_SHAPE_DIMS]; /* in bytes; the outermost first */
};

/* Of a C++ type as it is mangled, the first of a template's parameters. */
struct ls_copy_type ls_copy_type_named(const char *mangled);

/* The number of its shape, with strides in elements where the type is known. */
uint32_t ls_copy_shape(const struct ls_copy_side *side);

/* Strides of elements that lie in one piece, the last dimension innermost. */
void ls_copy_pack(struct ls_copy_side *side);

/* Are both ends of it in recorded device memory? `all`: what is between, too. */
bool ls_copy_is_there(uint64_t address, uint64_t bytes, bool all);

/* ls_copy_kernel_tell() of a CatArrayBatchedCopy. */
enum ls_copy_result ls_copy_cat_tell(struct ls_thread *self, const struct ls_copy_kernel *kernel,
                                     void *const *args, uint32_t inputs, bool first);

#endif
