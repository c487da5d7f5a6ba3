/*
 * cublaslt_types.h - the types of cuBLASLt's API, for building without a toolkit. As
 * cublas_types.h: STANDIN_NVIDIA_HEADERS compares with NVIDIA's.
 */
#ifndef STANDIN_CUBLASLT_TYPES_H
#define STANDIN_CUBLASLT_TYPES_H

#include "cublas_types.h"

#ifdef STANDIN_NVIDIA_HEADERS
#include <cublasLt.h>
#define VALUE(name, value) _Static_assert((int)(name) == (value), #name);
#include "cublaslt_values.def"
#else
enum {
#define VALUE(name, value) name = value,
#include "cublaslt_values.def"
};
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct {
    uint64_t data[8];
} cublasLtMatrixLayoutOpaque_t, cublasLtMatmulAlgo_t, cublasLtMatrixTransformDescOpaque_t,
    cublasLtMatmulPreferenceOpaque_t;
typedef struct {
    uint64_t data[32];
} cublasLtMatmulDescOpaque_t;
typedef cublasLtMatrixLayoutOpaque_t *cublasLtMatrixLayout_t;
typedef cublasLtMatmulDescOpaque_t *cublasLtMatmulDesc_t;
typedef cublasLtMatrixTransformDescOpaque_t *cublasLtMatrixTransformDesc_t;
typedef cublasLtMatmulPreferenceOpaque_t *cublasLtMatmulPreference_t;
typedef int cudaDataType_t;
typedef int cublasLtMatrixLayoutAttribute_t;
typedef int cublasLtMatmulDescAttributes_t;
typedef int cublasLtMatrixTransformDescAttributes_t;
typedef int cublasLtMatmulPreferenceAttributes_t;
typedef struct {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
    float wavesCount;
    int reserved[4];
} cublasLtMatmulHeuristicResult_t;
#endif

_Static_assert(sizeof(cublasLtMatrixLayoutOpaque_t) == 64, "layout");
_Static_assert(sizeof(cublasLtMatmulDescOpaque_t) == 256, "matmul descriptor");
_Static_assert(sizeof(cublasLtMatmulPreferenceOpaque_t) == 64, "preference");
_Static_assert(sizeof(cublasLtMatmulHeuristicResult_t) == 96, "heuristic result");

#endif
