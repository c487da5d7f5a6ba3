/*
 * cudnn_standin.h - the inside of the cuDNN stand-in: handles, descriptors, and the one way in
 * which every computing call checks, logs and launches.
 *
 * Fields of a computing call: handle stream, then for each operand ROLE=address ROLE_type (a
 * cudnnDataType_t) ROLE_dims ROLE_strides (comma separated, in the descriptor's order, in
 * elements), then what else the call has (pads, algo, workspace ...).
 */
#ifndef STANDIN_CUDNN_H
#define STANDIN_CUDNN_H

#include "cudnn_types.h"
#include "lib.h"

struct cudnnContext {
    int magic;
    cudaStream_t stream;
};

/* What the tensor and the filter descriptor have in common. */
struct dn_shape {
    int type;
    int format; /* as set; -1 where strides were given */
    int count;  /* of dimensions; 0 until set */
    int64_t dims[CUDNN_DIM_MAX];
    int64_t strides[CUDNN_DIM_MAX];
};

struct cudnnTensorStruct {
    struct dn_shape shape;
};

struct cudnnFilterStruct {
    struct dn_shape shape;
};

struct cudnnConvolutionStruct {
    int count; /* spatial dimensions; 0 until set */
    int pad[CUDNN_DIM_MAX], stride[CUDNN_DIM_MAX], dilation[CUDNN_DIM_MAX];
    int groups, mode, compute_type, math_type, reorder;
};

struct cudnnRNNDataStruct {
    struct dn_shape shape; /* in the order of the layout */
    int layout, max_length, batch, vector;
};

struct cudnnRNNStruct {
    int cell, bias_mode, directions, type;
    int64_t input, hidden, projection, layers;
};

struct dn_operand {
    const char *role;
    const void *address;
    const struct dn_shape *shape;
    bool optional; /* address may be NULL */
    bool plain;    /* has no descriptor of its own */
};

/* NULL for a missing descriptor. */
static inline const struct dn_shape *dn_tensor(const struct cudnnTensorStruct *tensor) {
    return tensor ? &tensor->shape : NULL;
}

static inline const struct dn_shape *dn_filter(const struct cudnnFilterStruct *filter) {
    return filter ? &filter->shape : NULL;
}

static inline const struct dn_shape *dn_sequence(const struct cudnnRNNDataStruct *data) {
    return data ? &data->shape : NULL;
}

/* Fills in the strides of a fully packed tensor in shape->format. */
void dn_pack(struct dn_shape *shape);

/* Channels that lie together as one element, by format and type; 0: there is no such thing. */
int dn_vector(const struct dn_shape *shape);

/* Bytes from the first to behind the last element. */
uint64_t dn_span(const struct dn_shape *shape);

size_t dn_element_size(int type);

bool dn_handle_good(cudnnHandle_t handle);

/* "1,2,3" as a field. */
void dn_put_list(struct standin_call *call, const char *key, const int64_t *values, int count);

/* The fields of one operand; `prefix` may be "". An operand that no longer fits in the line is
 * left out, and `truncated=1` says so once. */
void dn_put_operand(struct standin_call *call, const char *prefix,
                    const struct dn_operand *operand);

/* Opens a computing call: logs handle, stream and operands. Returns the call's fault, the status
 * of the first bad argument, or 0. The caller adds fields, then calls dn_finish(). */
int dn_begin(struct standin_call *call, cudnnHandle_t handle, const struct dn_operand *operands,
             size_t count);

/* Puts the kernel on the handle's stream if `status` is 0; closes the call. */
int dn_finish(struct standin_call *call, cudnnHandle_t handle, int status);

/* A tensor of a convolution. */
struct dn_use {
    const struct dn_shape *shape;
    bool written;
};

/* The same for a convolution, with the kernels that it runs: see cudnn_kernels.c. `use` matters
 * where `status` is 0. */
int dn_finish_convolution(struct standin_call *call, cudnnHandle_t handle, int status,
                          const struct dn_use *use, size_t count, int64_t groups);

#define DN_OPERANDS(...)                                                                           \
    (const struct dn_operand[]){__VA_ARGS__},                                                      \
        sizeof((const struct dn_operand[]){__VA_ARGS__}) / sizeof(struct dn_operand)
#define DN_TENSOR(role, desc, address)                                                             \
    { role, address, dn_tensor(desc), false, false }
#define DN_SEQUENCE(role, desc, address)                                                           \
    { role, address, dn_sequence(desc), false, false }
#define DN_FILTER(role, desc, address)                                                             \
    { role, address, dn_filter(desc), false, false }
#define DN_OPTIONAL(role, desc, address)                                                           \
    { role, address, dn_tensor(desc), true, false }
#define DN_PLAIN(role, address)                                                                    \
    { role, address, NULL, true, true }

/* The whole of a computing call that has operands only. */
#define DN_COMPUTE(...)                                                                            \
    LIB_ENTER(call);                                                                               \
    return dn_finish(&call, handle, dn_begin(&call, handle, DN_OPERANDS(__VA_ARGS__)))

#endif
