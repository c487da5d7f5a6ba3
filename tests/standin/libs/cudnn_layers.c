/*
 * cudnn_layers.c - cuDNN's calls of the old API other than convolutions and recurrent nets: each
 * checks and logs its operands, and launches a kernel without arithmetic. Any thread; not safe in
 * a signal handler.
 */
#include <stdlib.h>

#include "cudnn_standin.h"

/* The parameters of scale, mode and the like that nothing here depends on. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define EXPORT STANDIN_EXPORT cudnnStatus_t
#define TENSOR const cudnnTensorDescriptor_t

/* ---- element-wise and reductions ---- */

EXPORT cudnnTransformTensor(cudnnHandle_t handle, const void *alpha, TENSOR xDesc, const void *x,
                            const void *beta, TENSOR yDesc, void *y) {
    DN_COMPUTE(DN_TENSOR("src", xDesc, x), DN_TENSOR("dst", yDesc, y));
}

EXPORT cudnnAddTensor(cudnnHandle_t handle, const void *alpha, TENSOR aDesc, const void *A,
                      const void *beta, TENSOR cDesc, void *C) {
    DN_COMPUTE(DN_TENSOR("a", aDesc, A), DN_TENSOR("c", cDesc, C));
}

EXPORT cudnnOpTensor(cudnnHandle_t handle, const cudnnOpTensorDescriptor_t op, const void *alpha1,
                     TENSOR aDesc, const void *A, const void *alpha2, TENSOR bDesc, const void *B,
                     const void *beta, TENSOR cDesc, void *C) {
    DN_COMPUTE(DN_TENSOR("a", aDesc, A), DN_OPTIONAL("b", bDesc, B), DN_TENSOR("c", cDesc, C));
}

EXPORT cudnnScaleTensor(cudnnHandle_t handle, TENSOR yDesc, void *y, const void *alpha) {
    DN_COMPUTE(DN_TENSOR("y", yDesc, y));
}

EXPORT cudnnSetTensor(cudnnHandle_t handle, TENSOR yDesc, void *y, const void *value) {
    DN_COMPUTE(DN_TENSOR("y", yDesc, y));
}

static int zero_size(cudnnHandle_t handle, size_t *size) {
    if (!dn_handle_good(handle) || !size)
        return CUDNN_STATUS_BAD_PARAM;
    *size = 0;
    return 0;
}

EXPORT cudnnGetReductionIndicesSize(cudnnHandle_t handle,
                                    const cudnnReduceTensorDescriptor_t reduce, TENSOR aDesc,
                                    TENSOR cDesc, size_t *size) {
    LIB_ENTER(call);
    return standin_leave(&call, lib_status(&call, zero_size(handle, size)));
}

EXPORT cudnnGetReductionWorkspaceSize(cudnnHandle_t handle,
                                      const cudnnReduceTensorDescriptor_t reduce, TENSOR aDesc,
                                      TENSOR cDesc, size_t *size) {
    LIB_ENTER(call);
    return standin_leave(&call, lib_status(&call, zero_size(handle, size)));
}

EXPORT cudnnReduceTensor(cudnnHandle_t handle, const cudnnReduceTensorDescriptor_t reduce,
                         void *indices, size_t indices_size, void *workspace, size_t workspace_size,
                         const void *alpha, TENSOR aDesc, const void *A, const void *beta,
                         TENSOR cDesc, void *C) {
    DN_COMPUTE(DN_TENSOR("a", aDesc, A), DN_TENSOR("c", cDesc, C), DN_PLAIN("index", indices),
               DN_PLAIN("workspace", workspace));
}

/* ---- activation, softmax, pooling, LRN ---- */

EXPORT cudnnActivationForward(cudnnHandle_t handle, cudnnActivationDescriptor_t activation,
                              const void *alpha, TENSOR xDesc, const void *x, const void *beta,
                              TENSOR yDesc, void *y) {
    DN_COMPUTE(DN_TENSOR("x", xDesc, x), DN_TENSOR("y", yDesc, y));
}

