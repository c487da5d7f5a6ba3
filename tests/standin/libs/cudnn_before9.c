/*
 * cudnn_before9.c - recurrent nets as cuDNN 8 and before had them beside the newer calls: settings
 * one by one, and a descriptor for each step. Any thread; not safe in a signal handler.
 *
 * The steps of a sequence are one operand in the truth log: steps x batch x vector where all are
 * alike, else 1 x sum of the batches x vector, as they lie in memory one after the other.
 */
#include "cudnn_standin.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define EXPORT STANDIN_EXPORT cudnnStatus_t
typedef struct cudnnAlgorithmPerformanceStruct *cudnnAlgorithmPerformance_t;

EXPORT cudnnSetRNNDescriptor_v6(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                const int hiddenSize, const int numLayers,
                                cudnnDropoutDescriptor_t dropoutDesc, cudnnRNNInputMode_t inputMode,
                                cudnnDirectionMode_t direction, cudnnRNNMode_t cellMode,
                                cudnnRNNAlgo_t algo, cudnnDataType_t mathPrec) {
    LIB_ENTER(call);
    bool good = dn_handle_good(handle) && rnnDesc && hiddenSize > 0 && numLayers > 0;
    int status = lib_status(&call, good ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0)
        *rnnDesc = (struct cudnnRNNStruct){.cell = (int)cellMode,
                                           .bias_mode = CUDNN_RNN_DOUBLE_BIAS,
                                           .directions = direction == CUDNN_BIDIRECTIONAL ? 2 : 1,
                                           .type = (int)mathPrec,
                                           .hidden = hiddenSize,
                                           .projection = hiddenSize,
                                           .layers = numLayers};
    return standin_leave(&call, status);
}

EXPORT cudnnSetRNNProjectionLayers(cudnnHandle_t handle, cudnnRNNDescriptor_t rnnDesc,
                                   const int recProjSize, const int outProjSize) {
    LIB_ENTER(call);
    bool good = dn_handle_good(handle) && rnnDesc && recProjSize >= 0 && outProjSize == 0 &&
                recProjSize <= rnnDesc->hidden;
    int status = lib_status(&call, good ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0)
        rnnDesc->projection = recProjSize ? recProjSize : rnnDesc->hidden;
    return standin_leave(&call, status);
}

/* NULL: the descriptors are not those of steps. */
static const struct dn_shape *steps_of(struct dn_shape *all, int count,
                                       const cudnnTensorDescriptor_t *steps) {
    int64_t rows = 0;
    bool alike = true;
    for (int i = 0; i < count; i++) {
        const struct dn_shape *step = steps ? dn_tensor(steps[i]) : NULL;
        if (!step || step->count != 3 || step->type != steps[0]->shape.type)
            return NULL;
        if (step->dims[2] != 1 || step->strides[1] != 1 || step->strides[0] != step->dims[1])
            return NULL; /* neither packed nor of one vector each */
        if (i && (step->dims[0] > steps[i - 1]->shape.dims[0] ||
                  step->dims[1] != steps[0]->shape.dims[1]))
            return NULL;
        alike = alike && step->dims[0] == steps[0]->shape.dims[0];
        rows += step->dims[0];
    }
    if (count <= 0)
        return NULL;
    *all = (struct dn_shape){.type = steps[0]->shape.type, .count = 3};
    all->dims[0] = alike ? count : 1;
    all->dims[1] = alike ? rows / count : rows;
    all->dims[2] = steps[0]->shape.dims[1];
    dn_pack(all);
    return all;
}

#define STEPS(role, count, descs, address)                                                         \
    { role, address, steps_of(&(struct dn_shape){0}, count, descs), false, false }

/* A pass with descriptors of steps, whether it is asked for or tried out by cudnnFind...: all have
 * these parameters, and training a reserve besides. */
