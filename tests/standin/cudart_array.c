/*
 * cudart_array.c - arrays, and copies to and from arrays and module variables, as the runtime's
 * functions. See cudart.h, array.h and copy.h.
 */
#include "cudart.h"

#include "alloc.h"
#include "array.h"
#include "capture.h"
#include "cudart_copy.h"
#include "handles.h"
#include "kernel.h"

/* ---- arrays come and go --------------------------------------------------------------------- */

static int new_array(cudaArray_t *out, const struct cudaChannelFormatDesc *desc, size_t width,
                     size_t height, size_t depth, unsigned flags) {
    struct device *device;
    if (!out || !desc)
        return SD_INVALID_VALUE;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    status = sd_capture_refuses();
    struct array *array = NULL;
    if (!status)
        status = sd_array_new(device, (int[]){desc->x, desc->y, desc->z, desc->w}, (int)desc->f,
                              width, height, depth, flags, &array);
    if (!status)
        *out = (cudaArray_t)array;
    return sd_end_with(status);
}

static void put_array(struct standin_call *call, int status, cudaArray_t *array, size_t width,
                      size_t height, size_t depth, const struct cudaChannelFormatDesc *desc,
                      unsigned flags) {
    PUT_OUT("ptr", array);
    PUT("width", width);
    PUT("height", height);
    PUT("depth", depth);
    /* Bits of the channels, x in the lowest byte. */
    PUT("format",
        desc ? (unsigned)(desc->x | desc->y << 8 | desc->z << 16) | (unsigned)desc->w << 24 : 0);
    PUT("flags", flags);
    PUT_DEVICE();
    standin_put_text(call, "memory", "array");
}

CUDART(cudaMallocArray,
       (cudaArray_t * array, const struct cudaChannelFormatDesc *desc, size_t width, size_t height,
        unsigned int flags),
       (array, desc, width, height, flags)) {
    int status = ATTEMPT(new_array(array, desc, width, height, 0, flags));
    put_array(call, status, array, width, height, 0, desc, flags);
    return status;
}

CUDART(cudaMalloc3DArray,
       (cudaArray_t * array, const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
        unsigned int flags),
       (array, desc, extent, flags)) {
    int status = ATTEMPT(new_array(array, desc, extent.width, extent.height, extent.depth, flags));
    put_array(call, status, array, extent.width, extent.height, extent.depth, desc, flags);
    return status;
}

static int free_array(cudaArray_t handle, struct freed *out) {
    int status = sd_begin();
    if (status)
        return status;
    status = sd_capture_refuses();
    if (status || !handle)
        return sd_end_with(status);
    struct array *array = sd_handle(handle, HANDLE_ARRAY);
    if (!array || array->mipmap)
        return sd_end_with(SD_INVALID_HANDLE);
    sd_device_wait(sd_device(array->memory->device));
    *out = (struct freed){.known = true, .kind = STANDIN_ARRAY, .size = sd_array_bytes(array)};
    sd_array_delete(array);
    return sd_end_with(SD_OK);
}

CUDART(cudaFreeArray, (cudaArray_t array), (array)) {
    struct freed freed = {0};
    int status = ATTEMPT(free_array(array, &freed));
    PUT("ptr", (uintptr_t)array);
    if (freed.known) {
        standin_put_text(call, "memory", "array");
        PUT("size", freed.size);
    }
    PUT_DEVICE();
    return status;
}

static int array_info(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent,
                      unsigned *flags, cudaArray_const_t handle) {
    int status = sd_begin();
    if (status)
        return status;
    const struct array *a = sd_handle(handle, HANDLE_ARRAY);
    if (!a)
        return sd_end_with(SD_INVALID_HANDLE);
    if (desc)
        *desc = (struct cudaChannelFormatDesc){a->bits[0], a->bits[1], a->bits[2], a->bits[3],
                                               (enum cudaChannelFormatKind)a->format};
    if (extent)
        *extent = (struct cudaExtent){a->width, a->height, a->depth};
    if (flags)
        *flags = a->flags;
    return sd_end_with(SD_OK);
}

