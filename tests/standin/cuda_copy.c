/*
 * cuda_copy.c - the driver's copies and memsets. See driver.h and copy.h.
 *
 * Rows of the log carry the runtime's words for the fields.
 */
#include "driver.h"

#include "copy.h"

static int run(struct standin_call *call, struct copy *copy, struct copied *copied) {
    copy->per_thread = call->per_thread;
    int status = sd_driver_context();
    return status ? status : sd_copy(copy, copied);
}

static void put_copied(struct standin_call *call, const struct copied *copied) {
    if (copied->known) {
        standin_put_text(call, "src_kind", sd_side_word(copied->src_kind));
        standin_put_text(call, "dst_kind", sd_side_word(copied->dst_kind));
        standin_put_text(call, "direction", copied->direction);
    }
    PUT_DEVICE();
}

static struct copy line(const void *dst, const void *src, size_t bytes, int kind) {
    return (struct copy){.dst = {.address = dst, .pitch = bytes, .rows = 1, .device = -1},
                         .src = {.address = src, .pitch = bytes, .rows = 1, .device = -1},
                         .width = bytes,
                         .height = 1,
                         .depth = 1,
                         .kind = kind};
}

static int copy_line(struct standin_call *call, struct copy copy, bool async, CUstream stream) {
    struct copied copied = {0};
    copy.async = async;
    copy.stream = stream;
    int status = ATTEMPT(run(call, &copy, &copied));
    PUT("dst", (uintptr_t)copy.dst.address);
    PUT("src", (uintptr_t)copy.src.address);
    PUT("bytes", copy.width);
    PUT("kind", copy.kind);
    if (async)
        PUT("stream", (uintptr_t)stream);
    put_copied(call, &copied);
    return status;
}

#define TO_DEVICE CUdeviceptr dst, const void *src
#define TO_HOST void *dst, CUdeviceptr src
#define ON_DEVICE CUdeviceptr dst, CUdeviceptr src
#define COPY(name, from_to, dst_cast, src_cast, kind)                                              \
    DRIVER_LOGGED_TWIN(name, _ptds, (from_to, size_t ByteCount), (dst, src, ByteCount)) {          \
        return copy_line(call, line(dst_cast(dst), src_cast(src), ByteCount, kind), false, NULL);  \
    }
#define COPY_ASYNC(name, from_to, dst_cast, src_cast, kind)                                        \
    DRIVER_LOGGED_TWIN(name, _ptsz, (from_to, size_t ByteCount, CUstream hStream),                 \
                       (dst, src, ByteCount, hStream)) {                                           \
        return copy_line(call, line(dst_cast(dst), src_cast(src), ByteCount, kind), true,          \
                         hStream);                                                                 \
    }
COPY(cuMemcpy, ON_DEVICE, AT, AT, COPY_DEFAULT)
COPY(cuMemcpyHtoD_v2, TO_DEVICE, AT, , COPY_H2D)
COPY(cuMemcpyDtoH_v2, TO_HOST, , AT, COPY_D2H)
COPY(cuMemcpyDtoD_v2, ON_DEVICE, AT, AT, COPY_D2D)
COPY_ASYNC(cuMemcpyAsync, ON_DEVICE, AT, AT, COPY_DEFAULT)
COPY_ASYNC(cuMemcpyHtoDAsync_v2, TO_DEVICE, AT, , COPY_H2D)
COPY_ASYNC(cuMemcpyDtoHAsync_v2, TO_HOST, , AT, COPY_D2H)
COPY_ASYNC(cuMemcpyDtoDAsync_v2, ON_DEVICE, AT, AT, COPY_D2D)

/* ---- between devices ------------------------------------------------------------------------ */

static int copy_peer(struct standin_call *call, CUdeviceptr dst, CUcontext dst_context,
                     CUdeviceptr src, CUcontext src_context, size_t bytes, bool async,
                     CUstream stream) {
    struct copy copy = line(AT(dst), AT(src), bytes, COPY_D2D);
    copy.dst.device = sd_driver_ordinal(dst_context);
    copy.src.device = sd_driver_ordinal(src_context);
    standin_put_signed(call, "dst_device", copy.dst.device);
    standin_put_signed(call, "src_device", copy.src.device);
    if (!call->fault && (copy.dst.device < 0 || copy.src.device < 0))
        call->fault = SD_NO_CONTEXT;
    return copy_line(call, copy, async, stream);
}

