/*
 * list_kernels.h - PyTorch's kernels over lists of tensors (multi_tensor_apply: foreach operations,
 * fused optimizers): which tensors a launch works on, and which of them it writes.
 *
 * Addresses, sizes and the tensor of each block lie in one structure, the first argument, whose
 * length depends on how many lists there are: the name says which structure it is, and which lists
 * the operation writes. A structure of another length, or numbers that do not fit together, are
 * UNLIKE it, and nothing of it is told.
 *
 * Any thread, in a recorded launch, while the thread is busy. No CUDA call.
 */
#ifndef LS_LIST_KERNELS_H
#define LS_LIST_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include "copy_kernels.h"

struct ls_list_kernel {
    uint8_t lists;         /* 0: it is none of these kernels */
    uint8_t form;          /* of the structure */
    uint8_t tensors;       /* that it has room for */
    uint8_t written, read; /* bits by list; neither: not known */
    uint8_t dtype, bytes;  /* of the elements of the lists that it writes; UNKNOWN, 0 */
    uint16_t blocks_at;    /* where the tensor of each block is */
};

/* What the (mangled) name says; the rest with ls_list_kernel_fits(). */
struct ls_list_kernel ls_list_kernel_named(const char *name);

/* Whether a structure of `size` bytes can be it. */
bool ls_list_kernel_fits(struct ls_list_kernel *kernel, uint32_t size);

/* The operands of one launch with `blocks` blocks: lists that are written first, BUFFER or OUTPUT,
 * then those that are read, INPUT, then others, ARGUMENT. */
enum ls_copy_result ls_list_kernel_tell(struct ls_thread *self, const struct ls_list_kernel *kernel,
                                        const void *structure, uint32_t blocks);

#endif
