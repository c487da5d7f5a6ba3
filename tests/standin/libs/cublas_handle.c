/*
 * cublas_handle.c - cuBLAS handles: creation, stream, workspace, modes, versions; and what the
 * stubs of all other functions do. Any thread; one lock, held for list operations only; not safe
 * in a signal handler.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "cublas.h"
#include "stub.h"

#define DEFAULT_WORKSPACE                                                                          \
    (4 << 20) /* what the real library takes at creation (32 MiB on Hopper)                        \
               */
#define WORKSPACE_ALIGNMENT 256

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cublasContext *handles;

bool cublas_handle_live(const struct cublasContext *handle) {
    pthread_mutex_lock(&handles_lock);
    const struct cublasContext *known = handles;
    while (known && known != handle)
        known = known->next;
    pthread_mutex_unlock(&handles_lock);
    return known != NULL;
}

int cublas_check_handle(struct standin_call *call, const struct cublasContext *handle) {
    lib_put_pointer(call, "handle", handle);
    return lib_status(call, cublas_handle_live(handle) ? 0 : CUBLAS_STATUS_NOT_INITIALIZED);
}

int cublas_launch(const struct cublasContext *handle, const char *kernel) {
    if (standin_launch((standin_stream)handle->stream, kernel, NULL, NULL, 0))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return CUBLAS_STATUS_SUCCESS;
}

/* Level 1 to 3 functions without code of their own: a kernel on the handle's stream, no results.
 * The functions of the old API have no handle, and answer without a kernel. */
long stub_answer(const char *name, const void *caller, const void *first, int status) {
    struct standin_call call;
    standin_enter(&call, name, caller);
    if (call.fault) {
        status = call.fault;
    } else if (cublas_handle_live(first)) {
        char kernel[128];
        snprintf(kernel, sizeof kernel, "%s_kernel", name);
        lib_put_pointer(&call, "handle", first);
        status = cublas_launch(first, kernel);
    }
    return standin_leave(&call, status);
}

static int create(cublasHandle_t *out) {
    if (!out)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (standin_need_context())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    struct cublasContext *handle = calloc(1, sizeof *handle);
    if (!handle)
        return CUBLAS_STATUS_ALLOC_FAILED;
    if (standin_internal_alloc(&handle->own_workspace, DEFAULT_WORKSPACE)) {
        free(handle);
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    handle->lt_magic = STANDIN_CUBLASLT_MAGIC;
    handle->workspace = handle->own_workspace;
    handle->workspace_size = DEFAULT_WORKSPACE;
    pthread_mutex_lock(&handles_lock);
    handle->next = handles;
    handles = handle;
    pthread_mutex_unlock(&handles_lock);
    *out = handle;
    return CUBLAS_STATUS_SUCCESS;
}

STANDIN_EXPORT cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    LIB_ENTER(call);
    int status = call.fault ? call.fault : create(handle);
    lib_put_pointer(&call, "handle", status ? NULL : *handle);
    return standin_leave(&call, status);
}

static void destroy(struct cublasContext *handle) {
    standin_stream_wait((standin_stream)handle->stream);
    pthread_mutex_lock(&handles_lock);
    struct cublasContext **link = &handles;
    while (*link && *link != handle)
        link = &(*link)->next;
    if (*link)
        *link = handle->next;
    pthread_mutex_unlock(&handles_lock);
    standin_internal_free(handle->own_workspace);
    handle->lt_magic = 0;
    free(handle);
}

STANDIN_EXPORT cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    LIB_ENTER(call);
    int status = cublas_check_handle(&call, handle);
    if (status == 0)
        destroy(handle);
    return standin_leave(&call, status);
}

STANDIN_EXPORT cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    LIB_ENTER(call);
    int status = cublas_check_handle(&call, handle);
    lib_put_pointer(&call, "stream", stream);
    if (status == 0) {
        handle->stream = stream;
        /* The real one goes back to its own workspace too. */
        handle->workspace = handle->own_workspace;
        handle->workspace_size = DEFAULT_WORKSPACE;
    }
    return standin_leave(&call, status);
}

