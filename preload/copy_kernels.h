/*
 * copy_kernels.h - PyTorch's copy kernels: what their arguments tell of the two tensors.
 *
 * Copies, casts and concatenations are kernels of a handful of templates, whose arguments hold
 * sizes, strides and addresses. Which template it is, its name says, once per kernel; where in the
 * arguments what lies is known of PyTorch's versions and checked: a launch whose numbers do not fit
 * together is UNLIKE it, and nothing of it is told.
 *
 * Any thread, in a recorded launch, while the thread is busy. No CUDA call. Reads the arguments
 * (the program's own memory) as far as the template has them.
 */
#ifndef LS_COPY_KERNELS_H
#define LS_COPY_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "thread.h"

enum ls_copy_form {
    LS_COPY_NONE,         /* none of them */
    LS_COPY_STRIDED,      /* elementwise_kernel: of any strides, types by its name */
    LS_COPY_STRIDED_CAST, /* the same, types among the arguments */
    LS_COPY_DENSE,        /* vectorized_ or unrolled_elementwise_kernel: both lie alike in memory */
    LS_COPY_DENSE_CAST,   /* unrolled_elementwise_kernel, types among the arguments */
    LS_COPY_CAT,          /* CatArrayBatchedCopy* */
    LS_COPY_LISTS,        /* none of these: list_kernels.h */
};

struct ls_copy_kernel {
    uint8_t form;                  /* enum ls_copy_form */
    uint8_t dst_dtype, src_dtype;  /* enum ls_dtype; UNKNOWN also where only the size is known */
    uint8_t dst_bytes, src_bytes;  /* of an element; 0: not known */
    uint8_t dims;                  /* CAT: of the tensors */
    uint8_t vector;                /* CAT: sizes count so many elements as one */
    uint16_t batch, input_strides; /* CAT: inputs that a launch has room for, strides of inputs */
};

/* What the (mangled) name says. */
struct ls_copy_kernel ls_copy_kernel_named(const char *name);

/* Whether a kernel with parameters of these sizes can be it; 0: the size is not known. */
bool ls_copy_kernel_fits(const struct ls_copy_kernel *kernel, const uint16_t *size, uint32_t count);

enum ls_copy_result {
    LS_COPY_TOLD,      /* the operands DST and SRC are added */
    LS_COPY_ELSEWHERE, /* an address is not one of recorded device memory */
    LS_COPY_UNLIKE,    /* the numbers do not fit together */
};

/* Of one launch. `inputs`: the grid's second dimension. `first`: everything is checked. */
enum ls_copy_result ls_copy_kernel_tell(struct ls_thread *self, const struct ls_copy_kernel *kernel,
                                        void *const *args, uint32_t inputs, bool first);

#endif
