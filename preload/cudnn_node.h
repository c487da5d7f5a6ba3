/*
 * cudnn_node.h - the descriptors of cuDNN's graph API while a program sets them up, inside
 * cudnn_graph.c and what it consists of.
 *
 * A descriptor's word (descriptors.h) has its type, and a number: while it is being set up that of
 * a block, which holds what it was told so far; once it is finalized that of a list (cudnn_list.h),
 * which has all that others need of it. A variant pack keeps its block until it is destroyed. What
 * has neither a block nor a list (too many at once) is not known.
 *
 * A descriptor belongs to one thread at a time, as cuDNN asks; where a program does not keep to
 * that, what is known of it may be wrong. Any thread; lock-free; async-signal-safe.
 */
#ifndef LS_CUDNN_NODE_H
#define LS_CUDNN_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "cudnn_list.h"
#include "descriptors.h"
#include "layoutspy/format.h"

enum ls_cudnn_value {
#define VALUE(name, number) LS_CUDNN_##name = (number),
#define OPERAND(name, number, role)
#include "cudnn_attribute.def"
};

/* The word. */
#define LS_CUDNN_WORD(type, done, number)                                                          \
    LS_DESCRIBED(LS_DESCRIBED_NODE, (uint64_t)(uint8_t)(type) << 48 | (uint64_t) !!(done) << 47 |  \
                                        (uint64_t)(uint32_t)(number))
#define LS_CUDNN_TYPE(word) ((int)(uint8_t)((word) >> 48))
#define LS_CUDNN_DONE(word) (!!((word) >> 47 & 1))
#define LS_CUDNN_NUMBER(word) ((uint32_t)(word))
#define LS_CUDNN_TYPES 256 /* that a word can say; cuDNN 9 has 44 */

/* The word of a graph's descriptor, or 0. */
static inline uint64_t ls_cudnn_word(const void *descriptor) {
    uint64_t word = ls_descriptor(descriptor);
    return LS_DESCRIBED_KIND(word) == LS_DESCRIBED_NODE ? word : 0;
}

/* The list of a finalized one; 0: there is none. */
static inline uint32_t ls_cudnn_list_of(const void *descriptor) {
    uint64_t word = ls_cudnn_word(descriptor);
    return LS_CUDNN_DONE(word) ? LS_CUDNN_NUMBER(word) : 0;
}

struct ls_cudnn_tensor {
    int64_t dims[LS_SHAPE_DIMS], strides[LS_SHAPE_DIMS];
    int64_t uid, vector_count, vector_dim;
    int32_t type;
    uint8_t dim_count, stride_count;
    bool has_uid, is_virtual, by_value;
    uint32_t ragged; /* the list of the tensor that has its offsets */
};

enum { LS_CUDNN_PRE, LS_CUDNN_POST, LS_CUDNN_STRIDE, LS_CUDNN_DILATION, LS_CUDNN_LISTS };
struct ls_cudnn_convolution {
    int64_t list[LS_CUDNN_LISTS][LS_SHAPE_DIMS];
    uint8_t count[LS_CUDNN_LISTS];
    int32_t mode;
};

/* An operation's operands, or those of all of a graph's. */
struct ls_cudnn_operation {
    uint32_t count;
    bool inference; /* a normalisation's phase */
    struct ls_cudnn_item item[LS_CUDNN_ITEMS];
};

struct ls_cudnn_pack {
    uint32_t uids, addresses;
    bool other_shapes; /* the plan's are not those of this execution */
    uint64_t workspace;
    int64_t uid[LS_CUDNN_ITEMS];
    uint64_t address[LS_CUDNN_ITEMS];
};

struct ls_cudnn_block {
    _Atomic uint32_t next; /* while it is free */
    union {
        struct ls_cudnn_tensor tensor;
        struct ls_cudnn_convolution convolution;
        struct ls_cudnn_operation operation;
        struct ls_cudnn_pack pack;
    };
};

/* A block for a descriptor of this type, as if nothing had been told; 0: no room. */
uint32_t ls_cudnn_block_take(int type);
void ls_cudnn_block_give(uint32_t number);
/* NULL for 0. */
struct ls_cudnn_block *ls_cudnn_block(uint32_t number);

/* cudnn_setup.c: what a descriptor was told, into its block; the library took it. */
void ls_cudnn_tell(int of, struct ls_cudnn_block *block, int name, int type, int64_t count,
                   const void *values);

/* cudnn_setup.c: the list of what is finalized now; 0: no room. */
uint32_t ls_cudnn_close(int type, struct ls_cudnn_block *block);

#endif
