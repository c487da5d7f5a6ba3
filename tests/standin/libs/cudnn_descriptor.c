/*
 * cudnn_descriptor.c - cuDNN's descriptors: tensors and filters in full; convolution in
 * cudnn_convolution.c, recurrent nets in cudnn_rnn.c; the others only exist, as nothing here
 * depends on their settings. Any thread; not safe in a signal handler.
 */
#include <stdlib.h>
#include <string.h>

#include "cudnn_standin.h"

/* ---- create and destroy ---- */

struct cudnnPoolingStruct {
    int count;
    int window[CUDNN_DIM_MAX], pad[CUDNN_DIM_MAX], stride[CUDNN_DIM_MAX];
};
struct cudnnActivationStruct {
    int mode, nan;
    double coefficient;
};
struct cudnnLRNStruct {
    int unused;
};
struct cudnnOpTensorStruct {
    int unused;
};
struct cudnnReduceTensorStruct {
    int unused;
};
struct cudnnSpatialTransformerStruct {
    int unused;
};

#define CREATE_DESTROY(Name)                                                                       \
    STANDIN_EXPORT cudnnStatus_t cudnnCreate##Name##Descriptor(                                    \
        cudnn##Name##Descriptor_t *descriptor) {                                                   \
        LIB_ENTER(call);                                                                           \
        int status = lib_status(&call, descriptor ? 0 : CUDNN_STATUS_BAD_PARAM);                   \
        if (status == 0 && !(*descriptor = calloc(1, sizeof **descriptor)))                        \
            status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;                           \
        lib_put_pointer(&call, "descriptor", status ? NULL : *descriptor);                         \
        return standin_leave(&call, status);                                                       \
    }                                                                                              \
    STANDIN_EXPORT cudnnStatus_t cudnnDestroy##Name##Descriptor(                                   \
        cudnn##Name##Descriptor_t descriptor) {                                                    \
        LIB_ENTER(call);                                                                           \
        lib_put_pointer(&call, "descriptor", descriptor);                                          \
        if (!call.fault)                                                                           \
            free(descriptor);                                                                      \
        return standin_leave(&call, call.fault);                                                   \
    }

CREATE_DESTROY(Tensor)
CREATE_DESTROY(Filter)
CREATE_DESTROY(Convolution)
CREATE_DESTROY(Pooling)
CREATE_DESTROY(Activation)
CREATE_DESTROY(LRN)
CREATE_DESTROY(OpTensor)
CREATE_DESTROY(ReduceTensor)
CREATE_DESTROY(SpatialTransformer)
CREATE_DESTROY(RNNData)

/* ---- tensors and filters ---- */

int dn_vector(const struct dn_shape *shape) {
    if (shape->format != CUDNN_TENSOR_NCHW_VECT_C)
        return 1;
    return shape->type == CUDNN_DATA_INT8x32                                       ? 32
           : shape->type == CUDNN_DATA_INT8x4 || shape->type == CUDNN_DATA_UINT8x4 ? 4
                                                                                   : 0;
}

void dn_pack(struct dn_shape *shape) {
    int64_t stride = 1;
    bool channels_last = shape->format == CUDNN_TENSOR_NHWC && shape->count > 2;
    if (channels_last) {
        shape->strides[1] = 1;
        stride = shape->dims[1];
    }
    for (int i = shape->count - 1; i >= 0; i--) {
        if (i == 1 && channels_last)
            continue;
        shape->strides[i] = stride;
        stride *= i == 1 ? shape->dims[i] / dn_vector(shape) : shape->dims[i];
    }
}

