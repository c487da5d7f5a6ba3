/*
 * cudnn_types.h - the types of cuDNN's API, for building without a toolkit. As cublas_types.h:
 * STANDIN_NVIDIA_HEADERS compares with NVIDIA's.
 */
#ifndef STANDIN_CUDNN_TYPES_H
#define STANDIN_CUDNN_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef STANDIN_NVIDIA_HEADERS
#include <cudnn.h>
#include <cudnn_backend.h>
#define VALUE(name, value) _Static_assert((int)(name) == (value), #name);
#include "cudnn_values.def"
#define VALUE(name, value) _Static_assert((int)(name) == (value), #name);
#include "cudnn_graph_values.def"
#define OPERATION(name, value)                                                                     \
    _Static_assert((int)CUDNN_BACKEND_OPERATION_##name##_DESCRIPTOR == (value), #name);
#define OPERAND(name, value, role)                                                                 \
    _Static_assert((int)CUDNN_ATTR_OPERATION_##name == (value), #name);
#include "cudnn_operation.def"
#else
enum {
#define VALUE(name, value) name = value,
#include "cudnn_values.def"
#define VALUE(name, value) name = value,
#include "cudnn_graph_values.def"
#define OPERATION(name, value) CUDNN_BACKEND_OPERATION_##name##_DESCRIPTOR = value,
#define OPERAND(name, value, role) CUDNN_ATTR_OPERATION_##name = value,
#include "cudnn_operation.def"
};
typedef struct CUstream_st *cudaStream_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct cudnnContext *cudnnHandle_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef struct cudnnPoolingStruct *cudnnPoolingDescriptor_t;
typedef struct cudnnActivationStruct *cudnnActivationDescriptor_t;
typedef struct cudnnLRNStruct *cudnnLRNDescriptor_t;
typedef struct cudnnOpTensorStruct *cudnnOpTensorDescriptor_t;
typedef struct cudnnReduceTensorStruct *cudnnReduceTensorDescriptor_t;
typedef struct cudnnDropoutStruct *cudnnDropoutDescriptor_t;
typedef struct cudnnSpatialTransformerStruct *cudnnSpatialTransformerDescriptor_t;
typedef struct cudnnRNNStruct *cudnnRNNDescriptor_t;
typedef struct cudnnRNNDataStruct *cudnnRNNDataDescriptor_t;
typedef struct cudnnTensorTransformStruct *cudnnTensorTransformDescriptor_t;
typedef void *cudnnBackendDescriptor_t;
typedef int cudnnStatus_t, cudnnFoldingDirection_t;
typedef int cudnnDataType_t, cudnnTensorFormat_t, cudnnMathType_t, cudnnNanPropagation_t;
typedef int cudnnConvolutionMode_t, cudnnReorderType_t, cudnnDeterminism_t;
typedef int cudnnConvolutionFwdAlgo_t, cudnnConvolutionBwdDataAlgo_t;
typedef int cudnnConvolutionBwdFilterAlgo_t;
typedef int cudnnPoolingMode_t, cudnnActivationMode_t, cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t;
typedef int cudnnLRNMode_t, cudnnOpTensorOp_t, cudnnSamplerType_t;
typedef int cudnnReduceTensorOp_t, cudnnReduceTensorIndices_t, cudnnIndicesType_t;
typedef int cudnnBatchNormMode_t, cudnnBatchNormOps_t;
typedef int cudnnRNNAlgo_t, cudnnRNNMode_t, cudnnRNNBiasMode_t, cudnnDirectionMode_t;
typedef int cudnnRNNInputMode_t, cudnnRNNDataLayout_t, cudnnForwardMode_t, cudnnWgradMode_t;
typedef int cudnnBackendDescriptorType_t, cudnnBackendAttributeName_t;
typedef int cudnnBackendAttributeType_t;
typedef int libraryPropertyType;
typedef struct {
    int64_t numerator, denominator;
} cudnnFraction_t;
typedef struct {
    int algo;
    cudnnStatus_t status;
    float time;
    size_t memory;
    cudnnDeterminism_t determinism;
    cudnnMathType_t mathType;
    int reserved[3];
} cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionBwdDataAlgoPerf_t,
    cudnnConvolutionBwdFilterAlgoPerf_t;
#endif

_Static_assert(sizeof(cudnnConvolutionFwdAlgoPerf_t) == 48, "forward results");
_Static_assert(sizeof(cudnnConvolutionBwdDataAlgoPerf_t) == 48, "backward data results");
_Static_assert(sizeof(cudnnConvolutionBwdFilterAlgoPerf_t) == 48, "backward filter results");

/* The version that the stand-in tells: that of the library whose exports symbols/ holds. */
#ifndef STANDIN_CUDNN_VERSION
#define STANDIN_CUDNN_VERSION 91900
#endif

#endif
