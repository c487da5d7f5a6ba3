/*
 * cuda_types.h - the CUDA runtime's types that its simulated functions use, so that they build
 * without a toolkit.
 *
 * What the table's prototypes use comes from layoutspy/api/types.h; here is the rest. With
 * STANDIN_NVIDIA_HEADERS the vendor's header takes the place of all of it: the build compiles
 * every front once that way where a toolkit is found, and a differing prototype is an error.
 */
#ifndef STANDIN_CUDA_TYPES_H
#define STANDIN_CUDA_TYPES_H

#ifdef STANDIN_NVIDIA_HEADERS
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#else

#include "layoutspy/api/types.h"

enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone = 0 };
enum cudaDeviceAttr { cudaDevAttrMaxThreadsPerBlock = 1 };
enum cudaDeviceP2PAttr { cudaDevP2PAttrPerformanceRank = 1 };
enum cudaLimit { cudaLimitStackSize = 0 };
enum cudaFuncCache { cudaFuncCachePreferNone = 0 };
enum cudaSharedMemConfig { cudaSharedMemBankSizeDefault = 0 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaMemoryAdvise { cudaMemAdviseSetReadMostly = 1 };
enum cudaMemRangeAttribute { cudaMemRangeAttributeReadMostly = 1 };
enum cudaFlushGPUDirectRDMAWritesTarget { cudaFlushGPUDirectRDMAWritesTargetCurrentDevice = 0 };
enum cudaGraphMemAttributeType { cudaGraphMemAttrUsedMemCurrent = 0 };
enum cudaGraphExecUpdateResult { cudaGraphExecUpdateSuccess = 0 };
enum cudaGraphInstantiateResult { cudaGraphInstantiateSuccess = 0 };

typedef unsigned long long cudaTextureObject_t, cudaSurfaceObject_t;
typedef struct cudaGraphDeviceUpdatableNode_st *cudaGraphDeviceNode_t;
struct cudaResourceDesc;
struct cudaTextureDesc;
struct cudaResourceViewDesc;
union cudaLaunchAttributeValue;

typedef struct CUuuid_st {
    char bytes[16];
} cudaUUID_t;
struct cudaGraphEdgeData_st {
    unsigned char from_port, to_port, type, reserved[5];
};
struct cudaKernelNodeParams {
    void *func;
    dim3 gridDim, blockDim;
    unsigned int sharedMemBytes;
    void **kernelParams, **extra;
};
struct cudaMemsetParams {
    void *dst;
    size_t pitch;
    unsigned int value, elementSize;
    size_t width, height;
};
struct cudaHostNodeParams {
    cudaHostFn_t fn;
    void *userData;
};
typedef struct cudaGraphInstantiateParams_st {
    unsigned long long flags;
    cudaStream_t uploadStream;
    cudaGraphNode_t errNode_out;
    enum cudaGraphInstantiateResult result_out;
} cudaGraphInstantiateParams;
typedef struct cudaGraphExecUpdateResultInfo_st {
    enum cudaGraphExecUpdateResult result;
    cudaGraphNode_t errorNode, errorFromNode;
} cudaGraphExecUpdateResultInfo;
struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA;
    int maxDynamicSharedSizeBytes, preferredShmemCarveout;
    int clusterDimMustBeSet, requiredClusterWidth, requiredClusterHeight, requiredClusterDepth;
    int clusterSchedulingPolicyPreference, nonPortableClusterSizeAllowed;
    int reserved[16];
};
#include "cuda_device_prop.h"

#endif
#endif