/* Sets a shape from int arrays; without `strides` it is packed in `format`. */
static int set_shape(struct standin_call *call, struct dn_shape *shape, int type, int format,
                     int count, int least, const int *dims, const int *strides) {
    lib_put_pointer(call, "descriptor", shape);
    if (call->fault)
        return call->fault;
    if (!shape || !dims || count < least)
        return CUDNN_STATUS_BAD_PARAM;
    if (type < 0 || type > CUDNN_DATA_BFLOAT16 ||
        (!strides && (format < 0 || format > CUDNN_TENSOR_NCHW_VECT_C)))
        return CUDNN_STATUS_BAD_PARAM;
    if (count > CUDNN_DIM_MAX)
        return CUDNN_STATUS_NOT_SUPPORTED;
    struct dn_shape made = {.type = type, .format = strides ? -1 : format, .count = count};
    if (dn_vector(&made) == 0 || (count > 1 && dims[1] % dn_vector(&made)))
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < count; i++) {
        if (dims[i] <= 0 || (strides && strides[i] == 0))
            return CUDNN_STATUS_BAD_PARAM;
        made.dims[i] = dims[i];
        made.strides[i] = strides ? strides[i] : 0;
    }
    if (!strides)
        dn_pack(&made);
    *shape = made;
    dn_put_list(call, "dims", made.dims, count);
    dn_put_list(call, "strides", made.strides, count);
    return 0;
}

#define TENSOR_LEAST 2 /* dimensions */
#define FILTER_LEAST 3

static struct dn_shape *shape_of_tensor(cudnnTensorDescriptor_t tensor) {
    return tensor ? &tensor->shape : NULL;
}

static struct dn_shape *shape_of_filter(cudnnFilterDescriptor_t filter) {
    return filter ? &filter->shape : NULL;
}

STANDIN_EXPORT cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor,
                                                        cudnnTensorFormat_t format,
                                                        cudnnDataType_t type, int n, int c, int h,
                                                        int w) {
    LIB_ENTER(call);
    int dims[] = {n, c, h, w};
    return standin_leave(&call, set_shape(&call, shape_of_tensor(tensor), type, format, 4,
                                          TENSOR_LEAST, dims, NULL));
}

STANDIN_EXPORT cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensor,
                                                          cudnnDataType_t type, int n, int c, int h,
                                                          int w, int n_stride, int c_stride,
                                                          int h_stride, int w_stride) {
    LIB_ENTER(call);
    int dims[] = {n, c, h, w};
    int strides[] = {n_stride, c_stride, h_stride, w_stride};
    return standin_leave(
        &call, set_shape(&call, shape_of_tensor(tensor), type, -1, 4, TENSOR_LEAST, dims, strides));
}

STANDIN_EXPORT cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor,
                                                        cudnnDataType_t type, int count,
                                                        const int dims[], const int strides[]) {
    LIB_ENTER(call);
    int status = strides ? set_shape(&call, shape_of_tensor(tensor), type, -1, count, TENSOR_LEAST,
                                     dims, strides)
                         : lib_status(&call, CUDNN_STATUS_BAD_PARAM);
    return standin_leave(&call, status);
}

STANDIN_EXPORT cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t tensor,
                                                          cudnnTensorFormat_t format,
                                                          cudnnDataType_t type, int count,
                                                          const int dims[]) {
    LIB_ENTER(call);
    return standin_leave(&call, set_shape(&call, shape_of_tensor(tensor), type, format, count,
                                          TENSOR_LEAST, dims, NULL));
}

STANDIN_EXPORT cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter,
                                                        cudnnDataType_t type,
                                                        cudnnTensorFormat_t format, int k, int c,
                                                        int h, int w) {
    LIB_ENTER(call);
    int dims[] = {k, c, h, w};
    return standin_leave(&call, set_shape(&call, shape_of_filter(filter), type, format, 4,
                                          FILTER_LEAST, dims, NULL));
}

STANDIN_EXPORT cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter,
                                                        cudnnDataType_t type,
                                                        cudnnTensorFormat_t format, int count,
                                                        const int dims[]) {
    LIB_ENTER(call);
    return standin_leave(&call, set_shape(&call, shape_of_filter(filter), type, format, count,
                                          FILTER_LEAST, dims, NULL));
}

/* ---- what was set ---- */

/* At most `wanted` dimensions; `strides` may be NULL. */
static int get_shape(const struct dn_shape *shape, int wanted, cudnnDataType_t *type, int *count,
                     int *dims, int *strides) {
    if (!shape || !type || !count || !dims)
        return CUDNN_STATUS_BAD_PARAM;
    *type = (cudnnDataType_t)shape->type;
    *count = shape->count;
    for (int i = 0; i < wanted && i < shape->count; i++) {
        dims[i] = (int)shape->dims[i];
        if (strides)
            strides[i] = (int)shape->strides[i];
    }
    return 0;
}

