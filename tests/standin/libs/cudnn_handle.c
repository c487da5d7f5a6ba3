/*
 * cudnn_handle.c - cuDNN handles, versions, error texts; and what all computing calls share (see
 * cudnn_standin.h). Any thread; not safe in a signal handler.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudnn_standin.h"

#define HANDLE_MAGIC 0x444e4e /* 'DNN' */
#define LINE_RESERVE 800      /* room kept for one operand and what comes after the operands */

bool dn_handle_good(cudnnHandle_t handle) {
    return handle && handle->magic == HANDLE_MAGIC;
}

STANDIN_EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
    LIB_ENTER(call);
    int status = lib_status(&call, handle ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0 && standin_need_context())
        status = CUDNN_STATUS_NOT_INITIALIZED;
    if (status == 0) {
        *handle = calloc(1, sizeof **handle);
        if (*handle)
            (*handle)->magic = HANDLE_MAGIC;
        else
            status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    }
    lib_put_pointer(&call, "handle", status ? NULL : *handle);
    return standin_leave(&call, status);
}

STANDIN_EXPORT cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "handle", handle);
    int status = lib_status(&call, !handle || dn_handle_good(handle) ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0 && handle) {
        handle->magic = 0;
        free(handle);
    }
    return standin_leave(&call, status);
}

STANDIN_EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "handle", handle);
    lib_put_pointer(&call, "stream", stream);
    int status = lib_status(&call, dn_handle_good(handle) ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0 && !standin_stream_valid((standin_stream)stream))
        status = CUDNN_STATUS_BAD_PARAM;
    if (status == 0)
        handle->stream = stream;
    return standin_leave(&call, status);
}

STANDIN_EXPORT cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "handle", handle);
    int status = lib_status(&call, dn_handle_good(handle) && stream ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0)
        *stream = handle->stream;
    return standin_leave(&call, status);
}

/* ---- versions and texts ---- */

STANDIN_EXPORT size_t cudnnGetVersion(void) {
    return STANDIN_CUDNN_VERSION;
}

STANDIN_EXPORT size_t cudnnGetMaxDeviceVersion(void) {
    return 1210; /* compute capability 12.1 */
}

STANDIN_EXPORT size_t cudnnGetCudartVersion(void) {
    return (size_t)standin_cuda_version();
}

STANDIN_EXPORT cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int *value) {
    LIB_ENTER(call);
    int status = lib_status(&call, value && type <= PATCH_LEVEL ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0)
        *value = type == MAJOR_VERSION   ? STANDIN_CUDNN_VERSION / 10000
                 : type == MINOR_VERSION ? STANDIN_CUDNN_VERSION / 100 % 100
                                         : STANDIN_CUDNN_VERSION % 100;
    return standin_leave(&call, status);
}

#define VERSION_CHECK(name)                                                                        \
    STANDIN_EXPORT cudnnStatus_t name(void) {                                                      \
        LIB_ENTER(call);                                                                           \
        return standin_leave(&call, call.fault);                                                   \
    }

VERSION_CHECK(cudnnGraphVersionCheck)
VERSION_CHECK(cudnnOpsVersionCheck)
VERSION_CHECK(cudnnCnnVersionCheck)
VERSION_CHECK(cudnnAdvVersionCheck)

STANDIN_EXPORT const char *cudnnGetErrorString(cudnnStatus_t status) {
    switch ((int)status) {
    case CUDNN_STATUS_SUCCESS:
        return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
        return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM:
        return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_BAD_PARAM_NULL_POINTER:
        return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    case CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED:
        return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
    case CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND:
        return "CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND";
    case CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT:
        return "CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT";
    case CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH:
        return "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH";
    case CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE:
        return "CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE";
    case CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE:
        return "CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE";
    case CUDNN_STATUS_NOT_SUPPORTED:
        return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED:
        return "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED";
    case CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED:
        return "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED";
    case CUDNN_STATUS_EXECUTION_FAILED:
        return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
        return "CUDNN_STATUS_INTERNAL_ERROR";
    }
}

