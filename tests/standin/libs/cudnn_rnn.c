/*
 * cudnn_rnn.c - cuDNN's recurrent nets and dropout: descriptors, the layout of the weight space
 * (each layer's matrices, then all biases, as the real library has it), and the computing calls.
 * Any thread; not safe in a signal handler.
 */
#include <stdlib.h>
#include <string.h>

#include "cudnn_standin.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define EXPORT STANDIN_EXPORT cudnnStatus_t
#define DROPOUT_STATES 1572864 /* bytes of generator state, one per thread of the device */

/* ---- dropout ---- */

struct cudnnDropoutStruct {
    float dropout;
    void *states;
    unsigned long long seed;
};

EXPORT cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t *dropout) {
    LIB_ENTER(call);
    int status = lib_status(&call, dropout ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0 && !(*dropout = calloc(1, sizeof **dropout)))
        status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    return standin_leave(&call, status);
}

EXPORT cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t dropout) {
    LIB_ENTER(call);
    if (!call.fault)
        free(dropout);
    return standin_leave(&call, call.fault);
}

EXPORT cudnnDropoutGetStatesSize(cudnnHandle_t handle, size_t *size) {
    LIB_ENTER(call);
    int status = lib_status(&call, dn_handle_good(handle) && size ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0)
        *size = DROPOUT_STATES;
    return standin_leave(&call, status);
}

EXPORT cudnnDropoutGetReserveSpaceSize(cudnnTensorDescriptor_t x, size_t *size) {
    LIB_ENTER(call);
    int status = lib_status(&call, x && size ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0)
        *size = dn_span(&x->shape) / dn_element_size(x->shape.type); /* a byte an element */
    return standin_leave(&call, status);
}

static int set_dropout(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t handle, float dropout,
                       void *states, size_t size, unsigned long long seed) {
    if (!descriptor || !dn_handle_good(handle) || dropout < 0 || dropout > 1)
        return CUDNN_STATUS_BAD_PARAM;
    if (states && size < DROPOUT_STATES)
        return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
    *descriptor = (struct cudnnDropoutStruct){dropout, states, seed};
    return 0;
}

/* Also fills the states, so it launches. */
EXPORT cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t handle,
                                 float dropout, void *states, size_t size,
                                 unsigned long long seed) {
    LIB_ENTER(call);
    int status = lib_status(&call, set_dropout(descriptor, handle, dropout, states, size, seed));
    if (!states)
        return standin_leave(&call, status);
    return dn_finish(&call, handle, status);
}

EXPORT cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t handle,
                                     float dropout, void *states, size_t size,
                                     unsigned long long seed) {
    LIB_ENTER(call);
    return standin_leave(
        &call, lib_status(&call, set_dropout(descriptor, handle, dropout, states, size, seed)));
}

EXPORT cudnnGetDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t handle,
                                 float *dropout, void **states, unsigned long long *seed) {
    LIB_ENTER(call);
    bool good = descriptor && dropout && states && seed;
    int status = lib_status(&call, good ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0)
        *dropout = descriptor->dropout, *states = descriptor->states, *seed = descriptor->seed;
    return standin_leave(&call, status);
}

EXPORT cudnnDropoutForward(cudnnHandle_t handle, const cudnnDropoutDescriptor_t dropout,
                           const cudnnTensorDescriptor_t xDesc, const void *x,
                           const cudnnTensorDescriptor_t yDesc, void *y, void *reserve,
                           size_t reserve_size) {
    DN_COMPUTE(DN_TENSOR("x", xDesc, x), DN_TENSOR("y", yDesc, y), DN_PLAIN("reserve", reserve));
}

EXPORT cudnnDropoutBackward(cudnnHandle_t handle, const cudnnDropoutDescriptor_t dropout,
                            const cudnnTensorDescriptor_t dyDesc, const void *dy,
                            const cudnnTensorDescriptor_t dxDesc, void *dx, void *reserve,
                            size_t reserve_size) {
    DN_COMPUTE(DN_TENSOR("dy", dyDesc, dy), DN_TENSOR("dx", dxDesc, dx),
               DN_PLAIN("reserve", reserve));
}

