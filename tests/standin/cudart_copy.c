/*
 * cudart_copy.c - linear, pitched, 3D and peer copies, and memsets, as the runtime's functions.
 * See cudart.h and copy.h. Copies of arrays and symbols: cudart_array.c.
 */
#include "cudart.h"

#include "cudart_copy.h"

void sd_put_copied(struct standin_call *call, const struct copied *copied) {
    if (copied->known) {
        standin_put_text(call, "src_kind", sd_side_word(copied->src_kind));
        standin_put_text(call, "dst_kind", sd_side_word(copied->dst_kind));
        standin_put_text(call, "direction", copied->direction);
    }
    PUT_DEVICE();
}

static struct copy line(void *dst, const void *src, size_t count, int kind) {
    return (struct copy){.dst = {.address = dst, .pitch = count, .rows = 1, .device = -1},
                         .src = {.address = src, .pitch = count, .rows = 1, .device = -1},
                         .width = count,
                         .height = 1,
                         .depth = 1,
                         .kind = kind};
}

static int run(struct standin_call *call, struct copy copy, struct copied *copied) {
    copy.per_thread = call->per_thread;
    *copied = (struct copied){0};
    return ATTEMPT(sd_copy(&copy, copied));
}

static void put_line(struct standin_call *call, const void *dst, const void *src, size_t count) {
    PUT("dst", (uintptr_t)dst);
    PUT("src", (uintptr_t)src);
    PUT("bytes", count);
}