STANDIN_EXPORT cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t tensor,
                                                        int wanted, cudnnDataType_t *type,
                                                        int *count, int dims[], int strides[]) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "descriptor", tensor);
    return standin_leave(
        &call, lib_status(&call, get_shape(dn_tensor(tensor), wanted, type, count, dims, strides)));
}

STANDIN_EXPORT cudnnStatus_t cudnnGetTensor4dDescriptor(const cudnnTensorDescriptor_t tensor,
                                                        cudnnDataType_t *type, int *n, int *c,
                                                        int *h, int *w, int *n_stride,
                                                        int *c_stride, int *h_stride,
                                                        int *w_stride) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "descriptor", tensor);
    int count, dims[4] = {0}, strides[4] = {0};
    int status = lib_status(&call, get_shape(dn_tensor(tensor), 4, type, &count, dims, strides));
    if (status == 0) {
        *n = dims[0], *c = dims[1], *h = dims[2], *w = dims[3];
        *n_stride = strides[0], *c_stride = strides[1];
        *h_stride = strides[2], *w_stride = strides[3];
    }
    return standin_leave(&call, status);
}

STANDIN_EXPORT cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t filter,
                                                        int wanted, cudnnDataType_t *type,
                                                        cudnnTensorFormat_t *format, int *count,
                                                        int dims[]) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "descriptor", filter);
    int status = lib_status(&call, get_shape(dn_filter(filter), wanted, type, count, dims, NULL));
    if (status == 0 && format)
        *format = (cudnnTensorFormat_t)filter->shape.format;
    return standin_leave(&call, status);
}

STANDIN_EXPORT cudnnStatus_t cudnnGetFilter4dDescriptor(const cudnnFilterDescriptor_t filter,
                                                        cudnnDataType_t *type,
                                                        cudnnTensorFormat_t *format, int *k, int *c,
                                                        int *h, int *w) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "descriptor", filter);
    int count, dims[4] = {0};
    int status = lib_status(&call, get_shape(dn_filter(filter), 4, type, &count, dims, NULL));
    if (status == 0) {
        *format = (cudnnTensorFormat_t)filter->shape.format;
        *k = dims[0], *c = dims[1], *h = dims[2], *w = dims[3];
    }
    return standin_leave(&call, status);
}

static int size_in_bytes(const struct dn_shape *shape, size_t *size) {
    if (!shape || !size)
        return CUDNN_STATUS_BAD_PARAM;
    *size = dn_span(shape);
    return 0;
}

STANDIN_EXPORT cudnnStatus_t cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t tensor,
                                                       size_t *size) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "descriptor", tensor);
    return standin_leave(&call, lib_status(&call, size_in_bytes(dn_tensor(tensor), size)));
}

STANDIN_EXPORT cudnnStatus_t cudnnGetFilterSizeInBytes(const cudnnFilterDescriptor_t filter,
                                                       size_t *size) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "descriptor", filter);
    return standin_leave(&call, lib_status(&call, size_in_bytes(dn_filter(filter), size)));
}

/* ---- the others ---- */

STANDIN_EXPORT cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t pooling,
                                                         cudnnPoolingMode_t mode,
                                                         cudnnNanPropagation_t nan, int window_h,
                                                         int window_w, int pad_h, int pad_w,
                                                         int stride_h, int stride_w) {
    LIB_ENTER(call);
    (void)mode;
    (void)nan;
    lib_put_pointer(&call, "descriptor", pooling);
    bool good = pooling && window_h > 0 && window_w > 0 && stride_h > 0 && stride_w > 0;
    int status = lib_status(&call, good ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0)
        *pooling = (struct cudnnPoolingStruct){
            2, {window_h, window_w}, {pad_h, pad_w}, {stride_h, stride_w}};
    return standin_leave(&call, status);
}

STANDIN_EXPORT cudnnStatus_t cudnnSetPoolingNdDescriptor(cudnnPoolingDescriptor_t pooling,
                                                         const cudnnPoolingMode_t mode,
                                                         const cudnnNanPropagation_t nan, int count,
                                                         const int window[], const int pad[],
                                                         const int stride[]) {
    LIB_ENTER(call);
    (void)mode;
    (void)nan;
    lib_put_pointer(&call, "descriptor", pooling);
    bool good = pooling && count > 0 && count <= CUDNN_DIM_MAX - 2 && window && pad && stride;
    int status = lib_status(&call, good ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0) {
        pooling->count = count;
        memcpy(pooling->window, window, (size_t)count * sizeof *window);
        memcpy(pooling->pad, pad, (size_t)count * sizeof *pad);
        memcpy(pooling->stride, stride, (size_t)count * sizeof *stride);
    }
    return standin_leave(&call, status);
}