/* ---- the net and its weights ---- */

EXPORT cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t *rnn) {
    LIB_ENTER(call);
    int status = lib_status(&call, rnn ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0 && !(*rnn = calloc(1, sizeof **rnn)))
        status = CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    return standin_leave(&call, status);
}

EXPORT cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t rnn) {
    LIB_ENTER(call);
    if (!call.fault)
        free(rnn);
    return standin_leave(&call, call.fault);
}

EXPORT cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t rnn, cudnnRNNAlgo_t algo, cudnnRNNMode_t cell,
                                cudnnRNNBiasMode_t bias, cudnnDirectionMode_t direction,
                                cudnnRNNInputMode_t input_mode, cudnnDataType_t type,
                                cudnnDataType_t math_type, cudnnMathType_t math, int32_t input_size,
                                int32_t hidden_size, int32_t projection_size, int32_t layers,
                                cudnnDropoutDescriptor_t dropout, uint32_t flags) {
    LIB_ENTER(call);
    bool good = rnn && input_size > 0 && hidden_size > 0 && projection_size > 0 && layers > 0;
    int status = lib_status(&call, good ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0)
        *rnn = (struct cudnnRNNStruct){.cell = (int)cell,
                                       .bias_mode = (int)bias,
                                       .directions = direction == CUDNN_BIDIRECTIONAL ? 2 : 1,
                                       .type = (int)type,
                                       .input = input_size,
                                       .hidden = hidden_size,
                                       .projection = projection_size,
                                       .layers = layers};
    return standin_leave(&call, status);
}

static int64_t gates(const struct cudnnRNNStruct *rnn) {
    return rnn->cell == CUDNN_LSTM ? 4 : rnn->cell == CUDNN_GRU ? 3 : 1;
}

static int64_t bias_sets(const struct cudnnRNNStruct *rnn) {
    return rnn->bias_mode == CUDNN_RNN_NO_BIAS       ? 0
           : rnn->bias_mode == CUDNN_RNN_DOUBLE_BIAS ? 2
                                                     : 1;
}

static bool projects(const struct cudnnRNNStruct *rnn) {
    return rnn->cell == CUDNN_LSTM && rnn->projection < rnn->hidden;
}

/* Columns of the input matrices of a pseudo layer (one layer in one direction). */
static int64_t input_columns(const struct cudnnRNNStruct *rnn, int64_t pseudo_layer) {
    return pseudo_layer < rnn->directions ? rnn->input : rnn->projection * rnn->directions;
}

/* Elements of all matrices of a pseudo layer: input gates, recurrent gates, projection. */
static int64_t matrix_elements(const struct cudnnRNNStruct *rnn, int64_t pseudo_layer) {
    int64_t gate = rnn->hidden * (input_columns(rnn, pseudo_layer) + rnn->projection);
    return gates(rnn) * gate + (projects(rnn) ? rnn->hidden * rnn->projection : 0);
}

static int64_t all_matrices(const struct cudnnRNNStruct *rnn, int64_t pseudo_layers) {
    int64_t elements = 0;
    for (int64_t i = 0; i < pseudo_layers; i++)
        elements += matrix_elements(rnn, i);
    return elements;
}

static size_t weight_bytes(const struct cudnnRNNStruct *rnn) {
    int64_t pseudo_layers = rnn->layers * rnn->directions;
    int64_t biases = pseudo_layers * bias_sets(rnn) * gates(rnn) * rnn->hidden;
    return (size_t)(all_matrices(rnn, pseudo_layers) + biases) * dn_element_size(rnn->type);
}

EXPORT cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, size_t *size) {
    LIB_ENTER(call);
    int status =
        lib_status(&call, dn_handle_good(handle) && rnn && size ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0)
        *size = weight_bytes(rnn);
    return standin_leave(&call, status);
}

