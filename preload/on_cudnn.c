/*
 * on_cudnn.c - see on_cudnn.h. Any thread; no lock.
 */
#include "on_cudnn.h"

#include <stdatomic.h>
#include <string.h>

#include "descriptors.h"
#include "operand.h"
#include "resolve.h"
#include "shape.h"

enum { FORMAT_NCHW, FORMAT_NHWC, FORMAT_NCHW_VECT_C };
enum { INT8X32 = 8 }; /* cudnnDataType_t */

uint8_t ls_cudnn_dtype(int type) {
    static const int8_t number[LS_DTYPE_COUNT] = {
#define DTYPE(ID, name, bits, cuda, cudnn, nccl) cudnn,
#include "layoutspy/dtype.def"
    };
    for (uint8_t i = 0; type >= 0 && i < LS_DTYPE_COUNT; i++)
        if (number[i] == type)
            return i;
    return LS_DTYPE_UNKNOWN;
}

/* ---- what is kept ---- */

static const struct ls_shape *known(const void *desc) {
    uint64_t word = ls_descriptor(desc);
    return LS_DESCRIBED_KIND(word) == LS_DESCRIBED_SHAPE ? ls_shape_at((uint32_t)word) : NULL;
}

/* NULL: nothing is known of it from here on. */
static void keep(const void *desc, const struct ls_shape *shape) {
    uint32_t number = shape ? ls_shape_number(shape) : 0;
    ls_descriptor_put(desc, number ? LS_DESCRIBED(LS_DESCRIBED_SHAPE, number) : 0);
}

/* Did the setter set? One that fails may have set half of it: then nothing is known. */
static bool has_set(int status, const void *desc, int count, int most) {
    if (status == 0 && count >= 0 && count <= most)
        return true;
    keep(desc, NULL);
    return false;
}

void ls_cudnn_made(int status, const void *desc) {
    const void *made;
    if (status != 0 || !desc)
        return;
    memcpy(&made, desc, sizeof made);
    ls_descriptor_take(made); /* one at this address may have been destroyed beside us */
}

uint64_t ls_cudnn_going(const void *desc) {
    return ls_descriptor_take(desc);
}

void ls_cudnn_gone(int status, const void *desc, uint64_t word) {
    if (status != 0 && word)
        ls_descriptor_put(desc, word);
}

/* ---- tensors and filters ---- */

static void begin_tensor(struct ls_shape *shape, int type, int count, const int *dims) {
    memset(shape, 0, offsetof(struct ls_shape, value));
    shape->kind = LS_SHAPE_TENSOR;
    shape->dims = (uint8_t)count;
    shape->values = 2 * (uint32_t)count;
    shape->dtype = ls_cudnn_dtype(type);
    shape->dtype_told = type;
    for (int i = 0; i < count; i++)
        shape->value[i] = dims[i];
}

void ls_cudnn_set_strided(int status, const void *desc, int type, int count, const int *dims,
                          const int *strides) {
    struct ls_shape shape;
    if (!has_set(status, desc, count, LS_SHAPE_DIMS))
        return;
    begin_tensor(&shape, type, count, dims);
    for (int i = 0; i < count; i++)
        shape.value[count + i] = strides[i];
    keep(desc, &shape);
}

/* Channels that lie together as one element: cuDNN takes other types for vectors of four as well.
 */
static uint16_t vector_of(int type) {
    return type == INT8X32 ? 32 : 4;
}

void ls_cudnn_set_packed(int status, const void *desc, int format, int type, int count,
                         const int *dims) {
    struct ls_shape shape;
    if (!has_set(status, desc, count, LS_SHAPE_DIMS))
        return;
    if (format < FORMAT_NCHW || format > FORMAT_NCHW_VECT_C || count < 2) {
        keep(desc, NULL);
        return;
    }
    bool channels_last = format == FORMAT_NHWC;
    if (channels_last && count == 2) { /* the library itself has no rule for it */
        ls_cudnn_set_derived(0, desc);
        return;
    }
    begin_tensor(&shape, type, count, dims);
    int64_t *stride = shape.value + count, next = 1;
    if (format == FORMAT_NCHW_VECT_C) {
        shape.vector_count = vector_of(type);
        shape.vector_dim = 1;
        shape.value[1] -= shape.value[1] % shape.vector_count; /* of filters, as the library does */
    }
    if (channels_last) {
        stride[1] = 1;
        next = dims[1];
    }
    for (int i = count - 1; i >= 0; i--) {
        if (i == 1 && channels_last)
            continue;
        stride[i] = next;
        next *= i == 1 && shape.vector_count ? dims[i] / shape.vector_count : dims[i];
    }
    keep(desc, &shape);
}