static int pooled_dims(cudnnPoolingDescriptor_t pooling, cudnnTensorDescriptor_t input, int count,
                       int *dims) {
    if (!pooling || !input || !dims)
        return CUDNN_STATUS_BAD_PARAM;
    if (count != input->shape.count || pooling->count != count - 2)
        return CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; i < count; i++) {
        dims[i] = (int)input->shape.dims[i];
        if (i >= 2)
            dims[i] = 1 + (dims[i] + 2 * pooling->pad[i - 2] - pooling->window[i - 2]) /
                              pooling->stride[i - 2];
    }
    return 0;
}

STANDIN_EXPORT cudnnStatus_t
cudnnGetPoolingNdForwardOutputDim(const cudnnPoolingDescriptor_t pooling,
                                  const cudnnTensorDescriptor_t input, int count, int dims[]) {
    LIB_ENTER(call);
    return standin_leave(&call, lib_status(&call, pooled_dims(pooling, input, count, dims)));
}

STANDIN_EXPORT cudnnStatus_t cudnnGetPooling2dForwardOutputDim(
    const cudnnPoolingDescriptor_t pooling, const cudnnTensorDescriptor_t input, int *n, int *c,
    int *h, int *w) {
    LIB_ENTER(call);
    int dims[4];
    int status = lib_status(&call, pooled_dims(pooling, input, 4, dims));
    if (status == 0)
        *n = dims[0], *c = dims[1], *h = dims[2], *w = dims[3];
    return standin_leave(&call, status);
}

STANDIN_EXPORT cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation,
                                                          cudnnActivationMode_t mode,
                                                          cudnnNanPropagation_t nan,
                                                          double coefficient) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "descriptor", activation);
    int status = lib_status(&call, activation ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0)
        *activation = (struct cudnnActivationStruct){(int)mode, (int)nan, coefficient};
    return standin_leave(&call, status);
}

STANDIN_EXPORT cudnnStatus_t cudnnGetActivationDescriptor(
    const cudnnActivationDescriptor_t activation, cudnnActivationMode_t *mode,
    cudnnNanPropagation_t *nan, double *coefficient) {
    LIB_ENTER(call);
    bool good = activation && mode && nan && coefficient;
    int status = lib_status(&call, good ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0) {
        *mode = (cudnnActivationMode_t)activation->mode;
        *nan = (cudnnNanPropagation_t)activation->nan;
        *coefficient = activation->coefficient;
    }
    return standin_leave(&call, status);
}

/* Setters whose values nothing here reads. */
#define SETTER(name, Type, ...)                                                                    \
    STANDIN_EXPORT cudnnStatus_t name(Type descriptor, __VA_ARGS__) {                              \
        LIB_ENTER(call);                                                                           \
        lib_put_pointer(&call, "descriptor", descriptor);                                          \
        return standin_leave(&call, lib_status(&call, descriptor ? 0 : CUDNN_STATUS_BAD_PARAM));   \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter"
SETTER(cudnnSetLRNDescriptor, cudnnLRNDescriptor_t, unsigned n, double alpha, double beta, double k)
SETTER(cudnnSetOpTensorDescriptor, cudnnOpTensorDescriptor_t, cudnnOpTensorOp_t op,
       cudnnDataType_t compute, cudnnNanPropagation_t nan)
SETTER(cudnnSetReduceTensorDescriptor, cudnnReduceTensorDescriptor_t, cudnnReduceTensorOp_t op,
       cudnnDataType_t compute, cudnnNanPropagation_t nan, cudnnReduceTensorIndices_t indices,
       cudnnIndicesType_t indices_type)
SETTER(cudnnSetSpatialTransformerNdDescriptor, cudnnSpatialTransformerDescriptor_t,
       cudnnSamplerType_t sampler, cudnnDataType_t type, const int count, const int dims[])