CUDART_TWIN(cudaMemcpy, _ptds, (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
            (dst, src, count, kind)) {
    struct copied copied;
    int status = run(call, line(dst, src, count, (int)kind), &copied);
    put_line(call, dst, src, count);
    PUT("kind", kind);
    sd_put_copied(call, &copied);
    return status;
}

CUDART_TWIN(cudaMemcpyAsync, _ptsz,
            (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
             cudaStream_t stream),
            (dst, src, count, kind, stream)) {
    struct copied copied;
    struct copy copy = line(dst, src, count, (int)kind);
    copy.async = true;
    copy.stream = stream;
    int status = run(call, copy, &copied);
    put_line(call, dst, src, count);
    PUT("kind", kind);
    PUT("stream", (uintptr_t)stream);
    sd_put_copied(call, &copied);
    return status;
}

static struct copy peer(void *dst, int dst_device, const void *src, int src_device, size_t count) {
    struct copy copy = line(dst, src, count, COPY_DEFAULT);
    copy.dst.device = dst_device < 0 ? STANDIN_DEVICES_MAX : dst_device;
    copy.src.device = src_device < 0 ? STANDIN_DEVICES_MAX : src_device;
    return copy;
}

CUDART(cudaMemcpyPeer, (void *dst, int dstDevice, const void *src, int srcDevice, size_t count),
       (dst, dstDevice, src, srcDevice, count)) {
    struct copied copied;
    int status = run(call, peer(dst, dstDevice, src, srcDevice, count), &copied);
    put_line(call, dst, src, count);
    PUT_INT("dst_device", dstDevice);
    PUT_INT("src_device", srcDevice);
    sd_put_copied(call, &copied);
    return status;
}

CUDART(cudaMemcpyPeerAsync,
       (void *dst, int dstDevice, const void *src, int srcDevice, size_t count,
        cudaStream_t stream),
       (dst, dstDevice, src, srcDevice, count, stream)) {
    struct copied copied;
    struct copy copy = peer(dst, dstDevice, src, srcDevice, count);
    copy.async = true;
    copy.stream = stream;
    int status = run(call, copy, &copied);
    put_line(call, dst, src, count);
    PUT_INT("dst_device", dstDevice);
    PUT_INT("src_device", srcDevice);
    PUT("stream", (uintptr_t)stream);
    sd_put_copied(call, &copied);
    return status;
}

/* ---- pitched -------------------------------------------------------------------------------- */

static struct copy pitched(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                           size_t height, int kind) {
    return (struct copy){.dst = {.address = dst, .pitch = dpitch, .rows = height, .device = -1},
                         .src = {.address = src, .pitch = spitch, .rows = height, .device = -1},
                         .width = width,
                         .height = height,
                         .depth = 1,
                         .kind = kind};
}

static void put_pitched(struct standin_call *call, const struct copy *copy) {
    PUT("dst", (uintptr_t)copy->dst.address);
    PUT("src", (uintptr_t)copy->src.address);
    PUT("bytes", copy->width * copy->height);
    PUT("kind", copy->kind);
    PUT("dpitch", copy->dst.pitch);
    PUT("spitch", copy->src.pitch);
    PUT("width", copy->width);
    PUT("height", copy->height);
}

CUDART_TWIN(cudaMemcpy2D, _ptds,
            (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
             enum cudaMemcpyKind kind),
            (dst, dpitch, src, spitch, width, height, kind)) {
    struct copied copied;
    struct copy copy = pitched(dst, dpitch, src, spitch, width, height, (int)kind);
    int status = run(call, copy, &copied);
    put_pitched(call, &copy);
    sd_put_copied(call, &copied);
    return status;
}

CUDART_TWIN(cudaMemcpy2DAsync, _ptsz,
            (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
             enum cudaMemcpyKind kind, cudaStream_t stream),
            (dst, dpitch, src, spitch, width, height, kind, stream)) {
    struct copied copied;
    struct copy copy = pitched(dst, dpitch, src, spitch, width, height, (int)kind);
    copy.async = true;
    copy.stream = stream;
    int status = run(call, copy, &copied);
    put_pitched(call, &copy);
    PUT("stream", (uintptr_t)stream);
    sd_put_copied(call, &copied);
    return status;
}

/* ---- 3D ------------------------------------------------------------------------------------- */

static struct side side_3d(struct cudaPitchedPtr p, cudaArray_t array, struct cudaPos pos,
                           int device) {
    return (struct side){.address = array ? NULL : p.ptr,
                         .pitch = p.pitch,
                         .rows = p.ysize,
                         .array = array,
                         .x = pos.x,
                         .y = pos.y,
                         .z = pos.z,
                         .device = device};
}

/* Exactly one of the pointer and the array of each side is given. */
static int check_3d(cudaArray_t array, struct cudaPitchedPtr p) {
    return (array != NULL) == (p.ptr != NULL) ? SD_INVALID_VALUE : SD_OK;
}

static void put_3d(struct standin_call *call, const struct cudaMemcpy3DParms *p,
                   const struct copied *copied) {
    PUT("dst", (uintptr_t)p->dstPtr.ptr);
    PUT("src", (uintptr_t)p->srcPtr.ptr);
    PUT("dst_array", (uintptr_t)p->dstArray);
    PUT("src_array", (uintptr_t)p->srcArray);
    PUT("width", p->extent.width);
    PUT("height", p->extent.height);
    PUT("depth", p->extent.depth);
    PUT("dpitch", p->dstPtr.pitch);
    PUT("spitch", p->srcPtr.pitch);
    if (copied->known)
        PUT("bytes", copied->bytes);
}

static struct copy make_3d(const struct cudaMemcpy3DParms *p) {
    return (struct copy){.dst = side_3d(p->dstPtr, p->dstArray, p->dstPos, -1),
                         .src = side_3d(p->srcPtr, p->srcArray, p->srcPos, -1),
                         .width = p->extent.width,
                         .height = p->extent.height,
                         .depth = p->extent.depth,
                         .elements = true,
                         .kind = (int)p->kind};
}

int sd_copy_3d_work(const struct cudaMemcpy3DParms *p, struct work *work) {
    int status = check_3d(p->dstArray, p->dstPtr);
    if (!status)
        status = check_3d(p->srcArray, p->srcPtr);
    struct copy copy = make_3d(p);
    return status ? status : sd_copy_work(&copy, work);
}

static int copy_3d(struct standin_call *call, const struct cudaMemcpy3DParms *p, bool async,
                   cudaStream_t stream) {
    static const struct cudaMemcpy3DParms nothing;
    struct copied copied = {0};
    int status = p ? SD_OK : SD_INVALID_VALUE;
    if (!status)
        status = check_3d(p->dstArray, p->dstPtr);
    if (!status)
        status = check_3d(p->srcArray, p->srcPtr);
    p = p ? p : &nothing;
    struct copy copy = make_3d(p);
    copy.async = async;
    copy.stream = stream;
    if (!status || call->fault)
        status = run(call, copy, &copied);
    put_3d(call, p, &copied);
    PUT("kind", p->kind);
    if (async)
        PUT("stream", (uintptr_t)stream);
    sd_put_copied(call, &copied);
    return status;
}

CUDART_TWIN(cudaMemcpy3D, _ptds, (const struct cudaMemcpy3DParms *p), (p)) {
    return copy_3d(call, p, false, NULL);
}

CUDART_TWIN(cudaMemcpy3DAsync, _ptsz, (const struct cudaMemcpy3DParms *p, cudaStream_t stream),
            (p, stream)) {
    return copy_3d(call, p, true, stream);
}

static int copy_3d_peer(struct standin_call *call, const struct cudaMemcpy3DPeerParms *p,
                        bool async, cudaStream_t stream) {
    static const struct cudaMemcpy3DPeerParms nothing;
    struct copied copied = {0};
    int status = p ? SD_OK : SD_INVALID_VALUE;
    if (!status)
        status = check_3d(p->dstArray, p->dstPtr);
    if (!status)
        status = check_3d(p->srcArray, p->srcPtr);
    p = p ? p : &nothing;
    struct cudaMemcpy3DParms same = {p->srcArray, p->srcPos, p->srcPtr, p->dstArray,
                                     p->dstPos,   p->dstPtr, p->extent, cudaMemcpyDefault};
    struct copy copy = make_3d(&same);
    copy.dst.device = p->dstDevice < 0 ? STANDIN_DEVICES_MAX : p->dstDevice;
    copy.src.device = p->srcDevice < 0 ? STANDIN_DEVICES_MAX : p->srcDevice;
    copy.async = async;
    copy.stream = stream;
    if (!status || call->fault)
        status = run(call, copy, &copied);
    put_3d(call, &same, &copied);
    PUT_INT("dst_device", p->dstDevice);
    PUT_INT("src_device", p->srcDevice);
    if (async)
        PUT("stream", (uintptr_t)stream);
    sd_put_copied(call, &copied);
    return status;
}

CUDART_TWIN(cudaMemcpy3DPeer, _ptds, (const struct cudaMemcpy3DPeerParms *p), (p)) {
    return copy_3d_peer(call, p, false, NULL);
}

CUDART_TWIN(cudaMemcpy3DPeerAsync, _ptsz,
            (const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream), (p, stream)) {
    return copy_3d_peer(call, p, true, stream);
}

/* ---- memsets -------------------------------------------------------------------------------- */

static int run_set(struct standin_call *call, struct set set) {
    enum standin_kind kind = STANDIN_PAGEABLE;
    set.element = 1;
    set.value &= 0xff;
    set.per_thread = call->per_thread;
    int status = ATTEMPT(sd_set(&set, &kind));
    if (!status && kind != STANDIN_PAGEABLE)
        standin_put_text(call, "dst_kind", sd_side_word(kind));
    PUT_DEVICE();
    return status;
}

static int set_line(struct standin_call *call, void *p, int value, size_t count, bool async,
                    cudaStream_t stream) {
    PUT("ptr", (uintptr_t)p);
    PUT("bytes", count);
    PUT_INT("value", value);
    if (async)
        PUT("stream", (uintptr_t)stream);
    return run_set(call, (struct set){.address = p,
                                      .pitch = count,
                                      .rows = 1,
                                      .width = count,
                                      .height = 1,
                                      .depth = 1,
                                      .value = (uint32_t)value,
                                      .stream = stream,
                                      .async = async});
}

CUDART_TWIN(cudaMemset, _ptds, (void *devPtr, int value, size_t count), (devPtr, value, count)) {
    return set_line(call, devPtr, value, count, false, NULL);
}

CUDART_TWIN(cudaMemsetAsync, _ptsz, (void *devPtr, int value, size_t count, cudaStream_t stream),
            (devPtr, value, count, stream)) {
    return set_line(call, devPtr, value, count, true, stream);
}

static int set_pitched(struct standin_call *call, struct cudaPitchedPtr p, int value,
                       struct cudaExtent extent, bool async, cudaStream_t stream) {
    PUT("ptr", (uintptr_t)p.ptr);
    PUT("bytes", extent.width * extent.height * extent.depth);
    PUT_INT("value", value);
    if (async)
        PUT("stream", (uintptr_t)stream);
    PUT("pitch", p.pitch);
    PUT("width", extent.width);
    PUT("height", extent.height);
    return run_set(call, (struct set){.address = p.ptr,
                                      .pitch = p.pitch,
                                      .rows = p.ysize,
                                      .width = extent.width,
                                      .height = extent.height,
                                      .depth = extent.depth,
                                      .value = (uint32_t)value,
                                      .stream = stream,
                                      .async = async});
}

CUDART_TWIN(cudaMemset2D, _ptds,
            (void *devPtr, size_t pitch, int value, size_t width, size_t height),
            (devPtr, pitch, value, width, height)) {
    return set_pitched(call, (struct cudaPitchedPtr){devPtr, pitch, width, height}, value,
                       (struct cudaExtent){width, height, 1}, false, NULL);
}

CUDART_TWIN(cudaMemset2DAsync, _ptsz,
            (void *devPtr, size_t pitch, int value, size_t width, size_t height,
             cudaStream_t stream),
            (devPtr, pitch, value, width, height, stream)) {
    return set_pitched(call, (struct cudaPitchedPtr){devPtr, pitch, width, height}, value,
                       (struct cudaExtent){width, height, 1}, true, stream);
}

CUDART_TWIN(cudaMemset3D, _ptds,
            (struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent),
            (pitchedDevPtr, value, extent)) {
    PUT("depth", extent.depth);
    return set_pitched(call, pitchedDevPtr, value, extent, false, NULL);
}

CUDART_TWIN(cudaMemset3DAsync, _ptsz,
            (struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent,
             cudaStream_t stream),
            (pitchedDevPtr, value, extent, stream)) {
    PUT("depth", extent.depth);
    return set_pitched(call, pitchedDevPtr, value, extent, true, stream);
}
