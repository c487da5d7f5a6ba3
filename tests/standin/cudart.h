/*
 * cudart.h - how the simulated runtime's functions are written.
 *
 *     CUDART(cudaMalloc, (void **devPtr, size_t size), (devPtr, size))
 *     {
 *         int status = ATTEMPT(devPtr ? sd_malloc(size, devPtr) : SD_INVALID_VALUE);
 *         PUT("size", size);
 *         return status;
 *     }
 *
 * makes the exported function: it enters the call in the log, runs the body, which a listener is
 * told of (tap_call.h), keeps the thread's last error and writes the line. The body has `call`.
 * ATTEMPT leaves its expression alone when the fault switch wants the call to fail. CUDART_TWIN
 * makes a second entry point for the per-thread default stream, with the same body.
 *
 * Functions may run in any thread; none is safe in a signal handler.
 */
#ifndef STANDIN_CUDART_H
#define STANDIN_CUDART_H

#include "cuda_types.h"

#include "copy.h"
#include "device.h"
#include "standin.h"
#include "tap_call.h"

/* As standin_enter(); the first call that uses the driver brings in CUDA_INJECTION64_PATH. */
void sd_cudart_enter(struct standin_call *call, const char *name, const void *caller);
/* The thread's last error: everything but 0 and 600 (not ready) is kept. Returns the status. */
int sd_cudart_leave(struct standin_call *call, int status);
extern __thread int sd_cudart_last_error;

#define UNPACK(...) __VA_ARGS__

#define CUDART_ENTRY(symbol, body, params, args, twin)                                             \
    cudaError_t symbol params;                                                                     \
    STANDIN_EXPORT cudaError_t symbol params {                                                     \
        struct standin_call call;                                                                  \
        sd_cudart_enter(&call, #symbol, __builtin_return_address(0));                              \
        call.per_thread = twin;                                                                    \
        int tap_status;                                                                            \
        TAP(SD_DOMAIN_RUNTIME, #symbol, params, args, tap_status, body(&call, UNPACK args))        \
        return (cudaError_t)sd_cudart_leave(&call, tap_status);                                    \
    }

#define CUDART(name, params, args)                                                                 \
    static int body_##name(struct standin_call *call, UNPACK params);                              \
    CUDART_ENTRY(name, body_##name, params, args, false)                                           \
    static int body_##name(struct standin_call *call, UNPACK params)

#define CUDART_TWIN(name, suffix, params, args)                                                    \
    static int body_##name(struct standin_call *call, UNPACK params);                              \
    CUDART_ENTRY(name, body_##name, params, args, false)                                           \
    CUDART_ENTRY(name##suffix, body_##name, params, args, true)                                    \
    static int body_##name(struct standin_call *call, UNPACK params)

/* Functions without parameters. */
#define CUDART_VOID(name)                                                                          \
    static int body_##name(struct standin_call *call);                                             \
    cudaError_t name(void);                                                                        \
    STANDIN_EXPORT cudaError_t name(void) {                                                        \
        struct standin_call call;                                                                  \
        sd_cudart_enter(&call, #name, __builtin_return_address(0));                                \
        int tap_status;                                                                            \
        TAP_VOID(SD_DOMAIN_RUNTIME, #name, tap_status, body_##name(&call))                         \
        return (cudaError_t)sd_cudart_leave(&call, tap_status);                                    \
    }                                                                                              \
    static int body_##name(struct standin_call *call)

#define ATTEMPT(expression) (call->fault ? call->fault : (expression))
#define PUT(key, value) standin_put(call, key, (uint64_t)(value))
#define PUT_INT(key, value) standin_put_signed(call, key, (int64_t)(value))
/* What an out-pointer tells, 0 after a failure. */
#define OUT(pointer) (status == SD_OK && (pointer) ? (uint64_t) * (pointer) : 0)
#define PUT_OUT(key, pointer) PUT(key, status == SD_OK && (pointer) ? (uintptr_t) * (pointer) : 0)
#define PUT_DEVICE() PUT_INT("device", sd_current_ordinal())

#endif