CUDART(cudaArrayGetInfo,
       (struct cudaChannelFormatDesc * desc, struct cudaExtent *extent, unsigned int *flags,
        cudaArray_t array),
       (desc, extent, flags, array)) {
    return ATTEMPT(array_info(desc, extent, flags, array));
}

CUDART(cudaGetChannelDesc, (struct cudaChannelFormatDesc * desc, cudaArray_const_t array),
       (desc, array)) {
    return ATTEMPT(desc ? array_info(desc, NULL, NULL, array) : SD_INVALID_VALUE);
}

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   enum cudaChannelFormatKind f);
STANDIN_EXPORT struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                                  enum cudaChannelFormatKind f) {
    standin_log("cudaCreateChannelDesc", 0, __builtin_return_address(0), NULL);
    return (struct cudaChannelFormatDesc){x, y, z, w, f};
}

/* ---- copies of arrays ----------------------------------------------------------------------- */

static struct side at(cudaArray_const_t array, size_t x, size_t y) {
    return (struct side){
        .array = array ? (const void *)array : (const void *)1, .x = x, .y = y, .device = -1};
}

static struct side linear(const void *p, size_t pitch, size_t rows) {
    return (struct side){.address = p, .pitch = pitch, .rows = rows, .device = -1};
}

static int run(struct standin_call *call, struct side dst, struct side src, size_t width,
               size_t height, int kind, bool async, cudaStream_t stream) {
    struct copied copied = {0};
    struct copy copy = {.dst = dst,
                        .src = src,
                        .width = width,
                        .height = height,
                        .depth = 1,
                        .kind = kind,
                        .stream = stream,
                        .per_thread = call->per_thread,
                        .async = async};
    int status = ATTEMPT(sd_copy(&copy, &copied));
    PUT("bytes", width * height);
    PUT("width", width);
    PUT("kind", kind);
    if (async)
        PUT("stream", (uintptr_t)stream);
    sd_put_copied(call, &copied);
    return status;
}

static int to_array(struct standin_call *call, cudaArray_t dst, size_t x, size_t y, const void *src,
                    size_t spitch, size_t width, size_t height, int kind, bool async,
                    cudaStream_t stream) {
    PUT("dst_array", (uintptr_t)dst);
    PUT("src", (uintptr_t)src);
    return run(call, at(dst, x, y), linear(src, spitch, height), width, height, kind, async,
               stream);
}

static int from_array(struct standin_call *call, void *dst, size_t dpitch, cudaArray_const_t src,
                      size_t x, size_t y, size_t width, size_t height, int kind, bool async,
                      cudaStream_t stream) {
    PUT("dst", (uintptr_t)dst);
    PUT("src_array", (uintptr_t)src);
    return run(call, linear(dst, dpitch, height), at(src, x, y), width, height, kind, async,
               stream);
}

CUDART_TWIN(cudaMemcpy2DToArray, _ptds,
            (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
             size_t width, size_t height, enum cudaMemcpyKind kind),
            (dst, wOffset, hOffset, src, spitch, width, height, kind)) {
    PUT("spitch", spitch);
    return to_array(call, dst, wOffset, hOffset, src, spitch, width, height, (int)kind, false,
                    NULL);
}