EXPORT cudnnActivationBackward(cudnnHandle_t handle, cudnnActivationDescriptor_t activation,
                               const void *alpha, TENSOR yDesc, const void *y, TENSOR dyDesc,
                               const void *dy, TENSOR xDesc, const void *x, const void *beta,
                               TENSOR dxDesc, void *dx) {
    DN_COMPUTE(DN_TENSOR("y", yDesc, y), DN_TENSOR("dy", dyDesc, dy), DN_TENSOR("x", xDesc, x),
               DN_TENSOR("dx", dxDesc, dx));
}

EXPORT cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algo,
                           cudnnSoftmaxMode_t mode, const void *alpha, TENSOR xDesc, const void *x,
                           const void *beta, TENSOR yDesc, void *y) {
    DN_COMPUTE(DN_TENSOR("x", xDesc, x), DN_TENSOR("y", yDesc, y));
}

EXPORT cudnnSoftmaxBackward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algo,
                            cudnnSoftmaxMode_t mode, const void *alpha, TENSOR yDesc, const void *y,
                            TENSOR dyDesc, const void *dy, const void *beta, TENSOR dxDesc,
                            void *dx) {
    DN_COMPUTE(DN_TENSOR("y", yDesc, y), DN_TENSOR("dy", dyDesc, dy), DN_TENSOR("dx", dxDesc, dx));
}

EXPORT cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling,
                           const void *alpha, TENSOR xDesc, const void *x, const void *beta,
                           TENSOR yDesc, void *y) {
    DN_COMPUTE(DN_TENSOR("x", xDesc, x), DN_TENSOR("y", yDesc, y));
}

EXPORT cudnnPoolingBackward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling,
                            const void *alpha, TENSOR yDesc, const void *y, TENSOR dyDesc,
                            const void *dy, TENSOR xDesc, const void *x, const void *beta,
                            TENSOR dxDesc, void *dx) {
    DN_COMPUTE(DN_TENSOR("y", yDesc, y), DN_TENSOR("dy", dyDesc, dy), DN_TENSOR("x", xDesc, x),
               DN_TENSOR("dx", dxDesc, dx));
}

EXPORT cudnnLRNCrossChannelForward(cudnnHandle_t handle, cudnnLRNDescriptor_t lrn,
                                   cudnnLRNMode_t mode, const void *alpha, TENSOR xDesc,
                                   const void *x, const void *beta, TENSOR yDesc, void *y) {
    DN_COMPUTE(DN_TENSOR("x", xDesc, x), DN_TENSOR("y", yDesc, y));
}

EXPORT cudnnLRNCrossChannelBackward(cudnnHandle_t handle, cudnnLRNDescriptor_t lrn,
                                    cudnnLRNMode_t mode, const void *alpha, TENSOR yDesc,
                                    const void *y, TENSOR dyDesc, const void *dy, TENSOR xDesc,
                                    const void *x, const void *beta, TENSOR dxDesc, void *dx) {
    DN_COMPUTE(DN_TENSOR("y", yDesc, y), DN_TENSOR("dy", dyDesc, dy), DN_TENSOR("x", xDesc, x),
               DN_TENSOR("dx", dxDesc, dx));
}

/* ---- batch normalisation ---- */

EXPORT cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t derived, TENSOR xDesc,
                                     cudnnBatchNormMode_t mode) {
    LIB_ENTER(call);
    int status = lib_status(&call, derived && xDesc ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0) {
        struct dn_shape *shape = &derived->shape;
        *shape = xDesc->shape;
        shape->format = CUDNN_TENSOR_NCHW;
        shape->dims[0] = 1;
        for (int i = 2; i < shape->count && mode != CUDNN_BATCHNORM_PER_ACTIVATION; i++)
            shape->dims[i] = 1;
        if (shape->type != CUDNN_DATA_DOUBLE)
            shape->type = CUDNN_DATA_FLOAT;
        dn_pack(shape);
    }
    return standin_leave(&call, status);
}