/* A place in the weight space; no rows means that there is none. */
struct part {
    int64_t offset, rows, columns;
};

static struct part find_matrix(const struct cudnnRNNStruct *rnn, int64_t layer, int64_t id) {
    struct part part = {all_matrices(rnn, layer), rnn->hidden, input_columns(rnn, layer)};
    int64_t count = gates(rnn);
    if (id < count) {
        part.offset += id * part.rows * part.columns;
        return part;
    }
    part.offset += count * part.rows * part.columns;
    part.columns = rnn->projection;
    if (id < 2 * count) {
        part.offset += (id - count) * part.rows * part.columns;
        return part;
    }
    part.offset += count * part.rows * part.columns;
    if (!projects(rnn) || id > 2 * count)
        return (struct part){0};
    part.rows = rnn->projection;
    part.columns = rnn->hidden;
    return part;
}

static struct part find_bias(const struct cudnnRNNStruct *rnn, int64_t layer, int64_t id) {
    int64_t sets = bias_sets(rnn), count = gates(rnn);
    if (id >= sets * count)
        return (struct part){0};
    int64_t before = layer * sets * count + id;
    return (struct part){all_matrices(rnn, rnn->layers * rnn->directions) + before * rnn->hidden,
                         rnn->hidden, 1};
}

static void describe_part(const struct cudnnRNNStruct *rnn, const struct part *part,
                          const void *space, cudnnTensorDescriptor_t desc, void **address) {
    if (!address)
        return; /* not asked for */
    *address = NULL;
    if (part->rows == 0) {
        if (desc)
            desc->shape = (struct dn_shape){.type = rnn->type, .count = 3};
        return;
    }
    *address = (char *)(uintptr_t)space + (size_t)part->offset * dn_element_size(rnn->type);
    if (!desc)
        return;
    desc->shape =
        (struct dn_shape){.type = rnn->type, .count = 3, .dims = {1, part->rows, part->columns}};
    dn_pack(&desc->shape);
}

EXPORT cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, int32_t layer,
                               size_t space_size, const void *space, int32_t id,
                               cudnnTensorDescriptor_t matrix, void **matrix_address,
                               cudnnTensorDescriptor_t bias, void **bias_address) {
    LIB_ENTER(call);
    bool good = dn_handle_good(handle) && rnn && layer >= 0 && id >= 0 &&
                layer < rnn->layers * rnn->directions;
    int status = lib_status(&call, good ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0 && space_size < weight_bytes(rnn))
        status = CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
    if (status == 0) {
        struct part part = find_matrix(rnn, layer, id);
        describe_part(rnn, &part, space, matrix, matrix_address);
        part = find_bias(rnn, layer, id);
        describe_part(rnn, &part, space, bias, bias_address);
    }
    return standin_leave(&call, status);
}

/* ---- sequences ---- */

EXPORT cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t data, cudnnDataType_t type,
                                 cudnnRNNDataLayout_t layout, int max_length, int batch, int vector,
                                 const int lengths[], void *padding) {
    LIB_ENTER(call);
    bool good = data && max_length > 0 && batch > 0 && vector > 0 && lengths;
    for (int i = 0; good && i < batch; i++)
        good = lengths[i] >= 0 && lengths[i] <= max_length;
    int status = lib_status(&call, good ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0) {
        bool batch_first = layout == CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED;
        *data = (struct cudnnRNNDataStruct){.shape = {.type = (int)type, .count = 3},
                                            .layout = (int)layout,
                                            .max_length = max_length,
                                            .batch = batch,
                                            .vector = vector};
        data->shape.dims[0] = batch_first ? batch : max_length;
        data->shape.dims[1] = batch_first ? max_length : batch;
        data->shape.dims[2] = vector;
        if (layout == 1) { /* packed: the steps have fewer and fewer sequences */
            int64_t steps = 0;
            for (int i = 0; i < batch; i++)
                steps += lengths[i];
            data->shape.dims[0] = 1;
            data->shape.dims[1] = steps;
        }
        dn_pack(&data->shape);
    }
    return standin_leave(&call, status);
}

