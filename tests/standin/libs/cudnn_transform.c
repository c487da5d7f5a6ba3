/*
 * cudnn_transform.c - cuDNN's changes of layout by a descriptor of their own: what they pad, fold
 * and order (folding alone is not done). Any thread; not safe in a signal handler.
 */
#include <stdlib.h>
#include <string.h>

#include "cudnn_standin.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define EXPORT STANDIN_EXPORT cudnnStatus_t

struct cudnnTensorTransformStruct {
    int count, format;
    int before[CUDNN_DIM_MAX], after[CUDNN_DIM_MAX];
};

EXPORT cudnnCreateTensorTransformDescriptor(cudnnTensorTransformDescriptor_t *transform) {
    LIB_ENTER(call);
    int status = lib_status(&call, transform ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0 && !(*transform = calloc(1, sizeof **transform)))
        status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    return standin_leave(&call, status);
}

EXPORT cudnnDestroyTensorTransformDescriptor(cudnnTensorTransformDescriptor_t transform) {
    LIB_ENTER(call);
    if (!call.fault)
        free(transform);
    return standin_leave(&call, call.fault);
}

EXPORT cudnnSetTensorTransformDescriptor(cudnnTensorTransformDescriptor_t transform,
                                         const uint32_t count, const cudnnTensorFormat_t format,
                                         const int32_t before[], const int32_t after[],
                                         const uint32_t fold[],
                                         const cudnnFoldingDirection_t direction) {
    LIB_ENTER(call);
    bool good = transform && count > 2 && count <= CUDNN_DIM_MAX && (int)format >= 0 &&
                (int)format <= CUDNN_TENSOR_NHWC;
    int status = lib_status(&call, good ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0) {
        *transform =
            (struct cudnnTensorTransformStruct){.count = (int)count, .format = (int)format};
        if (before)
            memcpy(transform->before, before, count * sizeof *before);
        if (after)
            memcpy(transform->after, after, count * sizeof *after);
    }
    return standin_leave(&call, status);
}

EXPORT cudnnInitTransformDest(const cudnnTensorTransformDescriptor_t transform,
                              const cudnnTensorDescriptor_t source,
                              cudnnTensorDescriptor_t destination, size_t *size) {
    LIB_ENTER(call);
    bool good =
        transform && source && destination && size && transform->count == source->shape.count;
    int status = lib_status(&call, good ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0) {
        struct dn_shape *shape = &destination->shape;
        *shape = source->shape;
        shape->format = transform->format;
        for (int i = 0; i < shape->count; i++)
            shape->dims[i] += transform->before[i] + transform->after[i];
        dn_pack(shape);
        *size = dn_span(shape);
    }
    return standin_leave(&call, status);
}

EXPORT cudnnTransformTensorEx(cudnnHandle_t handle,
                              const cudnnTensorTransformDescriptor_t transform, const void *alpha,
                              const cudnnTensorDescriptor_t srcDesc, const void *src,
                              const void *beta, const cudnnTensorDescriptor_t dstDesc, void *dst) {
    DN_COMPUTE(DN_TENSOR("src", srcDesc, src), DN_TENSOR("dst", dstDesc, dst));
}

EXPORT cudnnTransformFilter(cudnnHandle_t handle, const cudnnTensorTransformDescriptor_t transform,
                            const void *alpha, const cudnnFilterDescriptor_t srcDesc,
                            const void *src, const void *beta,
                            const cudnnFilterDescriptor_t dstDesc, void *dst) {
    DN_COMPUTE(DN_FILTER("src", srcDesc, src), DN_FILTER("dst", dstDesc, dst));
}