DRIVER_LOGGED_TWIN(cuMemcpyPeer, _ptds,
                   (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                    CUcontext srcContext, size_t ByteCount),
                   (dstDevice, dstContext, srcDevice, srcContext, ByteCount)) {
    return copy_peer(call, dstDevice, dstContext, srcDevice, srcContext, ByteCount, false, NULL);
}

DRIVER_LOGGED_TWIN(cuMemcpyPeerAsync, _ptsz,
                   (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                    CUcontext srcContext, size_t ByteCount, CUstream hStream),
                   (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream)) {
    return copy_peer(call, dstDevice, dstContext, srcDevice, srcContext, ByteCount, true, hStream);
}

/* ---- 2D and 3D ------------------------------------------------------------------------------ */

static bool is_host(CUmemorytype type) {
    return (int)type == 1;
}

/* By the types of memory; those that leave it open are looked at, as for the default kind. */
static int kind_of(CUmemorytype dst, CUmemorytype src) {
    if ((int)dst == 4 || (int)src == 4)
        return COPY_DEFAULT;
    return is_host(src) ? (is_host(dst) ? COPY_H2H : COPY_H2D)
                        : (is_host(dst) ? COPY_D2H : COPY_D2D);
}

static struct side side(CUmemorytype type, const void *host, CUdeviceptr device, CUarray array,
                        size_t pitch, size_t rows) {
    return (struct side){.address = (int)type == 3  ? NULL
                                    : is_host(type) ? host
                                                    : AT(device),
                         .array = (int)type == 3 ? array : NULL,
                         .pitch = pitch,
                         .rows = rows,
                         .device = -1};
}

static struct copy box_2d(const CUDA_MEMCPY2D *p) {
    struct copy c = {.dst = side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray,
                                 p->dstPitch, p->dstY + p->Height),
                     .src = side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray,
                                 p->srcPitch, p->srcY + p->Height),
                     .width = p->WidthInBytes,
                     .height = p->Height,
                     .depth = 1,
                     .kind = kind_of(p->dstMemoryType, p->srcMemoryType)};
    c.dst.x = p->dstXInBytes;
    c.dst.y = p->dstY;
    c.src.x = p->srcXInBytes;
    c.src.y = p->srcY;
    return c;
}

static struct copy box_3d(const CUDA_MEMCPY3D *p) {
    struct copy c = {.dst = side(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstArray,
                                 p->dstPitch, p->dstHeight ? p->dstHeight : p->dstY + p->Height),
                     .src = side(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcArray,
                                 p->srcPitch, p->srcHeight ? p->srcHeight : p->srcY + p->Height),
                     .width = p->WidthInBytes,
                     .height = p->Height,
                     .depth = p->Depth,
                     .kind = kind_of(p->dstMemoryType, p->srcMemoryType)};
    c.dst.x = p->dstXInBytes;
    c.dst.y = p->dstY;
    c.dst.z = p->dstZ;
    c.src.x = p->srcXInBytes;
    c.src.y = p->srcY;
    c.src.z = p->srcZ;
    return c;
}

/* `copy` has no extent where the call gave no parameters. */
static int copy_box(struct standin_call *call, struct copy copy, bool given, bool async,
                    CUstream stream) {
    struct copied copied = {0};
    copy.async = async;
    copy.stream = stream;
    int status = ATTEMPT(given ? run(call, &copy, &copied) : SD_INVALID_VALUE);
    PUT("dst", (uintptr_t)copy.dst.address);
    PUT("src", (uintptr_t)copy.src.address);
    PUT("dst_array", (uintptr_t)copy.dst.array);
    PUT("src_array", (uintptr_t)copy.src.array);
    PUT("width", copy.width);
    PUT("height", copy.height);
    PUT("depth", copy.depth);
    PUT("dpitch", copy.dst.pitch);
    PUT("spitch", copy.src.pitch);
    PUT("bytes", copy.width * copy.height * copy.depth);
    PUT("kind", copy.kind);
    if (async)
        PUT("stream", (uintptr_t)stream);
    put_copied(call, &copied);
    return status;
}

static const struct copy nothing = {.dst = {.device = -1}, .src = {.device = -1}};

DRIVER_LOGGED_TWIN(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *pCopy), (pCopy)) {
    return copy_box(call, pCopy ? box_2d(pCopy) : nothing, pCopy, false, NULL);
}

DRIVER_LOGGED_TWIN(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *pCopy), (pCopy)) {
    return copy_box(call, pCopy ? box_2d(pCopy) : nothing, pCopy, false, NULL);
}

