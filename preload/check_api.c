/*
 * check_api.c - each row of the table, and each of our own types, against NVIDIA's headers.
 *
 * Compiled (never linked) where a toolkit is found: drift is a compile error. A twin is compared
 * with the function it is the twin of, since the header knows it only under a macro.
 */
#define CUDART_DEPRECATED
#define __CUDA_DEPRECATED
#include <cuda.h>
#include <cuda_runtime_api.h>
/* Headers that a toolkit may lack: there is nothing to compare these libraries' rows with then. */
#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#if CUBLAS_VER_MAJOR * 100 + CUBLAS_VER_MINOR >= 1205 /* the grouped products are the latest */
#define HEADER_CUBLAS , 1
#endif
#endif
#if __has_include(<cublasLt.h>)
#include <cublasLt.h>
#define HEADER_CUBLASLT , 1
#endif
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#if CUDNN_VERSION >= 90500 /* the graph API's own graphs of CUDA are the latest */
#define HEADER_CUDNN , 1
#endif
#endif
#if __has_include(<nccl.h>)
#include <nccl.h>
#define HEADER_NCCL , 1
#endif
#if __has_include(<cufftXt.h>)
#include <cufftXt.h>
#define HEADER_CUFFT , 1
#endif
#define HEADER_CUDART , 1
#define HEADER_CUDA , 1

#include <stddef.h>

#include "layoutspy/api.h"

/* Declared by crt/host_runtime.h for nvcc's own C++ only. */
typedef struct uint3 ls_uint3;
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, uint3 *, uint3 *,
                            dim3 *, dim3 *, int *);
void __cudaUnregisterFatBinary(void **);
cudaError_t __cudaGetKernel(cudaKernel_t *, const void *);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void **, size_t, cudaStream_t);

/* What cuDNN 9's header no longer has is declared as its rows say. */
#ifdef HEADER_CUDNN
typedef struct cudnnAlgorithmPerformanceStruct *cudnnAlgorithmPerformance_t;
#define API_MAP(LIB, ret, name, params, args, ...) ret name params;
#define API_OPERANDS(LIB, ret, name, CLASS, STACK, params, args, operands, ...) ret name params;
#include "layoutspy/api/library_before9.def"
#undef API_MAP
#undef API_OPERANDS
#endif

/* The header has cuBLAS's half-precision forms for C++ alone: the single-precision ones with
 * another type. */
#define __half float
#define __nv_bfloat16 float
#define cublasHgemm cublasSgemm_v2
#define cublasHgemm_64 cublasSgemm_v2_64
#define cublasHgemmBatched cublasSgemmBatched
#define cublasHgemmBatched_64 cublasSgemmBatched_64
#define cublasHgemmStridedBatched cublasSgemmStridedBatched
#define cublasHgemmStridedBatched_64 cublasSgemmStridedBatched_64
#define cublasHSHgemvBatched cublasSgemvBatched
#define cublasHSHgemvBatched_64 cublasSgemvBatched_64
#define cublasHSSgemvBatched cublasSgemvBatched
#define cublasHSSgemvBatched_64 cublasSgemvBatched_64
#define cublasTSTgemvBatched cublasSgemvBatched
#define cublasTSTgemvBatched_64 cublasSgemvBatched_64
#define cublasTSSgemvBatched cublasSgemvBatched
#define cublasTSSgemvBatched_64 cublasSgemvBatched_64
#define cublasHSHgemvStridedBatched cublasSgemvStridedBatched
#define cublasHSHgemvStridedBatched_64 cublasSgemvStridedBatched_64
#define cublasHSSgemvStridedBatched cublasSgemvStridedBatched
#define cublasHSSgemvStridedBatched_64 cublasSgemvStridedBatched_64
#define cublasTSTgemvStridedBatched cublasSgemvStridedBatched
#define cublasTSTgemvStridedBatched_64 cublasSgemvStridedBatched_64
#define cublasTSSgemvStridedBatched cublasSgemvStridedBatched
#define cublasTSSgemvStridedBatched_64 cublasSgemvStridedBatched_64

/* Of cuda.h without its renaming: it declares these as older versions of others. */
#undef cuCtxCreate_v2
CUresult cuCtxCreate_v2(CUcontext *, unsigned int, CUdevice);
CUresult cuCtxCreate_v3(CUcontext *, CUexecAffinityParam *, int, unsigned int, CUdevice);

_Static_assert(offsetof(struct cudaDeviceProp, totalGlobalMem) == LS_DEVICE_PROP_TOTAL,
               "NVIDIA's struct cudaDeviceProp has changed");

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "NVIDIA's type has changed");
#define OFFSET(type, member, bytes)                                                                \
    _Static_assert(offsetof(type, member) == (bytes), "NVIDIA's type has changed: " #member);
#include "layoutspy/api/type_layout.def"

/* Rows of libraries without a header here, and of those that have none (PyTorch), expand to
 * nothing. */
#define CHECK(LIB, name, ret, params) CHECK_DO(SECOND(HEADER_##LIB, 0, ), name, ret, params)
#define SECOND(...) SECOND_OF(__VA_ARGS__)
#define SECOND_OF(first, second, ...) second
#define CHECK_DO(known, ...) CHECK_CAT(known, __VA_ARGS__)
#define CHECK_CAT(known, ...) CHECK_##known(__VA_ARGS__)
#define CHECK_0(name, ret, params)
#define CHECK_1(name, ret, params)                                                                 \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), ret params),                     \
                   "the table's row differs from NVIDIA's header: " #name);
#define API(LIB, ret, name, CLASS, STACK, params, args, ...) CHECK(LIB, name, ret, params)
#define API_TWIN(LIB, ret, name, twin, CLASS, STACK, params, args, ...)                            \
    CHECK(LIB, name, ret, params)
/* Compared where the header is CUDA 13's. */
#if CUDART_VERSION >= 13000
#define API_WIDE(LIB, ret, name, CLASS, STACK, params, args, header, ...)                          \
    CHECK(LIB, name, ret, header)
#define API_WIDE_TWIN(LIB, ret, name, twin, CLASS, STACK, params, args, header, ...)               \
    CHECK(LIB, name, ret, header)
#else
#define API_WIDE(LIB, ret, name, CLASS, STACK, params, args, header, ...)
#endif
/* PyTorch's: no header of NVIDIA's has them. */
#define API_VOID_WHEN(LIB, name, CLASS, STACK, params, args, condition, ...)
#define API_MAP_TWIN(LIB, ret, name, twin, params, args, ...) CHECK(LIB, name, ret, params)
#define API_MAP(LIB, ret, name, params, args, ...) CHECK(LIB, name, ret, params)
/* CUPTI's are written in types of our own: it comes without its headers in a wheel. */
#define API_AROUND(LIB, ret, name, params, args, before, ...) CHECK(LIB, name, ret, params)
#define API_MAP_VOID(LIB, name, params, args, ...) CHECK(LIB, name, void, params)
#include "layoutspy/api/all.def"
