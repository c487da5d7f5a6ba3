/*
 * cudnn_convolution.c - cuDNN's convolutions of the old API: the descriptor, the algorithms on
 * offer, workspace sizes, and the computing calls. Any thread; not safe in a signal handler.
 *
 * Further fields of a computing call: pads strides dilations groups algo workspace
 * workspace_size.
 */
#include <string.h>

#include "cudnn_standin.h"

/* ---- the descriptor ---- */

static int set_convolution(struct standin_call *call, struct cudnnConvolutionStruct *convolution,
                           int count, const int *pads, const int *strides, const int *dilations,
                           int mode, int compute_type) {
    lib_put_pointer(call, "descriptor", convolution);
    if (call->fault)
        return call->fault;
    if (!convolution || !pads || !strides || !dilations || count < 0 || mode < 0 || mode > 1 ||
        compute_type < 0 || compute_type > CUDNN_DATA_BFLOAT16)
        return CUDNN_STATUS_BAD_PARAM;
    if (count > CUDNN_DIM_MAX - 2)
        return CUDNN_STATUS_NOT_SUPPORTED;
    struct cudnnConvolutionStruct made = *convolution; /* groups and math type stay */
    made.count = count;
    made.mode = mode;
    made.compute_type = compute_type;
    made.groups = made.groups ? made.groups : 1;
    for (int i = 0; i < count; i++) {
        if (pads[i] < 0 || strides[i] <= 0 || dilations[i] <= 0)
            return CUDNN_STATUS_BAD_PARAM;
        made.pad[i] = pads[i];
        made.stride[i] = strides[i];
        made.dilation[i] = dilations[i];
    }
    *convolution = made;
    return 0;
}

STANDIN_EXPORT cudnnStatus_t cudnnSetConvolution2dDescriptor(
    cudnnConvolutionDescriptor_t convolution, int pad_h, int pad_w, int stride_h, int stride_w,
    int dilation_h, int dilation_w, cudnnConvolutionMode_t mode, cudnnDataType_t compute_type) {
    LIB_ENTER(call);
    int pads[] = {pad_h, pad_w}, strides[] = {stride_h, stride_w};
    int dilations[] = {dilation_h, dilation_w};
    return standin_leave(&call, set_convolution(&call, convolution, 2, pads, strides, dilations,
                                                (int)mode, (int)compute_type));
}

STANDIN_EXPORT cudnnStatus_t cudnnSetConvolutionNdDescriptor(
    cudnnConvolutionDescriptor_t convolution, int count, const int pads[], const int strides[],
    const int dilations[], cudnnConvolutionMode_t mode, cudnnDataType_t compute_type) {
    LIB_ENTER(call);
    return standin_leave(&call, set_convolution(&call, convolution, count, pads, strides, dilations,
                                                (int)mode, (int)compute_type));
}

STANDIN_EXPORT cudnnStatus_t cudnnGetConvolutionNdDescriptor(
    const cudnnConvolutionDescriptor_t convolution, int wanted, int *count, int pads[],
    int strides[], int dilations[], cudnnConvolutionMode_t *mode, cudnnDataType_t *compute_type) {
    LIB_ENTER(call);
    bool good = convolution && count && pads && strides && dilations && mode && compute_type;
    int status = lib_status(&call, good ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0) {
        *count = convolution->count;
        size_t bytes = (size_t)(wanted < *count ? wanted : *count) * sizeof(int);
        memcpy(pads, convolution->pad, bytes);
        memcpy(strides, convolution->stride, bytes);
        memcpy(dilations, convolution->dilation, bytes);
        *mode = (cudnnConvolutionMode_t)convolution->mode;
        *compute_type = (cudnnDataType_t)convolution->compute_type;
    }
    return standin_leave(&call, status);
}

#define FIELD(Name, Type, field, least)                                                            \
    STANDIN_EXPORT cudnnStatus_t cudnnSetConvolution##Name(cudnnConvolutionDescriptor_t conv,      \
                                                           Type value) {                           \
        LIB_ENTER(call);                                                                           \
        lib_put_pointer(&call, "descriptor", conv);                                                \
        standin_put_signed(&call, "value", (int)value);                                            \
        bool good = conv && (int)value >= least;                                                   \
        int status = lib_status(&call, good ? 0 : CUDNN_STATUS_BAD_PARAM);                         \
        if (status == 0)                                                                           \
            conv->field = (int)value;                                                              \
        return standin_leave(&call, status);                                                       \
    }                                                                                              \
    STANDIN_EXPORT cudnnStatus_t cudnnGetConvolution##Name(cudnnConvolutionDescriptor_t conv,      \
                                                           Type *value) {                          \
        LIB_ENTER(call);                                                                           \
        lib_put_pointer(&call, "descriptor", conv);                                                \
        int status = lib_status(&call, conv && value ? 0 : CUDNN_STATUS_BAD_PARAM);                \
        if (status == 0)                                                                           \
            *value = (Type)conv->field;                                                            \
        return standin_leave(&call, status);                                                       \
    }

