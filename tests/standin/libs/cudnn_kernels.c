/*
 * cudnn_kernels.c - which kernels a convolution runs: the one that computes, in the layout that it
 * was written for, and one conversion for each tensor that lies otherwise. Any thread; not safe in
 * a signal handler.
 *
 * As the real library does for the most part: types of 16 and 8 bits go to Tensor Cores, whose
 * kernels work channels last; float and double go to kernels that work channels first. A
 * convolution with groups, or with a tensor of 2^31 elements or more, is done by a kernel that
 * takes any layout.
 */
#include <stdio.h>

#include "cudnn_standin.h"

#define TO_LAST "_ZN5cudnn3ops16nchwToNhwcKernelI6__halfS2_fLb0ELb1EL21cudnnKernelDataType_t0EEEvv"
#define TO_FIRST "_ZN5cudnn3ops16nhwcToNchwKernelI6__halfS2_fLb1ELb0EL21cudnnKernelDataType_t0EEEvv"
#define ANY_LAYOUT "_ZN5cudnn3cnn28conv2d_grouped_direct_kernelI6__halfS2_ffLb0EEEvv"

enum layout { EITHER, FIRST, LAST };

static enum layout layout_of(const struct dn_shape *shape) {
    int64_t inner = 1;
    for (int i = 2; i < shape->count; i++)
        inner *= shape->dims[i];
    if (shape->count < 4 || inner == 1 || shape->dims[1] == 1)
        return EITHER;
    return shape->strides[1] == 1 ? LAST : FIRST;
}

static bool narrow(int type) {
    return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16 || type == CUDNN_DATA_INT8;
}

static bool takes_any(const struct dn_use *use, size_t count, int64_t groups) {
    bool large = false;
    for (size_t i = 0; i < count; i++) {
        int64_t elements = 1;
        for (int k = 0; k < use[i].shape->count; k++)
            elements *= use[i].shape->dims[k];
        large |= elements >= INT64_C(1) << 31;
    }
    return groups > 1 || large;
}

/* One for each tensor of the wrong layout that is read (before), or written (after). */
static int convert(cudaStream_t stream, const struct dn_use *use, size_t count, enum layout wanted,
                   bool written) {
    int failed = 0;
    for (size_t i = 0; i < count; i++) {
        enum layout layout = layout_of(use[i].shape);
        if (use[i].written != written || layout == EITHER || layout == wanted)
            continue;
        bool to_last = (wanted == LAST) != written;
        standin_work(2 * (double)dn_span(use[i].shape), 0);
        failed |=
            standin_launch((standin_stream)stream, to_last ? TO_LAST : TO_FIRST, NULL, NULL, 0);
    }
    return failed;
}

static double elements(const struct dn_shape *shape) {
    double product = 1;
    for (int i = 0; i < shape->count; i++)
        product *= (double)shape->dims[i];
    return product;
}

/* What the computing kernel moves, and what it does: for each element of the output, a product and
 * a sum with each of a filter. The filter is the smallest; of input and output the one with as many
 * channels as there are filters is the output. */
static void tell_work(const struct dn_use *use, size_t count) {
    const struct dn_shape *filter = NULL;
    double bytes = 0, output = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += (double)dn_span(use[i].shape);
        if (!filter || elements(use[i].shape) < elements(filter))
            filter = use[i].shape;
    }
    for (size_t i = 0; filter && filter->dims[0] > 0 && i < count; i++)
        if (use[i].shape != filter && use[i].shape->dims[1] == filter->dims[0])
            output = elements(use[i].shape);
    standin_work(bytes, filter ? 2 * output * elements(filter) / (double)filter->dims[0] : 0);
}

int dn_finish_convolution(struct standin_call *call, cudnnHandle_t handle, int status,
                          const struct dn_use *use, size_t count, int64_t groups) {
    char kernel[128];
    if (status)
        return standin_leave(call, status);
    bool any = takes_any(use, count, groups);
    enum layout wanted = count && narrow(use[0].shape->type) ? LAST : FIRST;
    cudaStream_t stream = handle->stream;
    snprintf(kernel, sizeof kernel, "%s_kernel", call->name);
    int failed = any ? 0 : convert(stream, use, count, wanted, false);
    tell_work(use, count);
    failed |= standin_launch((standin_stream)stream, any ? ANY_LAYOUT : kernel, NULL, NULL, 0);
    failed |= any ? 0 : convert(stream, use, count, wanted, true);
    return standin_leave(call, failed ? CUDNN_STATUS_EXECUTION_FAILED : 0);
}
