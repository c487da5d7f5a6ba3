/*
 * check_types.c - compared at compile time: what the simulated runtime assumes about NVIDIA's
 * types. Compiled both with the types of cuda_types.h and with NVIDIA's headers.
 */
#include "cuda_types.h"

#if CUDA_MAJOR >= 13
_Static_assert(sizeof(struct cudaDeviceProp) == 1008, "see cuda_device_prop.h");
#else
_Static_assert(sizeof(struct cudaDeviceProp) == 1032, "see cuda_device_prop.h");
#endif
_Static_assert(sizeof(struct cudaFuncAttributes) == 144, "see cuda_types.h");
_Static_assert(sizeof(struct cudaPointerAttributes) == 88 || CUDA_MAJOR < 13, "types.h");
_Static_assert(sizeof(struct cudaKernelNodeParams) == 56, "see cuda_types.h");
_Static_assert(sizeof(struct cudaMemsetParams) == 40, "see cuda_types.h");
_Static_assert(sizeof(cudaGraphInstantiateParams) == 32, "see cuda_types.h");
_Static_assert(sizeof(cudaLaunchConfig_t) == 56, "see types.h");
_Static_assert(sizeof(struct cudaMemAccessDesc) == 12, "see types.h");
_Static_assert(sizeof(struct cudaMemAllocNodeParams) == 120, "see types.h");
_Static_assert(sizeof(struct cudaGraphNodeParams) == 256, "see types.h");
_Static_assert(sizeof(struct cudaMemcpyAttributes) == 24, "see types.h");
_Static_assert(sizeof(struct cudaMemcpy3DBatchOp) == 112, "see types.h");
_Static_assert(sizeof(cudaIpcMemHandle_t) == 64, "see types.h");

#ifdef STANDIN_NVIDIA_HEADERS
/* Numbers that the device has its own names for. */
_Static_assert(cudaErrorInvalidPitchValue == 12 && cudaErrorInvalidSymbol == 13, "device.h");
_Static_assert(cudaErrorInvalidDeviceFunction == 98 && cudaErrorInvalidResourceHandle == 400,
               "device.h");
_Static_assert(cudaErrorStreamCaptureUnsupported == 900 && cudaErrorCapturedEvent == 907,
               "device.h");
_Static_assert(cudaGraphNodeTypeMemAlloc == 10 && cudaGraphNodeTypeEventRecord == 7, "graph.h");
_Static_assert(cudaStreamCaptureStatusInvalidated == 2 && cudaStreamCaptureModeRelaxed == 2,
               "capture.h");
_Static_assert(cudaMemPoolAttrReleaseThreshold == 4 && cudaMemPoolAttrUsedMemHigh == 8,
               "cudart_pool.c");
_Static_assert(cudaMemAllocationTypePinned == 1, "cudart_pool.c");
#endif
