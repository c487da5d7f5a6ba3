/*
 * cufft_types.h - the types of cuFFT's API, for building without a toolkit. As cublas_types.h:
 * STANDIN_NVIDIA_HEADERS compares with NVIDIA's.
 */
#ifndef STANDIN_CUFFT_TYPES_H
#define STANDIN_CUFFT_TYPES_H

#include "cublas_types.h" /* cudaDataType, complex numbers, streams */

#ifdef STANDIN_NVIDIA_HEADERS
#include <cufftXt.h>
#define VALUE(name, value) _Static_assert((int)(name) == (value), #name);
#include "cufft_values.def"
#else
enum {
#define VALUE(name, value) name = value,
#include "cufft_values.def"
};
typedef int cufftHandle, cufftResult, cufftType;
typedef float cufftReal;
typedef double cufftDoubleReal;
typedef cuComplex cufftComplex;
typedef cuDoubleComplex cufftDoubleComplex;
#endif

/* The version that the stand-in tells: that of the toolkit whose exports symbols/ holds. */
#if defined CUDA_MAJOR && CUDA_MAJOR == 12
#define STANDIN_CUFFT_VERSION 11401
#else
#define STANDIN_CUFFT_VERSION 12000
#endif

#endif