DRIVER_LOGGED_TWIN(cuMemcpy2DAsync_v2, _ptsz, (const CUDA_MEMCPY2D *pCopy, CUstream hStream),
                   (pCopy, hStream)) {
    return copy_box(call, pCopy ? box_2d(pCopy) : nothing, pCopy, true, hStream);
}

DRIVER_LOGGED_TWIN(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D *pCopy), (pCopy)) {
    return copy_box(call, pCopy ? box_3d(pCopy) : nothing, pCopy, false, NULL);
}

DRIVER_LOGGED_TWIN(cuMemcpy3DAsync_v2, _ptsz, (const CUDA_MEMCPY3D *pCopy, CUstream hStream),
                   (pCopy, hStream)) {
    return copy_box(call, pCopy ? box_3d(pCopy) : nothing, pCopy, true, hStream);
}

/* ---- memsets -------------------------------------------------------------------------------- */

static int attempt_set(struct standin_call *call, const struct set *set, enum standin_kind *kind) {
    int status = ATTEMPT(sd_driver_context());
    return status ? status : sd_set(set, kind);
}

/* `width` in elements. */
static int fill(struct standin_call *call, CUdeviceptr p, size_t pitch, uint32_t value,
                unsigned element, size_t width, size_t height, bool async, CUstream stream) {
    enum standin_kind kind = STANDIN_PAGEABLE;
    size_t row, bytes;
    bool fits = !__builtin_mul_overflow(width, element, &row) &&
                !__builtin_mul_overflow(row, height, &bytes);
    if (!fits)
        row = bytes = 0;
    struct set set = {.address = AT(p),
                      .pitch = pitch ? pitch : row,
                      .rows = height,
                      .width = row,
                      .height = height,
                      .depth = 1,
                      .value = value,
                      .element = element,
                      .stream = stream,
                      .per_thread = call->per_thread,
                      .async = async};
    if (!fits && !call->fault)
        call->fault = SD_INVALID_VALUE;
    int status = attempt_set(call, &set, &kind);
    PUT("ptr", p);
    PUT("bytes", bytes);
    PUT("value", value);
    if (async)
        PUT("stream", (uintptr_t)stream);
    if (!status && kind != STANDIN_PAGEABLE)
        standin_put_text(call, "dst_kind", sd_side_word(kind));
    PUT_DEVICE();
    return status;
}

#define SET(bits, type, param)                                                                     \
    DRIVER_LOGGED_TWIN(cuMemsetD##bits##_v2, _ptds, (CUdeviceptr dstDevice, type param, size_t N), \
                       (dstDevice, param, N)) {                                                    \
        return fill(call, dstDevice, 0, param, bits / 8, N, 1, false, NULL);                       \
    }                                                                                              \
    DRIVER_LOGGED_TWIN(cuMemsetD##bits##Async, _ptsz,                                              \
                       (CUdeviceptr dstDevice, type param, size_t N, CUstream hStream),            \
                       (dstDevice, param, N, hStream)) {                                           \
        return fill(call, dstDevice, 0, param, bits / 8, N, 1, true, hStream);                     \
    }
SET(8, unsigned char, uc)
SET(16, unsigned short, us)
SET(32, unsigned int, ui)

static int fill_2d(struct standin_call *call, CUdeviceptr p, size_t pitch, uint32_t value,
                   unsigned element, size_t width, size_t height, bool async, CUstream stream) {
    PUT("pitch", pitch);
    PUT("width", width);
    PUT("height", height);
    return fill(call, p, pitch, value, element, width, height, async, stream);
}

#define SET_2D(bits, type, param)                                                                  \
    DRIVER_LOGGED_TWIN(                                                                            \
        cuMemsetD2D##bits##_v2, _ptds,                                                             \
        (CUdeviceptr dstDevice, size_t dstPitch, type param, size_t Width, size_t Height),         \
        (dstDevice, dstPitch, param, Width, Height)) {                                             \
        return fill_2d(call, dstDevice, dstPitch, param, bits / 8, Width, Height, false, NULL);    \
    }                                                                                              \
    DRIVER_LOGGED_TWIN(cuMemsetD2D##bits##Async, _ptsz,                                            \
                       (CUdeviceptr dstDevice, size_t dstPitch, type param, size_t Width,          \
                        size_t Height, CUstream hStream),                                          \
                       (dstDevice, dstPitch, param, Width, Height, hStream)) {                     \
        return fill_2d(call, dstDevice, dstPitch, param, bits / 8, Width, Height, true, hStream);  \
    }
SET_2D(8, unsigned char, uc)
SET_2D(16, unsigned short, us)
SET_2D(32, unsigned int, ui)
