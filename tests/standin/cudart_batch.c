/*
 * cudart_batch.c - many copies in one call, as the runtime's functions. See cudart.h and copy.h.
 *
 * CUDA 12.8 gave these functions a `failIdx`, CUDA 13 took it away. Nothing is copied when a check
 * on the whole batch fails; else the copies before a refused one are. The log has the first copy's
 * sides with what they turned out to be, `count`, and the sum of the bytes; `mixed` is 1 where not
 * all of the batch's copies have the first one's kinds and direction.
 */
#include "cudart.h"

#include <string.h>

#include "cudart_copy.h"

/* What the batch turned out to be, over its copies. */
struct batch {
    struct copied first;
    bool mixed;
    size_t failed; /* the refused copy, SIZE_MAX: none of them */
};

static int run_one(const struct standin_call *call, struct copy *copy, cudaStream_t stream,
                   size_t index, struct batch *batch) {
    struct copied copied = {0};
    copy->kind = COPY_DEFAULT;
    copy->stream = stream;
    copy->async = true;
    copy->per_thread = call->per_thread;
    int status = sd_copy(copy, &copied);
    if (status)
        batch->failed = index;
    if (!batch->first.known)
        batch->first = copied;
    else if (copied.known && (copied.src_kind != batch->first.src_kind ||
                              copied.dst_kind != batch->first.dst_kind ||
                              strcmp(copied.direction, batch->first.direction) != 0))
        batch->mixed = true;
    return status;
}

/* The legacy stream is refused under each of its names. */
static bool legacy(const struct standin_call *call, cudaStream_t stream) {
    return (!stream && !call->per_thread) || (uintptr_t)stream == 1;
}

static void put_batch(struct standin_call *call, size_t count, cudaStream_t stream,
                      const struct batch *batch) {
    PUT("count", count);
    PUT("stream", (uintptr_t)stream);
    PUT("mixed", batch->mixed);
    sd_put_copied(call, &batch->first);
}

/* ---- linear --------------------------------------------------------------------------------- */

static bool good_attributes(const struct cudaMemcpyAttributes *attributes, const size_t *first,
                            size_t number, size_t count) {
    if (!attributes || !first || !number || number > count || first[0] != 0)
        return false;
    for (size_t i = 0; i < number; i++)
        if ((int)attributes[i].srcAccessOrder < 1 || (int)attributes[i].srcAccessOrder > 3 ||
            first[i] >= count || (i && first[i] <= first[i - 1]))
            return false;
    return true;
}

struct lines {
    void *const *dst;
    const void *const *src;
    const size_t *size;
    size_t count;
};

static int run_lines(const struct standin_call *call, const struct lines *b, cudaStream_t stream,
                     struct batch *batch) {
    int status = SD_OK;
    for (size_t i = 0; i < b->count && !status; i++) {
        struct copy copy = {
            .dst = {.address = b->dst[i], .pitch = b->size[i], .rows = 1, .device = -1},
            .src = {.address = b->src[i], .pitch = b->size[i], .rows = 1, .device = -1},
            .width = b->size[i],
            .height = 1,
            .depth = 1};
        status = run_one(call, &copy, stream, i, batch);
    }
    return status;
}

static int copy_lines(struct standin_call *call, const struct lines *b,
                      const struct cudaMemcpyAttributes *attributes, const size_t *first,
                      size_t number, size_t *failed, cudaStream_t stream) {
    struct batch batch = {.failed = SIZE_MAX};
    bool given = b->dst && b->src && b->size && b->count;
    int status = SD_INVALID_VALUE;
    if (given && good_attributes(attributes, first, number, b->count) && !legacy(call, stream))
        status = ATTEMPT(run_lines(call, b, stream, &batch));
    else if (call->fault)
        status = call->fault;
    uint64_t bytes = 0;
    given = status == SD_OK; /* of a refused call nothing is read */
    for (size_t i = 0; given && i < b->count; i++)
        bytes += b->size[i];
    PUT("dst", given ? (uintptr_t)b->dst[0] : 0);
    PUT("src", given ? (uintptr_t)b->src[0] : 0);
    PUT("bytes", bytes);
    put_batch(call, b->count, stream, &batch);
    if (failed)
        *failed = batch.failed;
    return status;
}

#if CUDA_MAJOR >= 13
CUDART_TWIN(cudaMemcpyBatchAsync, _ptsz,
            (void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
             struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
             cudaStream_t stream),
            (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, stream)) {
    return copy_lines(call, &(struct lines){dsts, srcs, sizes, count}, attrs, attrsIdxs, numAttrs,
                      NULL, stream);
}
#else
CUDART_TWIN(cudaMemcpyBatchAsync, _ptsz,
            (void **dsts, void **srcs, size_t *sizes, size_t count,
             struct cudaMemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs,
             size_t *failIdx, cudaStream_t stream),
            (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, failIdx, stream)) {
    return copy_lines(call, &(struct lines){dsts, (const void *const *)srcs, sizes, count}, attrs,
                      attrsIdxs, numAttrs, failIdx, stream);
}
#endif