/* Room for every gate of every step of every pseudo layer. */
EXPORT cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                 cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x,
                                 size_t *workspace, size_t *reserve) {
    LIB_ENTER(call);
    bool good = dn_handle_good(handle) && rnn && x;
    int status = lib_status(&call, good ? 0 : CUDNN_STATUS_BAD_PARAM);
    if (status == 0) {
        size_t all = (size_t)(rnn->layers * rnn->directions * gates(rnn) * rnn->hidden) *
                     (size_t)x->batch * (size_t)x->max_length * dn_element_size(rnn->type);
        if (workspace)
            *workspace = all;
        if (reserve)
            *reserve = mode == CUDNN_FWD_MODE_TRAINING ? all : 0;
    }
    return standin_leave(&call, status);
}

/* ---- computing calls ---- */

EXPORT cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, cudnnForwardMode_t mode,
                       const int32_t lengths[], cudnnRNNDataDescriptor_t xDesc, const void *x,
                       cudnnRNNDataDescriptor_t yDesc, void *y, cudnnTensorDescriptor_t hDesc,
                       const void *hx, void *hy, cudnnTensorDescriptor_t cDesc, const void *cx,
                       void *cy, size_t weight_size, const void *weights, size_t workspace_size,
                       void *workspace, size_t reserve_size, void *reserve) {
    DN_COMPUTE(DN_SEQUENCE("x", xDesc, x), DN_SEQUENCE("y", yDesc, y), DN_OPTIONAL("hx", hDesc, hx),
               DN_OPTIONAL("hy", hDesc, hy), DN_OPTIONAL("cx", cDesc, cx),
               DN_OPTIONAL("cy", cDesc, cy), DN_PLAIN("weights", weights),
               DN_PLAIN("workspace", workspace), DN_PLAIN("reserve", reserve));
}

EXPORT cudnnRNNBackwardData_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                               const int32_t lengths[], cudnnRNNDataDescriptor_t yDesc,
                               const void *y, const void *dy, cudnnRNNDataDescriptor_t xDesc,
                               void *dx, cudnnTensorDescriptor_t hDesc, const void *hx,
                               const void *dhy, void *dhx, cudnnTensorDescriptor_t cDesc,
                               const void *cx, const void *dcy, void *dcx, size_t weight_size,
                               const void *weights, size_t workspace_size, void *workspace,
                               size_t reserve_size, void *reserve) {
    DN_COMPUTE(DN_SEQUENCE("y", yDesc, y), DN_SEQUENCE("dy", yDesc, dy),
               DN_SEQUENCE("dx", xDesc, dx), DN_OPTIONAL("hx", hDesc, hx),
               DN_OPTIONAL("dhy", hDesc, dhy), DN_OPTIONAL("dhx", hDesc, dhx),
               DN_OPTIONAL("cx", cDesc, cx), DN_OPTIONAL("dcy", cDesc, dcy),
               DN_OPTIONAL("dcx", cDesc, dcx), DN_PLAIN("weights", weights),
               DN_PLAIN("workspace", workspace), DN_PLAIN("reserve", reserve));
}

EXPORT cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                  cudnnWgradMode_t mode, const int32_t lengths[],
                                  cudnnRNNDataDescriptor_t xDesc, const void *x,
                                  cudnnTensorDescriptor_t hDesc, const void *hx,
                                  cudnnRNNDataDescriptor_t yDesc, const void *y, size_t weight_size,
                                  void *dweights, size_t workspace_size, void *workspace,
                                  size_t reserve_size, void *reserve) {
    DN_COMPUTE(DN_SEQUENCE("x", xDesc, x), DN_SEQUENCE("y", yDesc, y), DN_OPTIONAL("hx", hDesc, hx),
               DN_PLAIN("dweights", dweights), DN_PLAIN("workspace", workspace),
               DN_PLAIN("reserve", reserve));
}
