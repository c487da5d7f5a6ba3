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
typedef enum cudaError_enum { CUDA_SUCCESS = 0 } CUresult;
typedef unsigned long long CUdeviceptr;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef unsigned long long CUmemGenericAllocationHandle;
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
typedef enum CUmemLocationType_enum {
    CU_MEM_LOCATION_TYPE_INVALID = 0,
    CU_MEM_LOCATION_TYPE_DEVICE = 1
} CUmemLocationType;
typedef enum CUmemAccess_flags_enum { CU_MEM_ACCESS_FLAGS_PROT_NONE = 0 } CUmemAccess_flags;
typedef enum CUmemAllocationGranularity_flags_enum {
    CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0
} CUmemAllocationGranularity_flags;
typedef struct CUmemLocation_st {
    CUmemLocationType type;
    int id;
} CUmemLocation;
typedef struct CUmemAllocationProp_st {
    CUmemAllocationType type;
    CUmemAllocationHandleType requestedHandleTypes;
    CUmemLocation location;
    void *win32HandleMetaData;
    struct {
        unsigned char compressionType, gpuDirectRDMACapable;
        unsigned short usage;
        unsigned char reserved[4];
    } allocFlags;
} CUmemAllocationProp;
typedef struct CUmemAccessDesc_st {
    CUmemLocation location;
    CUmemAccess_flags flags;
} CUmemAccessDesc;
typedef struct CUarray_st *CUarray;
typedef struct CUipcMemHandle_st {
    char reserved[64];
} CUipcMemHandle;
typedef struct CUipcEventHandle_st {
    char reserved[64];
} CUipcEventHandle;
typedef enum CUarray_format_enum { CU_AD_FORMAT_UNSIGNED_INT8 = 1 } CUarray_format;
typedef struct CUDA_ARRAY_DESCRIPTOR_st {
    size_t Width, Height;
    CUarray_format Format;
    unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR;
typedef struct CUDA_ARRAY3D_DESCRIPTOR_st {
    size_t Width, Height, Depth;
    CUarray_format Format;
    unsigned int NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR;
typedef enum CUmemPool_attribute_enum {
    CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1
} CUmemPool_attribute;
typedef enum CUmemorytype_enum {
    CU_MEMORYTYPE_HOST = 1,
    CU_MEMORYTYPE_DEVICE = 2,
    CU_MEMORYTYPE_ARRAY = 3,
    CU_MEMORYTYPE_UNIFIED = 4
} CUmemorytype;
typedef struct CUDA_MEMCPY2D_st {
    size_t srcXInBytes, srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes, dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes, Height;
} CUDA_MEMCPY2D;
typedef struct CUDA_MEMCPY3D_st {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    void *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    void *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;
typedef enum CUstreamCaptureMode_enum { CU_STREAM_CAPTURE_MODE_GLOBAL = 0 } CUstreamCaptureMode;
typedef enum CUgraphInstantiateResult_enum {
    CUDA_GRAPH_INSTANTIATE_SUCCESS = 0
} CUgraphInstantiateResult;
typedef struct CUDA_GRAPH_INSTANTIATE_PARAMS_st {
    cuuint64_t flags;
    CUstream hUploadStream;
    CUgraphNode hErrNode_out;
    CUgraphInstantiateResult result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;
typedef struct CUmemPoolProps_st {
    CUmemAllocationType allocType;
    CUmemAllocationHandleType handleTypes;
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
} CUmemPoolProps;
typedef struct CUlaunchConfig_st {
    unsigned int gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
    CUstream hStream;
    void *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;
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
/* 201 where no context is current; for functions of the device that take the lock themselves. */
int sd_driver_context(void);
/* The device of a context's handle; -1: none. */
int sd_driver_ordinal(CUcontext context);

#define AT(address) ((void *)(uintptr_t)(address))

#endif