STANDIN_EXPORT void cudnnGetLastErrorString(char *message, size_t max_size) {
    if (message && max_size)
        *message = 0;
}

/* ---- computing calls ---- */

size_t dn_element_size(int type) {
    switch (type) {
    case CUDNN_DATA_DOUBLE:
    case CUDNN_DATA_INT64:
        return 8;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
        return 2;
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
    case CUDNN_DATA_BOOLEAN:
    case CUDNN_DATA_FP8_E4M3:
    case CUDNN_DATA_FP8_E5M2:
        return 1;
    case CUDNN_DATA_INT8x32:
        return 32;
    default:
        return 4;
    }
}

uint64_t dn_span(const struct dn_shape *shape) {
    int64_t last = 0;
    for (int i = 0; i < shape->count; i++) {
        if (shape->dims[i] == 0)
            return 0;
        int64_t size = shape->dims[i] / (i == 1 && dn_vector(shape) ? dn_vector(shape) : 1);
        last += (size - 1) * shape->strides[i];
    }
    return (uint64_t)(last + 1) * dn_element_size(shape->type);
}

void dn_put_list(struct standin_call *call, const char *key, const int64_t *values, int count) {
    char text[CUDNN_DIM_MAX * 21 + 1] = "";
    size_t used = 0;
    for (int i = 0; i < count && i < CUDNN_DIM_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%lld", i ? "," : "",
                                 (long long)values[i]);
    standin_put_text(call, key, text);
}

void dn_put_operand(struct standin_call *call, const char *prefix,
                    const struct dn_operand *operand) {
    char key[64];
    if (call->used > sizeof call->text - LINE_RESERVE) {
        if (!memmem(call->text, call->used, "truncated=", 10))
            standin_put(call, "truncated", 1);
        return;
    }
    snprintf(key, sizeof key, "%s%s", prefix, operand->role);
    lib_put_pointer(call, key, operand->address);
    if (!operand->shape)
        return;
    snprintf(key, sizeof key, "%s%s_type", prefix, operand->role);
    standin_put_signed(call, key, operand->shape->type);
    snprintf(key, sizeof key, "%s%s_dims", prefix, operand->role);
    dn_put_list(call, key, operand->shape->dims, operand->shape->count);
    snprintf(key, sizeof key, "%s%s_strides", prefix, operand->role);
    dn_put_list(call, key, operand->shape->strides, operand->shape->count);
}

static int check_operand(const struct dn_operand *operand) {
    if (!operand->address)
        return operand->optional ? 0 : CUDNN_STATUS_BAD_PARAM;
    if (!operand->plain && !operand->shape)
        return CUDNN_STATUS_BAD_PARAM;
    if (!operand->plain && operand->shape->count == 0)
        return CUDNN_STATUS_BAD_PARAM; /* never set */
    uint64_t span = operand->plain ? 1 : dn_span(operand->shape);
    if (span && !standin_reachable(operand->address, span))
        return CUDNN_STATUS_EXECUTION_FAILED;
    return 0;
}

int dn_begin(struct standin_call *call, cudnnHandle_t handle, const struct dn_operand *operands,
             size_t count) {
    bool good = dn_handle_good(handle);
    int status = lib_status(call, good ? 0 : CUDNN_STATUS_BAD_PARAM);
    lib_put_pointer(call, "handle", handle);
    if (good)
        lib_put_pointer(call, "stream", handle->stream);
    for (size_t i = 0; i < count; i++) {
        dn_put_operand(call, "", &operands[i]);
        if (status == 0)
            status = check_operand(&operands[i]);
    }
    return status;
}

int dn_finish(struct standin_call *call, cudnnHandle_t handle, int status) {
    if (status == 0) {
        char kernel[128];
        snprintf(kernel, sizeof kernel, "%s_kernel", call->name);
        if (standin_launch((standin_stream)handle->stream, kernel, NULL, NULL, 0))
            status = CUDNN_STATUS_EXECUTION_FAILED;
    }
    return standin_leave(call, status);
}