void ls_cudnn_set_derived(int status, const void *desc) {
    typedef int (*get_function)(const void *, int, int *, int *, int *, int *);
    static void *_Atomic found;
    void *function = atomic_load_explicit(&found, memory_order_acquire);
    if (!has_set(status, desc, 0, 0) || !desc)
        return;
    if (!function) {
        function = ls_resolve_other(LS_LIB_CUDNN, "cudnnGetTensorNdDescriptor");
        atomic_store_explicit(&found, function, memory_order_release);
    }
    get_function get;
    memcpy(&get, &function, sizeof get);
    int type, count, dims[LS_SHAPE_DIMS], strides[LS_SHAPE_DIMS];
    if (get && get(desc, LS_SHAPE_DIMS, &type, &count, dims, strides) == 0)
        ls_cudnn_set_strided(0, desc, type, count, dims, strides);
    else
        keep(desc, NULL);
}

/* ---- settings ---- */

static void put_ints(struct ls_shape *shape, int count, const int *values) {
    for (int i = 0; i < count; i++)
        shape->value[shape->values++] = values[i];
}

/* Groups and the math type outlive the rest, and may be set before it: the shape then has no
 * dimensions. */
enum { GROUPS = 3, MODE = 2, MATH = 1 }; /* counted from the end */

static int64_t setting(const struct ls_shape *shape, int which, int64_t otherwise) {
    return shape && shape->kind == LS_SHAPE_CONVOLUTION ? shape->value[shape->values - which]
                                                        : otherwise;
}

void ls_cudnn_set_convolution(int status, const void *desc, int count, const int *pads,
                              const int *strides, const int *dilations, int mode) {
    struct ls_shape shape = {.kind = LS_SHAPE_CONVOLUTION};
    const struct ls_shape *before = known(desc);
    if (!desc)
        return;
    bool has = status == 0 && count >= 0 && count <= LS_SHAPE_DIMS;
    if (has) {
        shape.dims = (uint8_t)count;
        put_ints(&shape, count, pads);
        put_ints(&shape, count, pads); /* as much after as before */
        put_ints(&shape, count, strides);
        put_ints(&shape, count, dilations);
    }
    shape.value[shape.values++] = setting(before, GROUPS, 1);
    shape.value[shape.values++] = has ? mode : 0;
    shape.value[shape.values++] = setting(before, MATH, 0);
    keep(desc, &shape);
}

/* Refused, it changes nothing. */
static void change_setting(int status, const void *desc, int which, int value) {
    struct ls_shape shape = {
        .kind = LS_SHAPE_CONVOLUTION, .values = GROUPS, .value = {1, 0, 0}}; /* nothing else yet */
    const struct ls_shape *before = known(desc);
    if (!desc || status != 0)
        return;
    if (before && before->kind == LS_SHAPE_CONVOLUTION)
        memcpy(&shape, before,
               offsetof(struct ls_shape, value) + before->values * sizeof *before->value);
    shape.value[shape.values - (uint32_t)which] = value;
    keep(desc, &shape);
}

void ls_cudnn_set_groups(int status, const void *desc, int groups) {
    change_setting(status, desc, GROUPS, groups);
}

void ls_cudnn_set_math(int status, const void *desc, int math) {
    change_setting(status, desc, MATH, math);
}

void ls_cudnn_set_pooling(int status, const void *desc, int mode, int count, const int *windows,
                          const int *pads, const int *strides) {
    struct ls_shape shape = {.kind = LS_SHAPE_POOLING};
    if (!has_set(status, desc, count, LS_SHAPE_DIMS))
        return;
    shape.dims = (uint8_t)count;
    put_ints(&shape, count, windows);
    put_ints(&shape, count, pads);
    put_ints(&shape, count, strides);
    shape.value[shape.values++] = mode;
    keep(desc, &shape);
}

void ls_cudnn_set_rnn(int status, const void *desc, int cell, int direction, int input, int hidden,
                      int projection, int layers) {
    struct ls_shape shape = {.kind = LS_SHAPE_RNN};
    if (!has_set(status, desc, 0, 0))
        return;
    put_ints(&shape, 6, (const int[]){cell, direction, input, hidden, projection, layers});
    keep(desc, &shape);
}

void ls_cudnn_set_projection(int status, const void *desc, int projection) {
    enum { HIDDEN = 3, PROJECTION, ALL = 6 };
    struct ls_shape shape = {.kind = LS_SHAPE_RNN, .values = ALL};
    const struct ls_shape *before = known(desc);
    if (status != 0 || !before || before->kind != LS_SHAPE_RNN || before->values != ALL)
        return; /* refused, it changes nothing */
    memcpy(shape.value, before->value, ALL * sizeof *shape.value);
    shape.value[PROJECTION] = projection ? projection : shape.value[HIDDEN];
    keep(desc, &shape);
}

/* ---- sequences ---- */

enum { PACKED = 1, BATCH_FIRST = 2 }; /* cudnnRNNDataLayout_t; else the step comes first */

