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
#if __has_include(<cublas_v2.h>)
#include <cublas_v2.h>
#else /* a toolkit without it: nothing to compare these rows with */
#include "layoutspy/api/library_types.h"
#define API(LIB, ret, name, CLASS, STACK, params, ...) ret name params;
#define API_WHEN API
#include "layoutspy/api/library_handle.def"
#undef API
#undef API_WHEN
#endif

#include <stddef.h>

#include "layoutspy/api.h"

/* Declared by crt/host_runtime.h for nvcc's own C++ only. */
typedef struct uint3 ls_uint3;
void __cudaRegisterFunction(void **, const char *, char *, const char *, int, uint3 *, uint3 *,
                            dim3 *, dim3 *, int *);
void __cudaUnregisterFatBinary(void **);
cudaError_t __cudaGetKernel(cudaKernel_t *, const void *);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void **, size_t, cudaStream_t);

_Static_assert(offsetof(struct cudaDeviceProp, totalGlobalMem) == LS_DEVICE_PROP_TOTAL,
               "NVIDIA's struct cudaDeviceProp has changed");

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define CHECK(name, ret, params)                                                                   \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), ret params),                     \
                   "the table's row differs from NVIDIA's header: " #name);
#define API(LIB, ret, name, CLASS, STACK, params, args, ...) CHECK(name, ret, params)
#define API_TWIN(LIB, ret, name, twin, CLASS, STACK, params, args, ...) CHECK(name, ret, params)
/* Compared where the header is CUDA 13's. */
#if CUDART_VERSION >= 13000
#define API_WIDE(LIB, ret, name, CLASS, STACK, params, args, header, ...) CHECK(name, ret, header)
#define API_WIDE_TWIN(LIB, ret, name, twin, CLASS, STACK, params, args, header, ...)               \
    CHECK(name, ret, header)
#else
#define API_WIDE(LIB, ret, name, CLASS, STACK, params, args, header, ...)
#endif
/* PyTorch's: no header of NVIDIA's has them. */
#define API_VOID_WHEN(LIB, name, CLASS, STACK, params, args, condition, ...)
#define API_MAP_TWIN(LIB, ret, name, twin, params, args, ...) CHECK(name, ret, params)
#define API_MAP(LIB, ret, name, params, args, ...) CHECK_##LIB(name, ret, params)
#define CHECK_CUDART(name, ret, params) CHECK(name, ret, params)
#define CHECK_TORCH(name, ret, params)
#define API_MAP_VOID(LIB, name, params, args, ...) CHECK(name, void, params)
#include "layoutspy/api/all.def"