EXPORT cudnnBatchNormalizationForwardInference(cudnnHandle_t handle, cudnnBatchNormMode_t mode,
                                               const void *alpha, const void *beta, TENSOR xDesc,
                                               const void *x, TENSOR yDesc, void *y, TENSOR bnDesc,
                                               const void *scale, const void *bias,
                                               const void *mean, const void *variance,
                                               double epsilon) {
    DN_COMPUTE(DN_TENSOR("x", xDesc, x), DN_TENSOR("y", yDesc, y),
               DN_TENSOR("scale", bnDesc, scale), DN_TENSOR("bias", bnDesc, bias),
               DN_TENSOR("mean", bnDesc, mean), DN_TENSOR("variance", bnDesc, variance));
}

EXPORT cudnnBatchNormalizationForwardTraining(cudnnHandle_t handle, cudnnBatchNormMode_t mode,
                                              const void *alpha, const void *beta, TENSOR xDesc,
                                              const void *x, TENSOR yDesc, void *y, TENSOR bnDesc,
                                              const void *scale, const void *bias, double factor,
                                              void *running_mean, void *running_variance,
                                              double epsilon, void *save_mean,
                                              void *save_variance) {
    DN_COMPUTE(
        DN_TENSOR("x", xDesc, x), DN_TENSOR("y", yDesc, y), DN_TENSOR("scale", bnDesc, scale),
        DN_TENSOR("bias", bnDesc, bias), DN_OPTIONAL("running_mean", bnDesc, running_mean),
        DN_OPTIONAL("running_variance", bnDesc, running_variance),
        DN_OPTIONAL("mean", bnDesc, save_mean), DN_OPTIONAL("variance", bnDesc, save_variance));
}

EXPORT cudnnBatchNormalizationBackward(cudnnHandle_t handle, cudnnBatchNormMode_t mode,
                                       const void *alpha_data, const void *beta_data,
                                       const void *alpha_param, const void *beta_param,
                                       TENSOR xDesc, const void *x, TENSOR dyDesc, const void *dy,
                                       TENSOR dxDesc, void *dx, TENSOR bnDesc, const void *scale,
                                       void *dscale, void *dbias, double epsilon, const void *mean,
                                       const void *variance) {
    DN_COMPUTE(DN_TENSOR("x", xDesc, x), DN_TENSOR("dy", dyDesc, dy), DN_TENSOR("dx", dxDesc, dx),
               DN_TENSOR("scale", bnDesc, scale), DN_TENSOR("dscale", bnDesc, dscale),
               DN_TENSOR("dbias", bnDesc, dbias), DN_OPTIONAL("mean", bnDesc, mean),
               DN_OPTIONAL("variance", bnDesc, variance));
}

EXPORT cudnnBatchNormalizationForwardTrainingEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, const void *alpha,
    const void *beta, TENSOR xDesc, const void *x, TENSOR zDesc, const void *z, TENSOR yDesc,
    void *y, TENSOR bnDesc, const void *scale, const void *bias, double factor, void *running_mean,
    void *running_variance, double epsilon, void *save_mean, void *save_variance,
    cudnnActivationDescriptor_t activation, void *workspace, size_t workspace_size, void *reserve,
    size_t reserve_size) {
    DN_COMPUTE(DN_TENSOR("x", xDesc, x), DN_OPTIONAL("z", zDesc, z), DN_TENSOR("y", yDesc, y),
               DN_TENSOR("scale", bnDesc, scale), DN_TENSOR("bias", bnDesc, bias),
               DN_OPTIONAL("running_mean", bnDesc, running_mean),
               DN_OPTIONAL("running_variance", bnDesc, running_variance),
               DN_OPTIONAL("mean", bnDesc, save_mean),
               DN_OPTIONAL("variance", bnDesc, save_variance), DN_PLAIN("workspace", workspace),
               DN_PLAIN("reserve", reserve));
}

