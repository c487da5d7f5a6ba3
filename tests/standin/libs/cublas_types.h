/*
 * cublas_types.h - the types of cuBLAS's API, for building without a toolkit.
 *
 * With STANDIN_NVIDIA_HEADERS the same sources are compiled against NVIDIA's headers instead: a
 * prototype or a constant that differs is then an error.
 */
#ifndef STANDIN_CUBLAS_TYPES_H
#define STANDIN_CUBLAS_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef STANDIN_NVIDIA_HEADERS
#include <cublas_api.h>
#define VALUE(name, value) _Static_assert((int)(name) == (value), #name);
#include "cublas_values.def"
#else
enum {
#define VALUE(name, value) name = value,
#include "cublas_values.def"
};
typedef struct CUstream_st *cudaStream_t;
typedef struct cublasContext *cublasHandle_t;
typedef int cublasStatus_t;
typedef int cublasOperation_t;
typedef int cublasPointerMode_t;
typedef int cublasAtomicsMode_t;
typedef int cublasMath_t;
typedef int cublasSideMode_t;
typedef int cublasFillMode_t;
typedef int cublasDiagType_t;
typedef int cublasComputeType_t;
typedef int cublasGemmAlgo_t;
typedef int cudaDataType;
typedef int libraryPropertyType;
typedef struct {
    float x, y;
} cuComplex;
typedef struct {
    double x, y;
} cuDoubleComplex;
#endif

/* NVIDIA's headers have this one for C++ only. */
typedef struct {
    unsigned short x;
} __half;

/* A cuBLAS handle may be given for a cuBLASLt handle: both begin with this number. */
#define STANDIN_CUBLASLT_MAGIC 0x4c54 /* 'LT' */

/* The version that the stand-ins tell: that of the toolkit whose exports symbols/ holds. */
#if defined CUDA_MAJOR && CUDA_MAJOR == 12
#define STANDIN_CUBLAS_VERSION 120900
#else
#define STANDIN_CUBLAS_VERSION 130100
#endif

#endif
