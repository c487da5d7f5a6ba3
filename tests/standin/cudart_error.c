/*
 * cudart_error.c - errors and versions of the simulated runtime. See cudart.h.
 */
#include "cudart.h"

#include "truth.h"

__thread int sd_cudart_last_error;

void sd_cudart_enter(struct standin_call *call, const char *name, const void *caller) {
    standin_enter(call, name, caller);
    sd_inject_before(call);
}

int sd_cudart_leave(struct standin_call *call, int status) {
    if (status != SD_OK && status != SD_NOT_READY)
        sd_cudart_last_error = status;
    return standin_leave(call, status);
}

/* What the made stubs answer, see libs/stub.h. */
long stub_answer(const char *name, const void *caller, const void *first, int status);
long stub_answer(const char *name, const void *caller, const void *first, int status) {
    (void)first;
    struct standin_call call;
    standin_enter(&call, name, caller);
    return sd_cudart_leave(&call, call.fault ? call.fault : status);
}

/* Both are quiet about themselves: they tell the last error and are none. */
#define LAST_ERROR(name, after)                                                                    \
    cudaError_t name(void);                                                                        \
    STANDIN_EXPORT cudaError_t name(void) {                                                        \
        struct standin_call call;                                                                  \
        standin_enter(&call, #name, __builtin_return_address(0));                                  \
        int status;                                                                                \
        TAP_VOID(SD_DOMAIN_RUNTIME, #name, status, call.fault ? call.fault : sd_cudart_last_error) \
        after;                                                                                     \
        return (cudaError_t)standin_leave(&call, status);                                          \
    }
LAST_ERROR(cudaGetLastError, sd_cudart_last_error = SD_OK)
LAST_ERROR(cudaPeekAtLastError, (void)0)

const char *cudaGetErrorName(cudaError_t error);
STANDIN_EXPORT const char *cudaGetErrorName(cudaError_t error) {
    standin_log("cudaGetErrorName", 0, __builtin_return_address(0), NULL);
    switch ((int)error) {
#define ERROR(number, name, text)                                                                  \
    case number:                                                                                   \
        return #name;
#include "errors.def"
    default:
        return "unrecognized error code";
    }
}

const char *cudaGetErrorString(cudaError_t error);
STANDIN_EXPORT const char *cudaGetErrorString(cudaError_t error) {
    standin_log("cudaGetErrorString", 0, __builtin_return_address(0), NULL);
    switch ((int)error) {
#define ERROR(number, name, text)                                                                  \
    case number:                                                                                   \
        return text;
#include "errors.def"
    default:
        return "unrecognized error code";
    }
}

static int tell(int *out, int value) {
    if (!out)
        return SD_INVALID_VALUE;
    *out = value;
    return SD_OK;
}

CUDART(cudaRuntimeGetVersion, (int *runtimeVersion), (runtimeVersion)) {
    return ATTEMPT(tell(runtimeVersion, CUDA_MAJOR >= 13 ? 13000 : 12080));
}

CUDART(cudaDriverGetVersion, (int *driverVersion), (driverVersion)) {
    return ATTEMPT(tell(driverVersion, standin_cuda_version()));
}

CUDART_VOID(cudaProfilerStart) {
    return ATTEMPT(SD_OK);
}

CUDART_VOID(cudaProfilerStop) {
    return ATTEMPT(SD_OK);
}