/* ---- 3D ------------------------------------------------------------------------------------- */

/* Lengths of 0 are those of the copy. They count elements, whose size the other side's array has;
 * `element` is that. */
static struct side operand(const struct cudaMemcpy3DOperand *o, struct cudaExtent extent,
                           uint64_t element) {
    if (o->type == cudaMemcpyOperandTypeArray)
        return (struct side){.array = o->op.array.array,
                             .x = o->op.array.offset.x,
                             .y = o->op.array.offset.y,
                             .z = o->op.array.offset.z,
                             .device = -1};
    size_t row = o->op.ptr.rowLength ? o->op.ptr.rowLength : extent.width;
    return (struct side){.address = o->op.ptr.ptr,
                         .pitch = row * element,
                         .rows = o->op.ptr.layerHeight ? o->op.ptr.layerHeight : extent.height,
                         .device = -1};
}

static bool good_operand(const struct cudaMemcpy3DOperand *o, struct cudaExtent extent) {
    if (o->type == cudaMemcpyOperandTypeArray)
        return o->op.array.array != NULL;
    return o->type == cudaMemcpyOperandTypePointer && o->op.ptr.ptr &&
           (!o->op.ptr.rowLength || o->op.ptr.rowLength >= extent.width) &&
           (!o->op.ptr.layerHeight || o->op.ptr.layerHeight >= extent.height);
}

static bool good_ops(const struct cudaMemcpy3DBatchOp *op, size_t count) {
    if (!op || !count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!op[i].extent.width || !op[i].extent.height || !op[i].extent.depth ||
            (int)op[i].srcAccessOrder < 1 || (int)op[i].srcAccessOrder > 3 ||
            !good_operand(&op[i].src, op[i].extent) || !good_operand(&op[i].dst, op[i].extent))
            return false;
    return true;
}

static int run_ops(const struct standin_call *call, const struct cudaMemcpy3DBatchOp *op,
                   size_t count, cudaStream_t stream, struct batch *batch) {
    int status = SD_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const void *array = op[i].dst.type == cudaMemcpyOperandTypeArray ? op[i].dst.op.array.array
                            : op[i].src.type == cudaMemcpyOperandTypeArray
                                ? op[i].src.op.array.array
                                : NULL;
        uint64_t element = array ? sd_copy_element(array) : 1;
        struct copy copy = {.dst = operand(&op[i].dst, op[i].extent, element),
                            .src = operand(&op[i].src, op[i].extent, element),
                            .width = op[i].extent.width,
                            .height = op[i].extent.height,
                            .depth = op[i].extent.depth,
                            .elements = true};
        status = run_one(call, &copy, stream, i, batch);
    }
    return status;
}

static int copy_ops(struct standin_call *call, const struct cudaMemcpy3DBatchOp *op, size_t count,
                    unsigned long long flags, size_t *failed, cudaStream_t stream) {
    struct batch batch = {.failed = SIZE_MAX};
    int status = SD_INVALID_VALUE;
    if (!flags && good_ops(op, count) && !legacy(call, stream))
        status = ATTEMPT(run_ops(call, op, count, stream, &batch));
    else if (call->fault)
        status = call->fault;
    static const struct cudaMemcpy3DBatchOp nothing;
    bool given = status == SD_OK; /* of a refused call nothing is read */
    const struct cudaMemcpy3DBatchOp *first = given ? op : &nothing;
    bool to = first->dst.type == cudaMemcpyOperandTypeArray;
    bool from = first->src.type == cudaMemcpyOperandTypeArray;
    uint64_t elements = 0;
    for (size_t i = 0; given && i < count; i++)
        elements += op[i].extent.width * op[i].extent.height * op[i].extent.depth;
    PUT("dst", to ? 0 : (uintptr_t)first->dst.op.ptr.ptr);
    PUT("src", from ? 0 : (uintptr_t)first->src.op.ptr.ptr);
    PUT("dst_array", to ? (uintptr_t)first->dst.op.array.array : 0);
    PUT("src_array", from ? (uintptr_t)first->src.op.array.array : 0);
    PUT("width", elements);
    PUT("height", 1);
    PUT("depth", 1);
    put_batch(call, count, stream, &batch);
    if (failed)
        *failed = batch.failed;
    return status;
}

#if CUDA_MAJOR >= 13
CUDART_TWIN(cudaMemcpy3DBatchAsync, _ptsz,
            (size_t numOps, struct cudaMemcpy3DBatchOp *opList, unsigned long long flags,
             cudaStream_t stream),
            (numOps, opList, flags, stream)) {
    return copy_ops(call, opList, numOps, flags, NULL, stream);
}
#else
CUDART_TWIN(cudaMemcpy3DBatchAsync, _ptsz,
            (size_t numOps, struct cudaMemcpy3DBatchOp *opList, size_t *failIdx,
             unsigned long long flags, cudaStream_t stream),
            (numOps, opList, failIdx, flags, stream)) {
    return copy_ops(call, opList, numOps, flags, failIdx, stream);
}
#endif
