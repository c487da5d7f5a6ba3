/*
 * nvtx_types.h - the types of NVTX's API and of its injection interface, for building without a
 * toolkit. As cublas_types.h: STANDIN_NVIDIA_HEADERS compares with NVIDIA's. OpenCL's handles are
 * always our own, since a toolkit need not have its headers.
 */
#ifndef STANDIN_NVTX_TYPES_H
#define STANDIN_NVTX_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#ifdef STANDIN_NVIDIA_HEADERS
#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCuda.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#include <nvtx3/nvToolsExtSync.h>
#define VALUE(name, value) _Static_assert((int)(name) == (value), #name);
#include "nvtx_values.def"
#else
enum {
#define VALUE(name, value) name = value,
#include "nvtx_values.def"
};
typedef uint64_t nvtxRangeId_t;
typedef struct nvtxEventAttributes_v2 nvtxEventAttributes_t;
typedef struct nvtxResourceAttributes_v0 nvtxResourceAttributes_t;
typedef struct nvtxSyncUserAttributes_v0 nvtxSyncUserAttributes_t;
typedef struct nvtxDomainRegistration_st *nvtxDomainHandle_t;
typedef struct nvtxStringRegistration_st *nvtxStringHandle_t;
typedef struct nvtxResourceHandle *nvtxResourceHandle_t;
typedef struct nvtxSyncUser *nvtxSyncUser_t;
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream, *cudaStream_t;
typedef struct CUevent_st *CUevent, *cudaEvent_t;

typedef int NvtxCallbackModule;
typedef void (*NvtxFunctionPointer)(void);
typedef NvtxFunctionPointer **NvtxFunctionTable;
typedef struct {
    size_t struct_size;
    int (*GetModuleFunctionTable)(NvtxCallbackModule module, NvtxFunctionTable *table,
                                  unsigned *size);
} NvtxExportTableCallbacks;
typedef const void *(*NvtxGetExportTableFunc_t)(uint32_t id);
typedef int (*NvtxInitializeInjectionNvtxFunc_t)(NvtxGetExportTableFunc_t get);
#endif

typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_sampler *cl_sampler;
typedef struct _cl_program *cl_program;
typedef struct _cl_event *cl_event;

#endif
