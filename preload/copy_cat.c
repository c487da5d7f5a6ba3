/*
 * copy_cat.c - reading the arguments of PyTorch's concatenations. See copy_kernels.h.
 *
 * CatArrayBatchedCopy*(output, inputs, output's sizes and strides, dimension, elements per step of
 * it): the output is one operand, each input is another. They are seldom, and tell of more tensors
 * than a launch may have operands: the last one says that there were more.
 */
#include <stddef.h>
#include <string.h>

#include "copy_side.h"
#include "operand.h"

#define DIMS 4
#define INPUTS_MOST 7 /* of one launch */

struct sizes {
    uint32_t size[DIMS], stride[DIMS]; /* the outermost first */
};

/* The arguments. */
struct cat {
    uint64_t output;
    const uint64_t *input;
    const uint32_t *offset, *size, *elements; /* along the dimension, and in all; of inputs */
    const uint8_t *packed;
    const struct sizes *strides; /* of inputs that are not packed */
    const struct sizes *whole;
    uint32_t dimension, step;
};

/* CatArrInputTensorMetadata: arrays of `batch`, one behind the other. */
static struct cat read_arguments(const struct ls_copy_kernel *kernel, void *const *args) {
    const char *at = args[1];
    uint32_t batch = kernel->batch;
    return (struct cat){
        .output = *(const uint64_t *)args[0],
        .input = (const void *)at,
        .offset = (const void *)(at + batch * 8),
        .size = (const void *)(at + batch * 12),
        .elements = (const void *)(at + batch * 16),
        .packed = (const void *)(at + batch * 20),
        .strides = (const void *)(at + batch * 21),
        .whole = args[2],
        .dimension = *(const uint32_t *)args[3],
        .step = *(const uint32_t *)args[4],
    };
}

static bool read_whole(const struct ls_copy_kernel *kernel, const struct cat *cat,
                       struct ls_copy_side *out) {
    *out =
        (struct ls_copy_side){.of = {kernel->dst_dtype, kernel->dst_bytes}, .dims = kernel->dims};
    if (cat->dimension >= out->dims)
        return false;
    for (uint32_t i = 0; i < out->dims; i++) {
        out->size[i] = cat->whole->size[i];
        out->stride[i] = (int64_t)cat->whole->stride[i] * kernel->dst_bytes * kernel->vector;
        if (!out->size[i] || !cat->whole->stride[i])
            return false;
    }
    if (kernel->vector > 1) { /* a step of the last dimension is so many elements in one piece */
        if (cat->whole->stride[out->dims - 1] != 1)
            return false;
        out->size[out->dims - 1] *= kernel->vector;
        out->stride[out->dims - 1] = kernel->dst_bytes;
    }
    return true;
}

static uint64_t bytes_of(const struct ls_copy_side *side) {
    uint64_t bytes = side->of.bytes;
    for (uint32_t i = 0; i < side->dims; i++)
        bytes += (uint64_t)(side->size[i] - 1) * (uint64_t)side->stride[i];
    return bytes;
}

static bool read_input(const struct ls_copy_kernel *kernel, const struct cat *cat,
                       const struct ls_copy_side *whole, uint32_t n, struct ls_copy_side *out) {
    uint64_t size = cat->size[n], offset = cat->offset[n];
    /* Dimensions behind that of the concatenation may count as part of it. */
    if (kernel->vector > 1 && cat->dimension == whole->dims - 1)
        size *= cat->step, offset *= cat->step;
    if (!size || offset + size > (uint64_t)whole->size[cat->dimension])
        return false;
    *out = *whole;
    out->size[cat->dimension] = (int64_t)size;
    uint64_t product = 1;
    for (uint32_t i = 0; i < out->dims && product <= UINT32_MAX; i++)
        product *= (uint64_t)out->size[i];
    if (product != cat->elements[n])
        return false;
    if (cat->packed[n] || kernel->input_strides == 1) {
        ls_copy_pack(out);
        return true;
    }
    for (uint32_t i = 0; i < out->dims; i++) {
        out->stride[i] = (int64_t)cat->strides[n].stride[i] * kernel->src_bytes;
        if (cat->strides[n].size[i] != (uint32_t)out->size[i])
            return false;
    }
    return true;
}

enum ls_copy_result ls_copy_cat_tell(struct ls_thread *self, const struct ls_copy_kernel *kernel,
                                     void *const *args, uint32_t inputs, bool first) {
    const struct cat cat = read_arguments(kernel, args);
    struct ls_copy_side whole, input[INPUTS_MOST];
    uint32_t told = inputs < INPUTS_MOST ? inputs : INPUTS_MOST;
    if (!inputs || inputs > kernel->batch || !read_whole(kernel, &cat, &whole))
        return LS_COPY_UNLIKE;
    for (uint32_t n = 0; n < told; n++)
        if (!read_input(kernel, &cat, &whole, n, &input[n]))
            return LS_COPY_UNLIKE;
    if (!ls_copy_is_there(cat.output, bytes_of(&whole), first))
        return LS_COPY_ELSEWHERE;
    for (uint32_t n = 0; n < told; n++)
        if (!ls_copy_is_there(cat.input[n], bytes_of(&input[n]), first))
            return LS_COPY_ELSEWHERE;
    ls_operand_add(self, LS_ROLE_DST, 0, ls_copy_shape(&whole), cat.output);
    for (uint32_t n = 0; n < told; n++)
        ls_operand_add(self, LS_ROLE_SRC, n == told - 1 && inputs > told ? LS_OPERAND_MORE : 0,
                       ls_copy_shape(&input[n]), cat.input[n]);
    return LS_COPY_TOLD;
}