STANDIN_EXPORT cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace,
                                                    size_t size) {
    LIB_ENTER(call);
    int status = cublas_check_handle(&call, handle);
    lib_put_pointer(&call, "ptr", workspace);
    standin_put(&call, "size", size);
    if (status == 0 && (uintptr_t)workspace % WORKSPACE_ALIGNMENT)
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (status == 0) {
        handle->workspace = workspace;
        handle->workspace_size = size;
    }
    return standin_leave(&call, status);
}

/* Getters and setters of one field. */
#define SETTER(name, type, field)                                                                  \
    STANDIN_EXPORT cublasStatus_t name(cublasHandle_t handle, type value) {                        \
        LIB_ENTER(call);                                                                           \
        int status = cublas_check_handle(&call, handle);                                           \
        standin_put_signed(&call, "value", value);                                                 \
        if (status == 0)                                                                           \
            handle->field = value;                                                                 \
        return standin_leave(&call, status);                                                       \
    }

#define GETTER(name, type, field)                                                                  \
    STANDIN_EXPORT cublasStatus_t name(cublasHandle_t handle, type *value) {                       \
        LIB_ENTER(call);                                                                           \
        int status = cublas_check_handle(&call, handle);                                           \
        if (status == 0 && !value)                                                                 \
            status = CUBLAS_STATUS_INVALID_VALUE;                                                  \
        if (status == 0)                                                                           \
            *value = (type)handle->field;                                                          \
        return standin_leave(&call, status);                                                       \
    }

GETTER(cublasGetStream_v2, cudaStream_t, stream)
SETTER(cublasSetPointerMode_v2, cublasPointerMode_t, pointer_mode)
GETTER(cublasGetPointerMode_v2, cublasPointerMode_t, pointer_mode)
SETTER(cublasSetAtomicsMode, cublasAtomicsMode_t, atomics_mode)
GETTER(cublasGetAtomicsMode, cublasAtomicsMode_t, atomics_mode)
SETTER(cublasSetMathMode, cublasMath_t, math_mode)
GETTER(cublasGetMathMode, cublasMath_t, math_mode)
SETTER(cublasSetSmCountTarget, int, sm_count_target)
GETTER(cublasGetSmCountTarget, int, sm_count_target)

STANDIN_EXPORT cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "handle", handle); /* not looked at by the real one either */
    int status = lib_status(&call, version ? 0 : CUBLAS_STATUS_INVALID_VALUE);
    if (status == 0)
        *version = STANDIN_CUBLAS_VERSION;
    return standin_leave(&call, status);
}

STANDIN_EXPORT cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value) {
    LIB_ENTER(call);
    int status = lib_status(&call, value && type <= PATCH_LEVEL ? 0 : CUBLAS_STATUS_INVALID_VALUE);
    if (status == 0)
        *value = type == MAJOR_VERSION   ? STANDIN_CUBLAS_VERSION / 10000
                 : type == MINOR_VERSION ? STANDIN_CUBLAS_VERSION / 100 % 100
                                         : STANDIN_CUBLAS_VERSION % 100;
    return standin_leave(&call, status);
}

STANDIN_EXPORT size_t cublasGetCudartVersion(void) {
    return (size_t)standin_cuda_version();
}

STANDIN_EXPORT const char *cublasGetStatusName(cublasStatus_t status) {
    switch ((int)status) {
    case CUBLAS_STATUS_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
        return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_MAPPING_ERROR:
        return "CUBLAS_STATUS_MAPPING_ERROR";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
        return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_LICENSE_ERROR:
        return "CUBLAS_STATUS_LICENSE_ERROR";
    default:
        return "CUBLAS_STATUS_UNKNOWN";
    }
}

STANDIN_EXPORT const char *cublasGetStatusString(cublasStatus_t status) {
    return cublasGetStatusName(status);
}