#define STEPS_FORWARD(work, ...)                                                                   \
    DN_COMPUTE(STEPS("x", seqLength, xDesc, x), DN_OPTIONAL("hx", hxDesc, hx),                     \
               DN_OPTIONAL("cx", cxDesc, cx), DN_FILTER("weights", wDesc, w),                      \
               STEPS("y", seqLength, yDesc, y), DN_OPTIONAL("hy", hyDesc, hy),                     \
               DN_OPTIONAL("cy", cyDesc, cy), DN_PLAIN("workspace", work), ##__VA_ARGS__)
#define STEPS_BACKWARD_DATA(work)                                                                  \
    DN_COMPUTE(STEPS("y", seqLength, yDesc, y), STEPS("dy", seqLength, dyDesc, dy),                \
               DN_OPTIONAL("dhy", dhyDesc, dhy), DN_OPTIONAL("dcy", dcyDesc, dcy),                 \
               DN_FILTER("weights", wDesc, w), DN_OPTIONAL("hx", hxDesc, hx),                      \
               DN_OPTIONAL("cx", cxDesc, cx), STEPS("dx", seqLength, dxDesc, dx),                  \
               DN_OPTIONAL("dhx", dhxDesc, dhx), DN_OPTIONAL("dcx", dcxDesc, dcx),                 \
               DN_PLAIN("workspace", work), DN_PLAIN("reserve", reserveSpace))
#define STEPS_BACKWARD_WEIGHTS(work)                                                               \
    DN_COMPUTE(STEPS("x", seqLength, xDesc, x), DN_OPTIONAL("hx", hxDesc, hx),                     \
               STEPS("y", seqLength, yDesc, y), DN_PLAIN("workspace", work),                       \
               DN_FILTER("dweights", dwDesc, dw), DN_PLAIN("reserve", reserveSpace))

/* Of the Ex forms: a sequence has one descriptor. */
#define SEQUENCE_FORWARD(...)                                                                      \
    DN_COMPUTE(DN_SEQUENCE("x", xDesc, x), DN_OPTIONAL("hx", hxDesc, hx),                          \
               DN_OPTIONAL("cx", cxDesc, cx), DN_FILTER("weights", wDesc, w),                      \
               DN_SEQUENCE("y", yDesc, y), DN_OPTIONAL("hy", hyDesc, hy),                          \
               DN_OPTIONAL("cy", cyDesc, cy), DN_PLAIN("workspace", workSpace), ##__VA_ARGS__)

EXPORT cudnnRNNForwardInference(cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc,
                                const int seqLength, const cudnnTensorDescriptor_t *xDesc,
                                const void *x, const cudnnTensorDescriptor_t hxDesc, const void *hx,
                                const cudnnTensorDescriptor_t cxDesc, const void *cx,
                                const cudnnFilterDescriptor_t wDesc, const void *w,
                                const cudnnTensorDescriptor_t *yDesc, void *y,
                                const cudnnTensorDescriptor_t hyDesc, void *hy,
                                const cudnnTensorDescriptor_t cyDesc, void *cy, void *workSpace,
                                size_t workSpaceSizeInBytes) {
    STEPS_FORWARD(workSpace);
}

EXPORT cudnnRNNForwardTraining(cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc,
                               const int seqLength, const cudnnTensorDescriptor_t *xDesc,
                               const void *x, const cudnnTensorDescriptor_t hxDesc, const void *hx,
                               const cudnnTensorDescriptor_t cxDesc, const void *cx,
                               const cudnnFilterDescriptor_t wDesc, const void *w,
                               const cudnnTensorDescriptor_t *yDesc, void *y,
                               const cudnnTensorDescriptor_t hyDesc, void *hy,
                               const cudnnTensorDescriptor_t cyDesc, void *cy, void *workSpace,
                               size_t workSpaceSizeInBytes, void *reserveSpace,
                               size_t reserveSpaceSizeInBytes) {
    STEPS_FORWARD(workSpace, DN_PLAIN("reserve", reserveSpace));
}

EXPORT cudnnRNNBackwardData(
    cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int seqLength,
    const cudnnTensorDescriptor_t *yDesc, const void *y, const cudnnTensorDescriptor_t *dyDesc,
    const void *dy, const cudnnTensorDescriptor_t dhyDesc, const void *dhy,
    const cudnnTensorDescriptor_t dcyDesc, const void *dcy, const cudnnFilterDescriptor_t wDesc,
    const void *w, const cudnnTensorDescriptor_t hxDesc, const void *hx,
    const cudnnTensorDescriptor_t cxDesc, const void *cx, const cudnnTensorDescriptor_t *dxDesc,
    void *dx, const cudnnTensorDescriptor_t dhxDesc, void *dhx,
    const cudnnTensorDescriptor_t dcxDesc, void *dcx, void *workSpace, size_t workSpaceSizeInBytes,
    void *reserveSpace, size_t reserveSpaceSizeInBytes) {
    STEPS_BACKWARD_DATA(workSpace);
}

EXPORT cudnnRNNBackwardWeights(cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc,
                               const int seqLength, const cudnnTensorDescriptor_t *xDesc,
                               const void *x, const cudnnTensorDescriptor_t hxDesc, const void *hx,
                               const cudnnTensorDescriptor_t *yDesc, const void *y,
                               const void *workSpace, size_t workSpaceSizeInBytes,
                               const cudnnFilterDescriptor_t dwDesc, void *dw,
                               const void *reserveSpace, size_t reserveSpaceSizeInBytes) {
    STEPS_BACKWARD_WEIGHTS(workSpace);
}

EXPORT cudnnRNNForwardInferenceEx(
    cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const cudnnRNNDataDescriptor_t xDesc,
    const void *x, const cudnnTensorDescriptor_t hxDesc, const void *hx,
    const cudnnTensorDescriptor_t cxDesc, const void *cx, const cudnnFilterDescriptor_t wDesc,
    const void *w, const cudnnRNNDataDescriptor_t yDesc, void *y,
    const cudnnTensorDescriptor_t hyDesc, void *hy, const cudnnTensorDescriptor_t cyDesc, void *cy,
    const cudnnRNNDataDescriptor_t kDesc, const void *keys, const cudnnRNNDataDescriptor_t cDesc,
    void *cAttn, const cudnnRNNDataDescriptor_t iDesc, void *iAttn,
    const cudnnRNNDataDescriptor_t qDesc, void *queries, void *workSpace,
    size_t workSpaceSizeInBytes) {
    SEQUENCE_FORWARD();
}

EXPORT cudnnRNNForwardTrainingEx(
    cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const cudnnRNNDataDescriptor_t xDesc,
    const void *x, const cudnnTensorDescriptor_t hxDesc, const void *hx,
    const cudnnTensorDescriptor_t cxDesc, const void *cx, const cudnnFilterDescriptor_t wDesc,
    const void *w, const cudnnRNNDataDescriptor_t yDesc, void *y,
    const cudnnTensorDescriptor_t hyDesc, void *hy, const cudnnTensorDescriptor_t cyDesc, void *cy,
    const cudnnRNNDataDescriptor_t kDesc, const void *keys, const cudnnRNNDataDescriptor_t cDesc,
    void *cAttn, const cudnnRNNDataDescriptor_t iDesc, void *iAttn,
    const cudnnRNNDataDescriptor_t qDesc, void *queries, void *workSpace,
    size_t workSpaceSizeInBytes, void *reserveSpace, size_t reserveSpaceSizeInBytes) {
    SEQUENCE_FORWARD(DN_PLAIN("reserve", reserveSpace));
}

EXPORT cudnnRNNBackwardDataEx(
    cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const cudnnRNNDataDescriptor_t yDesc,
    const void *y, const cudnnRNNDataDescriptor_t dyDesc, const void *dy,
    const cudnnRNNDataDescriptor_t dcDesc, const void *dcAttn,
    const cudnnTensorDescriptor_t dhyDesc, const void *dhy, const cudnnTensorDescriptor_t dcyDesc,
    const void *dcy, const cudnnFilterDescriptor_t wDesc, const void *w,
    const cudnnTensorDescriptor_t hxDesc, const void *hx, const cudnnTensorDescriptor_t cxDesc,
    const void *cx, const cudnnRNNDataDescriptor_t dxDesc, void *dx,
    const cudnnTensorDescriptor_t dhxDesc, void *dhx, const cudnnTensorDescriptor_t dcxDesc,
    void *dcx, const cudnnRNNDataDescriptor_t dkDesc, void *dkeys, void *workSpace,
    size_t workSpaceSizeInBytes, void *reserveSpace, size_t reserveSpaceSizeInBytes) {
    DN_COMPUTE(DN_SEQUENCE("y", yDesc, y), DN_SEQUENCE("dy", dyDesc, dy),
               DN_OPTIONAL("dhy", dhyDesc, dhy), DN_OPTIONAL("dcy", dcyDesc, dcy),
               DN_FILTER("weights", wDesc, w), DN_OPTIONAL("hx", hxDesc, hx),
               DN_OPTIONAL("cx", cxDesc, cx), DN_SEQUENCE("dx", dxDesc, dx),
               DN_OPTIONAL("dhx", dhxDesc, dhx), DN_OPTIONAL("dcx", dcxDesc, dcx),
               DN_PLAIN("workspace", workSpace), DN_PLAIN("reserve", reserveSpace));
}

EXPORT cudnnRNNBackwardWeightsEx(cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc,
                                 const cudnnRNNDataDescriptor_t xDesc, const void *x,
                                 const cudnnTensorDescriptor_t hxDesc, const void *hx,
                                 const cudnnRNNDataDescriptor_t yDesc, const void *y,
                                 void *workSpace, size_t workSpaceSizeInBytes,
                                 const cudnnFilterDescriptor_t dwDesc, void *dw, void *reserveSpace,
                                 size_t reserveSpaceSizeInBytes) {
    DN_COMPUTE(DN_SEQUENCE("x", xDesc, x), DN_OPTIONAL("hx", hxDesc, hx),
               DN_SEQUENCE("y", yDesc, y), DN_PLAIN("workspace", workSpace),
               DN_FILTER("dweights", dwDesc, dw), DN_PLAIN("reserve", reserveSpace));
}

EXPORT cudnnFindRNNForwardInferenceAlgorithmEx(
    cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int seqLength,
    const cudnnTensorDescriptor_t *xDesc, const void *x, const cudnnTensorDescriptor_t hxDesc,
    const void *hx, const cudnnTensorDescriptor_t cxDesc, const void *cx,
    const cudnnFilterDescriptor_t wDesc, const void *w, const cudnnTensorDescriptor_t *yDesc,
    void *y, const cudnnTensorDescriptor_t hyDesc, void *hy, const cudnnTensorDescriptor_t cyDesc,
    void *cy, const float findIntensity, const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnAlgorithmPerformance_t *perfResults, void *workspace, size_t workSpaceSizeInBytes) {
    STEPS_FORWARD(workspace);
}

EXPORT cudnnFindRNNForwardTrainingAlgorithmEx(
    cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int seqLength,
    const cudnnTensorDescriptor_t *xDesc, const void *x, const cudnnTensorDescriptor_t hxDesc,
    const void *hx, const cudnnTensorDescriptor_t cxDesc, const void *cx,
    const cudnnFilterDescriptor_t wDesc, const void *w, const cudnnTensorDescriptor_t *yDesc,
    void *y, const cudnnTensorDescriptor_t hyDesc, void *hy, const cudnnTensorDescriptor_t cyDesc,
    void *cy, const float findIntensity, const int requestedAlgoCount, int *returnedAlgoCount,
    cudnnAlgorithmPerformance_t *perfResults, void *workspace, size_t workSpaceSizeInBytes,
    void *reserveSpace, size_t reserveSpaceSizeInBytes) {
    STEPS_FORWARD(workspace, DN_PLAIN("reserve", reserveSpace));
}

EXPORT cudnnFindRNNBackwardDataAlgorithmEx(
    cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int seqLength,
    const cudnnTensorDescriptor_t *yDesc, const void *y, const cudnnTensorDescriptor_t *dyDesc,
    const void *dy, const cudnnTensorDescriptor_t dhyDesc, const void *dhy,
    const cudnnTensorDescriptor_t dcyDesc, const void *dcy, const cudnnFilterDescriptor_t wDesc,
    const void *w, const cudnnTensorDescriptor_t hxDesc, const void *hx,
    const cudnnTensorDescriptor_t cxDesc, const void *cx, const cudnnTensorDescriptor_t *dxDesc,
    void *dx, const cudnnTensorDescriptor_t dhxDesc, void *dhx,
    const cudnnTensorDescriptor_t dcxDesc, void *dcx, const float findIntensity,
    const int requestedAlgoCount, int *returnedAlgoCount, cudnnAlgorithmPerformance_t *perfResults,
    void *workspace, size_t workSpaceSizeInBytes, void *reserveSpace,
    size_t reserveSpaceSizeInBytes) {
    STEPS_BACKWARD_DATA(workspace);
}

EXPORT cudnnFindRNNBackwardWeightsAlgorithmEx(
    cudnnHandle_t handle, const cudnnRNNDescriptor_t rnnDesc, const int seqLength,
    const cudnnTensorDescriptor_t *xDesc, const void *x, const cudnnTensorDescriptor_t hxDesc,
    const void *hx, const cudnnTensorDescriptor_t *yDesc, const void *y, const float findIntensity,
    const int requestedAlgoCount, int *returnedAlgoCount, cudnnAlgorithmPerformance_t *perfResults,
    const void *workspace, size_t workSpaceSizeInBytes, const cudnnFilterDescriptor_t dwDesc,
    void *dw, const void *reserveSpace, size_t reserveSpaceSizeInBytes) {
    STEPS_BACKWARD_WEIGHTS(workspace);
}
