/*
 * driver.h - how the simulated driver's functions are written, and the driver's types.
 *
 *     DRIVER(cuMemGetInfo_v2, (size_t *available, size_t *total), (available, total))
 *     { ... body with `call`, returns the status ... }
 *
 * Names are the exported ones, with their version suffix. As in the real driver, a call before
 * cuInit is 3, one that needs a context where none is current is 201.
 *
 * Functions may run in any thread; none is safe in a signal handler.
 */
#ifndef STANDIN_DRIVER_H
#define STANDIN_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "standin.h"
#include "tap_call.h"

#ifdef STANDIN_NVIDIA_HEADERS
#include <cuda.h>
/* The header renames these to their newer form; here both are written. */
#undef cuDeviceGetUuid
#undef cuEventElapsedTime
#undef cuGraphInstantiate
#else
#include "layoutspy/api/types.h"

/* What the table's prototypes use is there; here is the rest. */
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
typedef void (*CUhostFn)(void *userData);
typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;
typedef enum CUdevice_attribute_enum {
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1
} CUdevice_attribute;
typedef enum CUdevice_P2PAttribute_enum {
    CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 1
} CUdevice_P2PAttribute;
typedef enum CUfunction_attribute_enum {
    CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0
} CUfunction_attribute;
typedef enum CUfunc_cache_enum { CU_FUNC_CACHE_PREFER_NONE = 0 } CUfunc_cache;
typedef enum CUpointer_attribute_enum { CU_POINTER_ATTRIBUTE_CONTEXT = 1 } CUpointer_attribute;
typedef enum CUlimit_enum { CU_LIMIT_STACK_SIZE = 0 } CUlimit;
typedef enum CUjit_option_enum { CU_JIT_MAX_REGISTERS = 0 } CUjit_option;
typedef enum CUlibraryOption_enum {
    CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE = 0
} CUlibraryOption;
typedef enum CUmoduleLoadingMode_enum { CU_MODULE_EAGER_LOADING = 1 } CUmoduleLoadingMode;
typedef enum CUstreamCaptureStatus_enum { CU_STREAM_CAPTURE_STATUS_NONE = 0 } CUstreamCaptureStatus;
typedef enum CUdriverProcAddressQueryResult_enum {
    CU_GET_PROC_ADDRESS_SUCCESS = 0
} CUdriverProcAddressQueryResult;
typedef unsigned long long cuuint64_t;
typedef enum CUmemAllocationType_enum { CU_MEM_ALLOCATION_TYPE_INVALID = 0 } CUmemAllocationType;
typedef enum CUmemAllocationHandleType_enum {
    CU_MEM_HANDLE_TYPE_NONE = 0
} CUmemAllocationHandleType;
typedef enum CUmemLocationType_enum { CU_MEM_LOCATION_TYPE_INVALID = 0 } CUmemLocationType;
typedef enum CUmemAccess_flags_enum { CU_MEM_ACCESS_FLAGS_PROT_NONE = 0 } CUmemAccess_flags;
typedef enum CUmemAllocationGranularity_flags_enum {
    CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0
} CUmemAllocationGranularity_flags;
typedef struct CUmemLocation_st {
    CUmemLocationType type;
    int id;
} CUmemLocation;
typedef struct CUmemAccessDesc_st {
    CUmemLocation location;
    CUmemAccess_flags flags;
} CUmemAccessDesc;
typedef enum CUgraphInstantiateResult_enum {
    CUDA_GRAPH_INSTANTIATE_SUCCESS = 0
} CUgraphInstantiateResult;
typedef struct CUDA_GRAPH_INSTANTIATE_PARAMS_st {
    cuuint64_t flags;
    CUstream hUploadStream;
    CUgraphNode hErrNode_out;
    CUgraphInstantiateResult result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;
#endif

_Static_assert(sizeof(CUmemAllocationProp) == 32, "as in cuda.h");
_Static_assert(sizeof(CUlaunchConfig) == 56, "as in cuda.h");
_Static_assert(sizeof(CUDA_MEMCPY2D) == 128, "as in cuda.h");
_Static_assert(sizeof(CUDA_MEMCPY3D) == 200, "as in cuda.h");
_Static_assert(sizeof(CUDA_ARRAY3D_DESCRIPTOR) == 40, "as in cuda.h");
_Static_assert(sizeof(CUmemPoolProps) == 88, "as in cuda.h");

#define UNPACK(...) __VA_ARGS__

#define DRIVER_ENTRY(symbol, body, params, args, twin)                                             \
    CUresult symbol params;                                                                        \
    STANDIN_EXPORT CUresult symbol params {                                                        \
        struct standin_call call;                                                                  \
        standin_enter(&call, #symbol, __builtin_return_address(0));                                \
        call.per_thread = twin;                                                                    \
        int refused = call.fault ? call.fault : sd_driver_used() ? SD_OK : SD_INITIALIZATION;      \
        int tap_status;                                                                            \
        TAP(SD_DOMAIN_DRIVER, #symbol, params, args, tap_status,                                   \
            refused ? refused : body(&call, UNPACK args))                                          \
        return (CUresult)standin_leave(&call, tap_status);                                         \
    }

#define DRIVER(name, params, args)                                                                 \
    static int body_##name(struct standin_call *call, UNPACK params);                              \
    DRIVER_ENTRY(name, body_##name, params, args, false)                                           \
    static int body_##name(__attribute__((unused)) struct standin_call *call, UNPACK params)

/* For the table's rows: the body runs for a refused call too, to log its fields, and leaves
 * everything else alone where call->fault is set (ATTEMPT). */
#define DRIVER_LOGGED_ENTRY(symbol, body, params, args, twin)                                      \
    CUresult symbol params;                                                                        \
    STANDIN_EXPORT CUresult symbol params {                                                        \
        struct standin_call call;                                                                  \
        standin_enter(&call, #symbol, __builtin_return_address(0));                                \
        call.per_thread = twin;                                                                    \
        if (!call.fault && !sd_driver_used())                                                      \
            call.fault = SD_INITIALIZATION;                                                        \
        int tap_status;                                                                            \
        TAP(SD_DOMAIN_DRIVER, #symbol, params, args, tap_status, body(&call, UNPACK args))         \
        return (CUresult)standin_leave(&call, tap_status);                                         \
    }

#define DRIVER_LOGGED(name, params, args)                                                          \
    static int body_##name(struct standin_call *call, UNPACK params);                              \
    DRIVER_LOGGED_ENTRY(name, body_##name, params, args, false)                                    \
    static int body_##name(struct standin_call *call, UNPACK params)

#define DRIVER_LOGGED_TWIN(name, suffix, params, args)                                             \
    static int body_##name(struct standin_call *call, UNPACK params);                              \
    DRIVER_LOGGED_ENTRY(name, body_##name, params, args, false)                                    \
    DRIVER_LOGGED_ENTRY(name##suffix, body_##name, params, args, true)                             \
    static int body_##name(struct standin_call *call, UNPACK params)

#define ATTEMPT(expression) (call->fault ? call->fault : (expression))

#define DRIVER_TWIN(name, suffix, params, args)                                                    \
    static int body_##name(struct standin_call *call, UNPACK params);                              \
    DRIVER_ENTRY(name, body_##name, params, args, false)                                           \
    DRIVER_ENTRY(name##suffix, body_##name, params, args, true)                                    \
    static int body_##name(__attribute__((unused)) struct standin_call *call, UNPACK params)

#define PUT(key, value) standin_put(call, key, (uint64_t)(value))

#define PUT_DEVICE() standin_put_signed(call, "device", sd_current_ordinal())

/* Takes the core lock with the thread's current context; 201 without one. */
int sd_driver_begin(struct device **out);
/* The same with the stream of a call in that context; 400 for a handle that is none. */
int sd_driver_begin_stream(const struct standin_call *call, CUstream handle, struct stream **out);
/* 201 where no context is current; for functions of the device that take the lock themselves. */
int sd_driver_context(void);
/* The device of a context's handle; -1: none. */
int sd_driver_ordinal(CUcontext context);

#define AT(address) ((void *)(uintptr_t)(address))

#endif