void ls_cudnn_set_sequence(int status, const void *desc, int type, int layout, int length,
                           int batch, int vector, const int *lengths) {
    int steps = 0;
    if (!has_set(status, desc, 0, 0))
        return;
    for (int i = 0; layout == PACKED && i < batch; i++)
        steps += lengths[i];
    if (layout == PACKED) /* without padding, all sequences' steps in a row */
        ls_cudnn_set_packed(0, desc, FORMAT_NCHW, type, 3, (const int[]){1, steps, vector});
    else if (layout == BATCH_FIRST)
        ls_cudnn_set_packed(0, desc, FORMAT_NCHW, type, 3, (const int[]){batch, length, vector});
    else
        ls_cudnn_set_packed(0, desc, FORMAT_NCHW, type, 3, (const int[]){length, batch, vector});
}

/* Of attention: dims by what they are (time, batch, beam, vector), axes from the outermost on. */
void ls_cudnn_set_axes(int status, const void *desc, int type, int count, const int *dims,
                       const int *axes) {
    int strides[LS_SHAPE_DIMS] = {0}, next = 1;
    if (!has_set(status, desc, count, LS_SHAPE_DIMS))
        return;
    for (int i = count - 1; i >= 0; i--) {
        if (axes[i] < 0 || axes[i] >= count) {
            keep(desc, NULL);
            return;
        }
        strides[axes[i]] = next;
        next = (int)((int64_t)next * dims[axes[i]]);
    }
    ls_cudnn_set_strided(0, desc, type, count, dims, strides);
}

/* ---- operands ---- */

static uint32_t shape_of(const void *desc) {
    uint64_t word = ls_descriptor(desc);
    return LS_DESCRIBED_KIND(word) == LS_DESCRIBED_SHAPE ? (uint32_t)word : 0;
}

void ls_dnn_operand(struct ls_thread *self, enum ls_role_id role, const void *desc,
                    const void *address) {
    ls_operand_add(self, role, 0, desc ? shape_of(desc) : 0, (uintptr_t)address);
}

/* A factor in host memory, which the call has read: of double for double tensors, else of float. */
static bool is_zero(const void *factor, uint8_t dtype) {
    double wide = 0;
    float narrow = 0;
    if (dtype == LS_DTYPE_FLOAT64)
        memcpy(&wide, factor, sizeof wide);
    else
        memcpy(&narrow, factor, sizeof narrow);
    return wide == 0 && narrow == 0;
}

void ls_dnn_blended(struct ls_thread *self, enum ls_role_id out, enum ls_role_id inout,
                    const void *desc, const void *address, int status, const void *beta) {
    uint32_t number = desc ? shape_of(desc) : 0;
    const struct ls_shape *shape = ls_shape_at(number);
    bool blends = status == 0 && beta && shape && !is_zero(beta, shape->dtype);
    ls_operand_add(self, blends ? inout : out, 0, number, (uintptr_t)address);
}

/* Sequences in a step, if it is a packed tensor of these and of their elements; else -1. */
static int64_t batch_of(const struct ls_shape *step) {
    int64_t next = 1;
    if (!step || step->kind != LS_SHAPE_TENSOR || step->dims < 2 || step->vector_count)
        return -1;
    for (int i = step->dims - 1; i >= 0; next *= step->value[i--])
        if (step->value[i] != 1 && step->value[step->dims + i] != next)
            return -1;
    return step->value[0];
}

/* The whole as ls_cudnn_set_sequence() has it: all steps alike, or without padding in a row. 0: not
 * known. */
static uint32_t shape_of_steps(int count, const void *const *descs) {
    enum { MOST = 1 << 14 };
    const struct ls_shape *first = known(descs[0]);
    int64_t batch = batch_of(first), all = batch;
    if (batch < 0 || count > MOST)
        return 0;
    bool alike = batch_of(known(descs[count - 1])) == batch; /* a later one never has more */
    for (int i = 1; !alike && i < count; i++) {
        int64_t here = batch_of(known(descs[i]));
        if (here < 0)
            return 0;
        all += here;
    }
    int vector = (int)first->value[1], steps = alike ? count : 1, rows = (int)all;
    struct ls_shape shape;
    for (int i = 2; i < first->dims; i++)
        vector *= (int)first->value[i];
    begin_tensor(&shape, first->dtype_told, 3, (const int[]){steps, rows, vector});
    shape.value[3] = (int64_t)rows * vector;
    shape.value[4] = vector;
    shape.value[5] = 1;
    return ls_shape_number(&shape);
}

void ls_dnn_steps(struct ls_thread *self, enum ls_role_id role, int status, int count,
                  const void *const *descs, const void *address) {
    uint32_t shape = status == 0 && descs && count > 0 ? shape_of_steps(count, descs) : 0;
    ls_operand_add(self, role, 0, shape, (uintptr_t)address);
}