FIELD(GroupCount, int, groups, 1)
FIELD(MathType, cudnnMathType_t, math_type, 0)
FIELD(ReorderType, cudnnReorderType_t, reorder, 0)

/* ---- shapes ---- */

/* The output's dimensions for input x and filter w, or a status. */
static int output_dims(const struct cudnnConvolutionStruct *conv, const struct dn_shape *x,
                       const struct dn_shape *w, int64_t *dims) {
    if (!conv || !x || !w)
        return CUDNN_STATUS_BAD_PARAM;
    if (x->count != w->count || conv->count != x->count - 2 ||
        x->dims[1] != w->dims[1] * conv->groups)
        return CUDNN_STATUS_BAD_PARAM;
    dims[0] = x->dims[0];
    dims[1] = w->dims[0];
    for (int i = 0; i < conv->count; i++) {
        int64_t reach = (w->dims[i + 2] - 1) * conv->dilation[i] + 1;
        int64_t room = x->dims[i + 2] + 2 * conv->pad[i] - reach;
        if (room < 0)
            return CUDNN_STATUS_BAD_PARAM;
        dims[i + 2] = room / conv->stride[i] + 1;
    }
    return 0;
}

static int check_shapes(const struct cudnnConvolutionStruct *conv, const struct dn_shape *x,
                        const struct dn_shape *w, const struct dn_shape *y) {
    int64_t dims[CUDNN_DIM_MAX];
    int status = output_dims(conv, x, w, dims);
    if (status)
        return status;
    if (!y)
        return CUDNN_STATUS_BAD_PARAM;
    if (y->count != x->count || memcmp(dims, y->dims, (size_t)y->count * sizeof *dims))
        return CUDNN_STATUS_BAD_PARAM;
    return 0;
}

STANDIN_EXPORT cudnnStatus_t cudnnGetConvolutionNdForwardOutputDim(
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t input,
    const cudnnFilterDescriptor_t filter, int count, int dims[]) {
    LIB_ENTER(call);
    int64_t made[CUDNN_DIM_MAX];
    int status =
        lib_status(&call, output_dims(convolution, dn_tensor(input), dn_filter(filter), made));
    if (status == 0 && (count != input->shape.count || !dims))
        status = CUDNN_STATUS_BAD_PARAM;
    for (int i = 0; status == 0 && i < count; i++)
        dims[i] = (int)made[i];
    return standin_leave(&call, status);
}

STANDIN_EXPORT cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(
    const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t input,
    const cudnnFilterDescriptor_t filter, int *n, int *c, int *h, int *w) {
    LIB_ENTER(call);
    int64_t made[CUDNN_DIM_MAX];
    int status =
        lib_status(&call, output_dims(convolution, dn_tensor(input), dn_filter(filter), made));
    if (status == 0 && input->shape.count != 4)
        status = CUDNN_STATUS_BAD_PARAM;
    if (status == 0)
        *n = (int)made[0], *c = (int)made[1], *h = (int)made[2], *w = (int)made[3];
    return standin_leave(&call, status);
}

/* ---- algorithms ---- */

static void put_ints(struct standin_call *call, const char *key, const int *values, int count) {
    int64_t wide[CUDNN_DIM_MAX];
    for (int i = 0; i < count; i++)
        wide[i] = values[i];
    dn_put_list(call, key, wide, count);
}

static void put_settings(struct standin_call *call, const struct cudnnConvolutionStruct *conv) {
    if (!conv)
        return;
    put_ints(call, "pads", conv->pad, conv->count);
    put_ints(call, "conv_strides", conv->stride, conv->count);
    put_ints(call, "dilations", conv->dilation, conv->count);
    standin_put_signed(call, "groups", conv->groups);
}

