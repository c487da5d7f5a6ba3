/*
 * on_matmul_lt.h - operands of cuBLASLt's calls.
 *
 * What its descriptors say is asked of the library itself (cublasLt...GetAttribute), which knows
 * its own layouts of them; of matrices the answers are remembered by the descriptor's bytes, which
 * is all that they depend on. Descriptors are looked at after a call that succeeded; after one that
 * failed where the kernel says that they can be read.
 *
 * Any thread, after the real call, while the thread is busy; lock-free. errno is kept.
 */
#ifndef LS_ON_MATMUL_LT_H
#define LS_ON_MATMUL_LT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "thread.h"

struct ls_lt_call {
    const void *desc;          /* of the product, or of the transformation */
    const void *a, *b, *c, *d; /* of a transformation d is 0 */
    const void *layout_a, *layout_b, *layout_c, *layout_d;
    const void *beta;
    const void *workspace;
    size_t workspace_size;
};
void ls_lt_matmul(struct ls_thread *self, int status, const struct ls_lt_call *call);
void ls_lt_transform(struct ls_thread *self, int status, const struct ls_lt_call *call);

/* A matrix as cuBLASLt has it. */
#define LS_LT_LAYOUT_BYTES 64 /* of a descriptor, in every version */
struct ls_lt_layout {
    int32_t type, order, batch;
    uint32_t array; /* the matrices' addresses lie in an array; since CUDA 13 */
    uint64_t rows, columns;
    int64_t ld, stride;
    uint64_t shape; /* its number (shape.h) */
};
/* What the library says of the descriptor; whether it knows one. */
bool ls_lt_layout(const void *descriptor, struct ls_lt_layout *out);
/* Times that the library was asked: for tests. */
extern _Atomic uint64_t ls_lt_asked;

#endif
