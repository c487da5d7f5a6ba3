/*
 * library_types.h - the types of NVIDIA's libraries that the table's prototypes use. As types.h.
 */
#ifndef LAYOUTSPY_API_LIBRARY_TYPES_H
#define LAYOUTSPY_API_LIBRARY_TYPES_H

/* Enumerations are passed as int. */
typedef enum { CUBLAS_STATUS_SUCCESS = 0 } cublasStatus_t;
typedef struct cublasContext *cublasHandle_t;
typedef int cudaDataType, cublasOperation_t, cublasSideMode_t, cublasFillMode_t, cublasDiagType_t;
typedef int cublasComputeType_t, cublasGemmAlgo_t, cublasMath_t;
typedef struct float2 cuComplex;
typedef struct double2 cuDoubleComplex;
typedef struct __half __half;
typedef struct __nv_bfloat16 __nv_bfloat16;

typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct cublasLtMatmulDescOpaque_t *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayoutOpaque_t *cublasLtMatrixLayout_t;
typedef struct cublasLtMatrixTransformDescOpaque_t *cublasLtMatrixTransformDesc_t;
typedef struct cublasLtMatmulAlgo_st cublasLtMatmulAlgo_t;

typedef enum { CUDNN_STATUS_SUCCESS = 0 } cudnnStatus_t;
typedef struct cudnnContext *cudnnHandle_t;
typedef void *cudnnBackendDescriptor_t;
typedef struct cudnnTensorStruct *cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct *cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct *cudnnConvolutionDescriptor_t;
typedef struct cudnnActivationStruct *cudnnActivationDescriptor_t;
typedef struct cudnnPoolingStruct *cudnnPoolingDescriptor_t;
typedef struct cudnnLRNStruct *cudnnLRNDescriptor_t;
typedef struct cudnnDropoutStruct *cudnnDropoutDescriptor_t;
typedef struct cudnnOpTensorStruct *cudnnOpTensorDescriptor_t;
typedef struct cudnnReduceTensorStruct *cudnnReduceTensorDescriptor_t;
typedef struct cudnnSpatialTransformerStruct *cudnnSpatialTransformerDescriptor_t;
typedef struct cudnnRNNStruct *cudnnRNNDescriptor_t;
typedef struct cudnnRNNDataStruct *cudnnRNNDataDescriptor_t;
typedef int cudnnConvolutionFwdAlgo_t, cudnnConvolutionBwdDataAlgo_t;
typedef int cudnnConvolutionBwdFilterAlgo_t, cudnnBatchNormMode_t, cudnnBatchNormOps_t;
typedef int cudnnSoftmaxAlgorithm_t, cudnnSoftmaxMode_t, cudnnLRNMode_t;
typedef int cudnnForwardMode_t, cudnnWgradMode_t;
typedef struct cudnnTensorTransformStruct *cudnnTensorTransformDescriptor_t;
typedef struct cudnnSeqDataStruct *cudnnSeqDataDescriptor_t;
typedef struct cudnnAttnStruct *cudnnAttnDescriptor_t;
typedef struct cudnnCTCLossStruct *cudnnCTCLossDescriptor_t;
typedef struct cudnnConvolutionFwdAlgoPerf cudnnConvolutionFwdAlgoPerf_t;
typedef struct cudnnConvolutionBwdDataAlgoPerf cudnnConvolutionBwdDataAlgoPerf_t;
typedef struct cudnnConvolutionBwdFilterAlgoPerf cudnnConvolutionBwdFilterAlgoPerf_t;
typedef int cudnnTensorFormat_t, cudnnDataType_t, cudnnMathType_t, cudnnNanPropagation_t;
typedef int cudnnConvolutionMode_t, cudnnReorderType_t, cudnnPoolingMode_t, cudnnDivNormMode_t;
typedef int cudnnNormMode_t, cudnnNormOps_t, cudnnNormAlgo_t, cudnnCTCLossAlgo_t;
typedef int cudnnRNNAlgo_t, cudnnRNNMode_t, cudnnRNNBiasMode_t, cudnnDirectionMode_t;
typedef int cudnnRNNInputMode_t, cudnnRNNDataLayout_t, cudnnSeqDataAxis_t;
typedef int cudnnBackendDescriptorType_t, cudnnBackendAttributeName_t;
typedef int cudnnBackendAttributeType_t;
typedef struct cudnnAlgorithmPerformanceStruct *cudnnAlgorithmPerformance_t;

typedef enum { ncclSuccess = 0 } ncclResult_t;
typedef struct ncclComm *ncclComm_t;
typedef int ncclDataType_t, ncclRedOp_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
typedef struct ncclConfig ncclConfig_t;

typedef enum { CUFFT_SUCCESS = 0 } cufftResult;
typedef int cufftHandle, cufftType;
typedef float cufftReal;
typedef double cufftDoubleReal;
typedef cuComplex cufftComplex;
typedef cuDoubleComplex cufftDoubleComplex;

#endif