/* What a search for algorithms works on: three operands in the order of its parameters. */
static void put_search(struct standin_call *call, cudnnHandle_t handle,
                       const struct cudnnConvolutionStruct *conv, const char *kind,
                       const struct dn_shape *const shapes[], const void *const addresses[]) {
    static const char *const roles[][4] = {{"Forward", "x", "w", "y"},
                                           {"BackwardData", "w", "dy", "dx"},
                                           {"BackwardFilter", "x", "dy", "dw"}};
    lib_put_pointer(call, "handle", handle);
    if (dn_handle_good(handle))
        lib_put_pointer(call, "stream", handle->stream);
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        for (int k = 0; strcmp(roles[i][0], kind) == 0 && k < 3; k++)
            dn_put_operand(
                call, "",
                &(struct dn_operand){roles[i][k + 1], addresses[k], shapes[k], true, false});
    put_settings(call, conv);
}

/* Algorithm 0 needs no workspace; the others as much as the input, 1 MiB at least. */
static size_t workspace_of(int algo, const struct dn_shape *x) {
    uint64_t span = dn_span(x);
    return algo == 0 ? 0 : span > (1 << 20) ? span : 1 << 20;
}

/*
 * The three kinds of convolution have results of one layout. Fills in algorithm 1, then 0, as far
 * as they are wanted and their workspace fits into `limit`.
 */
static int offer(const struct dn_shape *x, int wanted, int *returned, void *results, size_t limit,
                 bool measured) {
    if (wanted < 1 || !returned || !results)
        return CUDNN_STATUS_BAD_PARAM;
    cudnnConvolutionFwdAlgoPerf_t *out = results;
    int count = 0;
    for (int algo = 1; algo >= 0 && count < wanted; algo--) {
        size_t memory = workspace_of(algo, x);
        if (memory > limit)
            continue;
        memset(&out[count], 0, sizeof *out);
        memcpy(&out[count].algo, &algo, sizeof algo);
        out[count].time = measured ? 0.5f - 0.4f * (float)algo : -1.0f;
        out[count].memory = memory;
        out[count].determinism = CUDNN_DETERMINISTIC;
        count++;
    }
    *returned = count;
    return count ? 0 : CUDNN_STATUS_NOT_SUPPORTED;
}

/*
 * The functions that offer algorithms, for one kind of convolution. A, B, D are the descriptor
 * parameters in the API's order; X, W, Y the shapes they stand for.
 */
#define ALGORITHMS(Kind, Perf, Algo, COUNT, A, B, D, PA, PB, PD, SA, SB, SD, X, W, Y)              \
    STANDIN_EXPORT cudnnStatus_t cudnnGetConvolution##Kind##AlgorithmMaxCount(                     \
        cudnnHandle_t handle, int *count) {                                                        \
        LIB_ENTER(call);                                                                           \
        bool good = dn_handle_good(handle) && count;                                               \
        int status = lib_status(&call, good ? 0 : CUDNN_STATUS_BAD_PARAM);                         \
        if (status == 0)                                                                           \
            *count = COUNT;                                                                        \
        return standin_leave(&call, status);                                                       \
    }                                                                                              \
    STANDIN_EXPORT cudnnStatus_t cudnnGetConvolution##Kind##Algorithm_v7(                          \
        cudnnHandle_t handle, A, B, const cudnnConvolutionDescriptor_t conv, D, const int wanted,  \
        int *returned, Perf *results) {                                                            \
        LIB_ENTER(call);                                                                           \
        lib_put_pointer(&call, "handle", handle);                                                  \
        int status = lib_status(&call, check_shapes(conv, X, W, Y));                               \
        if (status == 0)                                                                           \
            status = offer(X, wanted, returned, results, SIZE_MAX, false);                         \
        return standin_leave(&call, status);                                                       \
    }                                                                                              \
    STANDIN_EXPORT cudnnStatus_t cudnnFindConvolution##Kind##Algorithm(                            \
        cudnnHandle_t handle, A, B, const cudnnConvolutionDescriptor_t conv, D, const int wanted,  \
        int *returned, Perf *results) {                                                            \
        LIB_ENTER(call);                                                                           \
        put_search(&call, handle, conv, #Kind, (const struct dn_shape *[]){SA, SB, SD},            \
                   (const void *[]){NULL, NULL, NULL});                                            \
        int status = lib_status(&call, check_shapes(conv, X, W, Y));                               \
        if (status == 0)                                                                           \
            status = offer(X, wanted, returned, results, SIZE_MAX, true);                          \
        return standin_leave(&call, status);                                                       \
    }                                                                                              \
    STANDIN_EXPORT cudnnStatus_t cudnnFindConvolution##Kind##AlgorithmEx(                          \
        cudnnHandle_t handle, A, PA, B, PB, const cudnnConvolutionDescriptor_t conv, D, PD,        \
        const int wanted, int *returned, Perf *results, void *workspace, size_t workspace_size) {  \
        LIB_ENTER(call);                                                                           \
        (void)p1, (void)p2, (void)p3;                                                              \
        put_search(&call, handle, conv, #Kind, (const struct dn_shape *[]){SA, SB, SD},            \
                   (const void *[]){p1, p2, p3});                                                  \
        lib_put_pointer(&call, "workspace", workspace);                                            \
        standin_put(&call, "workspace_size", workspace_size);                                      \
        int status = lib_status(&call, check_shapes(conv, X, W, Y));                               \
        if (status == 0)                                                                           \
            status = offer(X, wanted, returned, results, workspace_size, true);                    \
        return standin_leave(&call, status);                                                       \
    }                                                                                              \
    STANDIN_EXPORT cudnnStatus_t cudnnGetConvolution##Kind##WorkspaceSize(                         \
        cudnnHandle_t handle, A, B, const cudnnConvolutionDescriptor_t conv, D, Algo algo,         \
        size_t *size) {                                                                            \
        LIB_ENTER(call);                                                                           \
        lib_put_pointer(&call, "handle", handle);                                                  \
        int status = lib_status(&call, check_shapes(conv, X, W, Y));                               \
        if (status == 0 && !size)                                                                  \
            status = CUDNN_STATUS_BAD_PARAM;                                                       \
        if (status == 0)                                                                           \
            *size = workspace_of((int)algo, X);                                                    \
        return standin_leave(&call, status);                                                       \
    }