CUDART_TWIN(cudaMemcpy2DToArrayAsync, _ptsz,
            (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch,
             size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
            (dst, wOffset, hOffset, src, spitch, width, height, kind, stream)) {
    PUT("spitch", spitch);
    return to_array(call, dst, wOffset, hOffset, src, spitch, width, height, (int)kind, true,
                    stream);
}

CUDART_TWIN(cudaMemcpy2DFromArray, _ptds,
            (void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset,
             size_t width, size_t height, enum cudaMemcpyKind kind),
            (dst, dpitch, src, wOffset, hOffset, width, height, kind)) {
    PUT("dpitch", dpitch);
    return from_array(call, dst, dpitch, src, wOffset, hOffset, width, height, (int)kind, false,
                      NULL);
}

CUDART_TWIN(cudaMemcpy2DFromArrayAsync, _ptsz,
            (void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset,
             size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
            (dst, dpitch, src, wOffset, hOffset, width, height, kind, stream)) {
    PUT("dpitch", dpitch);
    return from_array(call, dst, dpitch, src, wOffset, hOffset, width, height, (int)kind, true,
                      stream);
}

static int between_arrays(struct standin_call *call, cudaArray_t dst, size_t dx, size_t dy,
                          cudaArray_const_t src, size_t sx, size_t sy, size_t width, size_t height,
                          int kind) {
    PUT("dst_array", (uintptr_t)dst);
    PUT("src_array", (uintptr_t)src);
    return run(call, at(dst, dx, dy), at(src, sx, sy), width, height, kind, false, NULL);
}

CUDART_TWIN(cudaMemcpy2DArrayToArray, _ptds,
            (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
             size_t wOffsetSrc, size_t hOffsetSrc, size_t width, size_t height,
             enum cudaMemcpyKind kind),
            (dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, width, height, kind)) {
    return between_arrays(call, dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, width,
                          height, (int)kind);
}

/* The one-dimensional forms (deprecated, but exported) run on from row to row of an array; here
 * they stay within one row, which is all that programs use. */
CUDART_TWIN(cudaMemcpyToArray, _ptds,
            (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count,
             enum cudaMemcpyKind kind),
            (dst, wOffset, hOffset, src, count, kind)) {
    return to_array(call, dst, wOffset, hOffset, src, count, count, 1, (int)kind, false, NULL);
}

CUDART_TWIN(cudaMemcpyToArrayAsync, _ptsz,
            (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t count,
             enum cudaMemcpyKind kind, cudaStream_t stream),
            (dst, wOffset, hOffset, src, count, kind, stream)) {
    return to_array(call, dst, wOffset, hOffset, src, count, count, 1, (int)kind, true, stream);
}

CUDART_TWIN(cudaMemcpyFromArray, _ptds,
            (void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
             enum cudaMemcpyKind kind),
            (dst, src, wOffset, hOffset, count, kind)) {
    return from_array(call, dst, count, src, wOffset, hOffset, count, 1, (int)kind, false, NULL);
}

CUDART_TWIN(cudaMemcpyFromArrayAsync, _ptsz,
            (void *dst, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t count,
             enum cudaMemcpyKind kind, cudaStream_t stream),
            (dst, src, wOffset, hOffset, count, kind, stream)) {
    return from_array(call, dst, count, src, wOffset, hOffset, count, 1, (int)kind, true, stream);
}

CUDART_TWIN(cudaMemcpyArrayToArray, _ptds,
            (cudaArray_t dst, size_t wOffsetDst, size_t hOffsetDst, cudaArray_const_t src,
             size_t wOffsetSrc, size_t hOffsetSrc, size_t count, enum cudaMemcpyKind kind),
            (dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, count, kind)) {
    return between_arrays(call, dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, count, 1,
                          (int)kind);
}

/* ---- module variables ----------------------------------------------------------------------- */

/* Where the variable's bytes lie on the current device. */
static int symbol_at(const void *symbol, size_t count, size_t offset, char **out) {
    struct device *device;
    struct variable *variable;
    struct memory *memory;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    status = sd_variable_find(symbol, device, &variable, &memory);
    if (!status && (offset > variable->size || count > variable->size - offset))
        status = SD_INVALID_VALUE;
    if (!status)
        *out = (char *)sd_memory_address(memory) + offset;
    return sd_end_with(status);
}

static int copy_symbol(struct standin_call *call, void *dst, const void *src, const void *symbol,
                       size_t count, size_t offset, int kind, bool async, cudaStream_t stream) {
    char *p = NULL;
    /* A variable lies on the device: no copy of it goes to or comes from another host side. */
    bool to = dst == NULL;
    int status = call->fault ? SD_OK : symbol_at(symbol, count, offset, &p);
    if (!status && !call->fault && (kind == COPY_H2H || kind == (to ? COPY_D2H : COPY_H2D)))
        status = SD_INVALID_DIRECTION;
    PUT("symbol", (uintptr_t)symbol);
    PUT(to ? "src" : "dst", (uintptr_t)(to ? src : dst));
    PUT("offset", offset);
    if (!status)
        return run(call, linear(to ? p : dst, count, 1), linear(to ? src : p, count, 1), count, 1,
                   kind, async, stream);
    PUT("bytes", count);
    PUT("kind", kind);
    if (async)
        PUT("stream", (uintptr_t)stream);
    PUT_DEVICE();
    return status;
}

CUDART_TWIN(cudaMemcpyToSymbol, _ptds,
            (const void *symbol, const void *src, size_t count, size_t offset,
             enum cudaMemcpyKind kind),
            (symbol, src, count, offset, kind)) {
    return copy_symbol(call, NULL, src, symbol, count, offset, (int)kind, false, NULL);
}

CUDART_TWIN(cudaMemcpyToSymbolAsync, _ptsz,
            (const void *symbol, const void *src, size_t count, size_t offset,
             enum cudaMemcpyKind kind, cudaStream_t stream),
            (symbol, src, count, offset, kind, stream)) {
    return copy_symbol(call, NULL, src, symbol, count, offset, (int)kind, true, stream);
}

/* A NULL destination is refused; copy_symbol() takes it for the other direction. */
static int from_symbol(struct standin_call *call, void *dst, const void *symbol, size_t count,
                       size_t offset, int kind, bool async, cudaStream_t stream) {
    if (dst)
        return copy_symbol(call, dst, NULL, symbol, count, offset, kind, async, stream);
    PUT("symbol", (uintptr_t)symbol);
    PUT("dst", 0);
    PUT("offset", offset);
    PUT("bytes", count);
    PUT("kind", kind);
    if (async)
        PUT("stream", (uintptr_t)stream);
    PUT_DEVICE();
    return ATTEMPT(SD_INVALID_VALUE);
}

CUDART_TWIN(cudaMemcpyFromSymbol, _ptds,
            (void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind),
            (dst, symbol, count, offset, kind)) {
    return from_symbol(call, dst, symbol, count, offset, (int)kind, false, NULL);
}

CUDART_TWIN(cudaMemcpyFromSymbolAsync, _ptsz,
            (void *dst, const void *symbol, size_t count, size_t offset, enum cudaMemcpyKind kind,
             cudaStream_t stream),
            (dst, symbol, count, offset, kind, stream)) {
    return from_symbol(call, dst, symbol, count, offset, (int)kind, true, stream);
}

CUDART(cudaGetSymbolAddress, (void **devPtr, const void *symbol), (devPtr, symbol)) {
    char *p = NULL;
    int status = ATTEMPT(devPtr ? symbol_at(symbol, 0, 0, &p) : SD_INVALID_VALUE);
    if (!status)
        *devPtr = p;
    return status;
}

static int symbol_size(size_t *size, const void *symbol) {
    struct device *device;
    struct variable *variable;
    struct memory *memory;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    status = sd_variable_find(symbol, device, &variable, &memory);
    if (!status)
        *size = variable->size;
    return sd_end_with(status);
}

CUDART(cudaGetSymbolSize, (size_t * size, const void *symbol), (size, symbol)) {
    return ATTEMPT(size ? symbol_size(size, symbol) : SD_INVALID_VALUE);
}