EXPORT cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops,
    const void *alpha_data, const void *beta_data, const void *alpha_param, const void *beta_param,
    TENSOR xDesc, const void *x, TENSOR yDesc, const void *y, TENSOR dyDesc, const void *dy,
    TENSOR dzDesc, void *dz, TENSOR dxDesc, void *dx, TENSOR bnDesc, const void *scale,
    const void *bias, void *dscale, void *dbias, double epsilon, const void *mean,
    const void *variance, cudnnActivationDescriptor_t activation, void *workspace,
    size_t workspace_size, void *reserve, size_t reserve_size) {
    DN_COMPUTE(DN_TENSOR("x", xDesc, x), DN_OPTIONAL("y", yDesc, y), DN_TENSOR("dy", dyDesc, dy),
               DN_OPTIONAL("dz", dzDesc, dz), DN_TENSOR("dx", dxDesc, dx),
               DN_TENSOR("scale", bnDesc, scale), DN_TENSOR("dscale", bnDesc, dscale),
               DN_TENSOR("dbias", bnDesc, dbias), DN_OPTIONAL("mean", bnDesc, mean),
               DN_OPTIONAL("variance", bnDesc, variance), DN_OPTIONAL("bias", bnDesc, bias),
               DN_PLAIN("workspace", workspace), DN_PLAIN("reserve", reserve));
}

EXPORT cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, TENSOR xDesc,
    TENSOR zDesc, TENSOR yDesc, TENSOR bnDesc, const cudnnActivationDescriptor_t activation,
    size_t *size) {
    LIB_ENTER(call);
    return standin_leave(&call, lib_status(&call, zero_size(handle, size)));
}

EXPORT cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, TENSOR xDesc,
    TENSOR yDesc, TENSOR dyDesc, TENSOR dzDesc, TENSOR dxDesc, TENSOR bnDesc,
    const cudnnActivationDescriptor_t activation, size_t *size) {
    LIB_ENTER(call);
    return standin_leave(&call, lib_status(&call, zero_size(handle, size)));
}

EXPORT cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops,
    const cudnnActivationDescriptor_t activation, TENSOR xDesc, size_t *size) {
    LIB_ENTER(call);
    return standin_leave(&call, lib_status(&call, zero_size(handle, size)));
}

/* ---- spatial transformer ---- */

EXPORT cudnnSpatialTfGridGeneratorForward(cudnnHandle_t handle,
                                          const cudnnSpatialTransformerDescriptor_t st,
                                          const void *theta, void *grid) {
    DN_COMPUTE(DN_PLAIN("theta", theta), DN_PLAIN("grid", grid));
}

EXPORT cudnnSpatialTfGridGeneratorBackward(cudnnHandle_t handle,
                                           const cudnnSpatialTransformerDescriptor_t st,
                                           const void *dgrid, void *dtheta) {
    DN_COMPUTE(DN_PLAIN("dgrid", dgrid), DN_PLAIN("dtheta", dtheta));
}

EXPORT cudnnSpatialTfSamplerForward(cudnnHandle_t handle, cudnnSpatialTransformerDescriptor_t st,
                                    const void *alpha, TENSOR xDesc, const void *x,
                                    const void *grid, const void *beta,
                                    cudnnTensorDescriptor_t yDesc, void *y) {
    DN_COMPUTE(DN_TENSOR("x", xDesc, x), DN_PLAIN("grid", grid), DN_TENSOR("y", yDesc, y));
}

EXPORT cudnnSpatialTfSamplerBackward(cudnnHandle_t handle, cudnnSpatialTransformerDescriptor_t st,
                                     const void *alpha, TENSOR xDesc, const void *x,
                                     const void *beta, TENSOR dxDesc, void *dx,
                                     const void *alpha_grid, TENSOR dyDesc, const void *dy,
                                     const void *grid, const void *beta_grid, void *dgrid) {
    DN_COMPUTE(DN_TENSOR("x", xDesc, x), DN_TENSOR("dx", dxDesc, dx), DN_TENSOR("dy", dyDesc, dy),
               DN_PLAIN("grid", grid), DN_PLAIN("dgrid", dgrid));
}