ALGORITHMS(Forward, cudnnConvolutionFwdAlgoPerf_t, cudnnConvolutionFwdAlgo_t,
           CUDNN_CONVOLUTION_FWD_ALGO_COUNT, const cudnnTensorDescriptor_t x,
           const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t y, const void *p1,
           const void *p2, void *p3, dn_tensor(x), dn_filter(w), dn_tensor(y), dn_tensor(x),
           dn_filter(w), dn_tensor(y))
ALGORITHMS(BackwardData, cudnnConvolutionBwdDataAlgoPerf_t, cudnnConvolutionBwdDataAlgo_t,
           CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, const cudnnFilterDescriptor_t w,
           const cudnnTensorDescriptor_t dy, const cudnnTensorDescriptor_t dx, const void *p1,
           const void *p2, void *p3, dn_filter(w), dn_tensor(dy), dn_tensor(dx), dn_tensor(dx),
           dn_filter(w), dn_tensor(dy))
ALGORITHMS(BackwardFilter, cudnnConvolutionBwdFilterAlgoPerf_t, cudnnConvolutionBwdFilterAlgo_t,
           CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT, const cudnnTensorDescriptor_t x,
           const cudnnTensorDescriptor_t dy, const cudnnFilterDescriptor_t dw, const void *p1,
           const void *p2, void *p3, dn_tensor(x), dn_tensor(dy), dn_filter(dw), dn_tensor(x),
           dn_filter(dw), dn_tensor(dy))

/* ---- the computing calls ---- */

struct convolution {
    const struct cudnnConvolutionStruct *conv;
    const struct dn_shape *x, *w, *y; /* forward's names */
    int algo;
    void *workspace;
    size_t workspace_size;
    enum { WRITES_Y, WRITES_X, WRITES_W } pass;
};

static int convolve(struct standin_call *call, cudnnHandle_t handle, const struct convolution *c,
                    const struct dn_operand *operands, size_t count) {
    int status = dn_begin(call, handle, operands, count);
    put_settings(call, c->conv);
    standin_put_signed(call, "algo", c->algo);
    lib_put_pointer(call, "workspace", c->workspace);
    standin_put(call, "workspace_size", c->workspace_size);
    if (status == 0)
        status = check_shapes(c->conv, c->x, c->w, c->y);
    if (status == 0 && c->workspace_size < workspace_of(c->algo, c->x))
        status = CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
    const struct dn_use use[] = {
        {c->x, c->pass == WRITES_X}, {c->w, c->pass == WRITES_W}, {c->y, c->pass == WRITES_Y}};
    return dn_finish_convolution(call, handle, status, use, 3, c->conv ? c->conv->groups : 1);
}

STANDIN_EXPORT cudnnStatus_t cudnnConvolutionForward(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t xDesc, const void *x,
    const cudnnFilterDescriptor_t wDesc, const void *w, const cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionFwdAlgo_t algo, void *workspace, size_t workspace_size, const void *beta,
    const cudnnTensorDescriptor_t yDesc, void *y) {
    LIB_ENTER(call);
    (void)alpha, (void)beta;
    struct convolution c = {conv,      dn_tensor(xDesc), dn_filter(wDesc), dn_tensor(yDesc),
                            (int)algo, workspace,        workspace_size,   WRITES_Y};
    return convolve(
        &call, handle, &c,
        DN_OPERANDS(DN_TENSOR("x", xDesc, x), DN_FILTER("w", wDesc, w), DN_TENSOR("y", yDesc, y)));
}

STANDIN_EXPORT cudnnStatus_t cudnnConvolutionBiasActivationForward(
    cudnnHandle_t handle, const void *alpha1, const cudnnTensorDescriptor_t xDesc, const void *x,
    const cudnnFilterDescriptor_t wDesc, const void *w, const cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionFwdAlgo_t algo, void *workspace, size_t workspace_size, const void *alpha2,
    const cudnnTensorDescriptor_t zDesc, const void *z, const cudnnTensorDescriptor_t biasDesc,
    const void *bias, const cudnnActivationDescriptor_t activation,
    const cudnnTensorDescriptor_t yDesc, void *y) {
    LIB_ENTER(call);
    (void)alpha1, (void)alpha2, (void)activation;
    struct convolution c = {conv,      dn_tensor(xDesc), dn_filter(wDesc), dn_tensor(yDesc),
                            (int)algo, workspace,        workspace_size,   WRITES_Y};
    return convolve(&call, handle, &c,
                    DN_OPERANDS(DN_TENSOR("x", xDesc, x), DN_FILTER("w", wDesc, w),
                                DN_OPTIONAL("z", zDesc, z), DN_TENSOR("bias", biasDesc, bias),
                                DN_TENSOR("y", yDesc, y)));
}

STANDIN_EXPORT cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void *alpha, const cudnnFilterDescriptor_t wDesc, const void *w,
    const cudnnTensorDescriptor_t dyDesc, const void *dy, const cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionBwdDataAlgo_t algo, void *workspace, size_t workspace_size, const void *beta,
    const cudnnTensorDescriptor_t dxDesc, void *dx) {
    LIB_ENTER(call);
    (void)alpha, (void)beta;
    struct convolution c = {conv,      dn_tensor(dxDesc), dn_filter(wDesc), dn_tensor(dyDesc),
                            (int)algo, workspace,         workspace_size,   WRITES_X};
    return convolve(&call, handle, &c,
                    DN_OPERANDS(DN_FILTER("w", wDesc, w), DN_TENSOR("dy", dyDesc, dy),
                                DN_TENSOR("dx", dxDesc, dx)));
}

STANDIN_EXPORT cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t xDesc, const void *x,
    const cudnnTensorDescriptor_t dyDesc, const void *dy, const cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionBwdFilterAlgo_t algo, void *workspace, size_t workspace_size, const void *beta,
    const cudnnFilterDescriptor_t dwDesc, void *dw) {
    LIB_ENTER(call);
    (void)alpha, (void)beta;
    struct convolution c = {conv,      dn_tensor(xDesc), dn_filter(dwDesc), dn_tensor(dyDesc),
                            (int)algo, workspace,        workspace_size,    WRITES_W};
    return convolve(&call, handle, &c,
                    DN_OPERANDS(DN_TENSOR("x", xDesc, x), DN_TENSOR("dy", dyDesc, dy),
                                DN_FILTER("dw", dwDesc, dw)));
}

STANDIN_EXPORT cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void *alpha,
                                                          const cudnnTensorDescriptor_t dyDesc,
                                                          const void *dy, const void *beta,
                                                          const cudnnTensorDescriptor_t dbDesc,
                                                          void *db) {
    (void)alpha, (void)beta;
    DN_COMPUTE(DN_TENSOR("dy", dyDesc, dy), DN_TENSOR("db", dbDesc, db));
}
