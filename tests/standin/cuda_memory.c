/*
 * cuda_memory.c - the driver's allocations, copies and memsets. See driver.h, alloc.h and copy.h.
 *
 * Rows of the log carry the runtime's words for the fields.
 */
#include "driver.h"

#include <string.h>

#include "alloc.h"
#include "copy.h"
#include "memory.h"

/* 201 where no context is current; the alloc and copy functions take the lock themselves. */
static int need_context(void) {
    struct device *device;
    int status = sd_driver_begin(&device);
    return status ? status : sd_end_with(SD_OK);
}

static int put_new(struct standin_call *call, int status, const void *p, size_t size,
                   const char *kind) {
    PUT("ptr", status ? 0 : (uintptr_t)p);
    PUT("size", size);
    standin_put_text(call, "memory", kind);
    return status;
}

static int put_freed(struct standin_call *call, int status, const void *p,
                     const struct freed *freed) {
    PUT("ptr", (uintptr_t)p);
    if (freed->known) {
        PUT("size", freed->size);
        standin_put_text(call, "memory", sd_memory_word(freed->kind));
    }
    return status;
}

static int mem_alloc(CUdeviceptr *out, size_t size) {
    void *p = NULL;
    if (!out || !size)
        return SD_INVALID_VALUE;
    int status = need_context();
    if (!status)
        status = sd_malloc(size, &p);
    if (!status)
        *out = (uintptr_t)p;
    return status;
}

DRIVER(cuMemAlloc_v2, (CUdeviceptr * dptr, size_t bytesize), (dptr, bytesize)) {
    int status = mem_alloc(dptr, bytesize);
    return put_new(call, status, status ? NULL : AT(*dptr), bytesize, "device");
}

DRIVER(cuMemAllocPitch_v2,
       (CUdeviceptr * dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
        unsigned int ElementSizeBytes),
       (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes)) {
    size_t pitch = (WidthInBytes + 511) & ~(size_t)511, size;
    bool element = ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16;
    if (!pPitch || !element || pitch < WidthInBytes || __builtin_mul_overflow(pitch, Height, &size))
        return SD_INVALID_VALUE;
    int status = mem_alloc(dptr, size);
    if (!status)
        *pPitch = pitch;
    return put_new(call, status, status ? NULL : AT(*dptr), size, "device");
}

DRIVER(cuMemAllocManaged, (CUdeviceptr * dptr, size_t bytesize, unsigned int flags),
       (dptr, bytesize, flags)) {
    void *p = NULL;
    int status = dptr ? need_context() : SD_INVALID_VALUE;
    if (!status)
        status = sd_malloc_managed(bytesize, flags, &p);
    if (!status)
        *dptr = (uintptr_t)p;
    return put_new(call, status, p, bytesize, "managed");
}

DRIVER_TWIN(cuMemAllocAsync, _ptsz, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
            (dptr, bytesize, hStream)) {
    void *p = NULL;
    bool in_graph = false;
    int status = dptr ? need_context() : SD_INVALID_VALUE;
    if (!status)
        status = sd_malloc_async(bytesize, NULL, hStream, call->per_thread, &p, &in_graph);
    if (!status)
        *dptr = (uintptr_t)p;
    return put_new(call, status, p, bytesize, in_graph ? "graph" : "async");
}

DRIVER(cuMemFree_v2, (CUdeviceptr dptr), (dptr)) {
    struct freed freed = {0};
    int status = need_context();
    if (!status)
        status = sd_free(AT(dptr), &freed);
    return put_freed(call, status, AT(dptr), &freed);
}

DRIVER_TWIN(cuMemFreeAsync, _ptsz, (CUdeviceptr dptr, CUstream hStream), (dptr, hStream)) {
    struct freed freed = {0};
    int status = need_context();
    if (!status)
        status = sd_free_async(AT(dptr), hStream, call->per_thread, &freed);
    return put_freed(call, status, AT(dptr), &freed);
}

static int host_alloc(struct standin_call *call, void **pp, size_t size, unsigned flags) {
    int status = pp && size ? need_context() : SD_INVALID_VALUE;
    if (!status)
        status = sd_malloc_host(size, flags, pp);
    return put_new(call, status, status ? NULL : *pp, size, "pinned");
}

DRIVER(cuMemAllocHost_v2, (void **pp, size_t bytesize), (pp, bytesize)) {
    return host_alloc(call, pp, bytesize, 0);
}

DRIVER(cuMemHostAlloc, (void **pp, size_t bytesize, unsigned int Flags), (pp, bytesize, Flags)) {
    return host_alloc(call, pp, bytesize, Flags);
}

DRIVER(cuMemFreeHost, (void *p), (p)) {
    struct freed freed = {0};
    int status = need_context();
    if (!status)
        status = sd_free_host(p, &freed);
    return put_freed(call, status, p, &freed);
}

DRIVER(cuMemHostRegister_v2, (void *p, size_t bytesize, unsigned int Flags), (p, bytesize, Flags)) {
    int status = need_context();
    if (!status)
        status = sd_register(p, bytesize, Flags);
    return put_new(call, status, p, bytesize, "registered");
}

DRIVER(cuMemHostUnregister, (void *p), (p)) {
    struct freed freed = {0};
    int status = need_context();
    if (!status)
        status = sd_unregister(p, &freed);
    return put_freed(call, status, p, &freed);
}

DRIVER(cuMemHostGetDevicePointer_v2, (CUdeviceptr * pdptr, void *p, unsigned int Flags),
       (pdptr, p, Flags)) {
    struct standin_memory m;
    if (!pdptr || Flags || !standin_memory_at(p, &m) ||
        (m.kind != STANDIN_PINNED && m.kind != STANDIN_REGISTERED))
        return SD_INVALID_VALUE;
    *pdptr = (uintptr_t)p;
    return SD_OK;
}

DRIVER(cuMemGetInfo_v2, (size_t * available, size_t *total), (available, total)) {
    uint64_t a = 0, t = 0;
    int status = available && total ? need_context() : SD_INVALID_VALUE;
    if (!status)
        status = sd_mem_info(&a, &t);
    if (!status) {
        *available = a;
        *total = t;
    }
    PUT("free", a);
    PUT("total", t);
    return status;
}

DRIVER(cuMemGetAddressRange_v2, (CUdeviceptr * pbase, size_t *psize, CUdeviceptr dptr),
       (pbase, psize, dptr)) {
    struct standin_memory m;
    int status = need_context();
    if (status)
        return status;
    if (!standin_memory_at(AT(dptr), &m))
        return SD_NOT_FOUND;
    if (pbase)
        *pbase = m.start;
    if (psize)
        *psize = m.size;
    return SD_OK;
}

/* ---- what lies at an address ---------------------------------------------------------------- */

static int attribute(void *out, int number, const void *p) {
    struct standin_memory m;
    if (!standin_memory_at(p, &m))
        return SD_INVALID_VALUE;
    bool host = m.kind == STANDIN_PINNED || m.kind == STANDIN_REGISTERED;
    bool managed = m.kind == STANDIN_MANAGED;
    unsigned value = 0;
    switch (number) {
    case 2: /* memory type: host 1, device 2 */
        value = host ? 1 : 2;
        break;
    case 3: /* device pointer */
    case 4: /* host pointer */
        if (number == 4 && !host && !managed)
            return SD_INVALID_VALUE;
        memcpy(out, &p, sizeof p);
        return SD_OK;
    case 7: /* buffer id */
        memcpy(out, &m.id, sizeof m.id);
        return SD_OK;
    case 8:
        memcpy(out, &(char){managed}, 1);
        return SD_OK;
    case 9:
        value = (unsigned)m.device;
        break;
    case 11: /* start of the range */
        memcpy(out, &m.start, sizeof m.start);
        return SD_OK;
    case 12:
        memcpy(out, &m.size, sizeof m.size);
        return SD_OK;
    case 13: /* mapped */
        memcpy(out, &(char){1}, 1);
        return SD_OK;
    default:
        return SD_NOT_SUPPORTED;
    }
    memcpy(out, &value, sizeof value);
    return SD_OK;
}

DRIVER(cuPointerGetAttribute, (void *data, CUpointer_attribute attribute_number, CUdeviceptr ptr),
       (data, attribute_number, ptr)) {
    return data ? attribute(data, (int)attribute_number, AT(ptr)) : SD_INVALID_VALUE;
}

/* Attributes that the memory does not have are zero, not errors. */
DRIVER(cuPointerGetAttributes,
       (unsigned int numAttributes, CUpointer_attribute *attributes, void **data, CUdeviceptr ptr),
       (numAttributes, attributes, data, ptr)) {
    if (!attributes || !data)
        return SD_INVALID_VALUE;
    for (unsigned i = 0; i < numAttributes; i++)
        if (attribute(data[i], (int)attributes[i], AT(ptr)) != SD_OK)
            memset(data[i], 0, (int)attributes[i] == 8 ? 1 : 4);
    return SD_OK;
}

/* ---- copies --------------------------------------------------------------------------------- */

static int copy(struct standin_call *call, void *dst, const void *src, size_t bytes, int kind,
                bool async, CUstream stream) {
    struct copied copied = {0};
    struct copy c = {.dst = {.address = dst, .pitch = bytes, .rows = 1, .device = -1},
                     .src = {.address = src, .pitch = bytes, .rows = 1, .device = -1},
                     .width = bytes,
                     .height = 1,
                     .depth = 1,
                     .kind = kind,
                     .stream = stream,
                     .per_thread = call->per_thread,
                     .async = async};
    int status = need_context();
    if (!status)
        status = sd_copy(&c, &copied);
    PUT("dst", (uintptr_t)dst);
    PUT("src", (uintptr_t)src);
    PUT("bytes", bytes);
    if (async)
        PUT("stream", (uintptr_t)stream);
    if (copied.known) {
        standin_put_text(call, "src_kind", sd_side_word(copied.src_kind));
        standin_put_text(call, "dst_kind", sd_side_word(copied.dst_kind));
        standin_put_text(call, "direction", copied.direction);
    }
    return status;
}

#define TO_DEVICE CUdeviceptr dst, const void *src
#define TO_HOST void *dst, CUdeviceptr src
#define ON_DEVICE CUdeviceptr dst, CUdeviceptr src
#define COPY(name, from_to, dst_cast, src_cast, kind)                                              \
    DRIVER_TWIN(name, _ptds, (from_to, size_t ByteCount), (dst, src, ByteCount)) {                 \
        return copy(call, dst_cast(dst), src_cast(src), ByteCount, kind, false, NULL);             \
    }
#define COPY_ASYNC(name, from_to, dst_cast, src_cast, kind)                                        \
    DRIVER_TWIN(name, _ptsz, (from_to, size_t ByteCount, CUstream hStream),                        \
                (dst, src, ByteCount, hStream)) {                                                  \
        return copy(call, dst_cast(dst), src_cast(src), ByteCount, kind, true, hStream);           \
    }
COPY(cuMemcpy, ON_DEVICE, AT, AT, COPY_DEFAULT)
COPY(cuMemcpyHtoD_v2, TO_DEVICE, AT, , COPY_H2D)
COPY(cuMemcpyDtoH_v2, TO_HOST, , AT, COPY_D2H)
COPY(cuMemcpyDtoD_v2, ON_DEVICE, AT, AT, COPY_D2D)
COPY_ASYNC(cuMemcpyAsync, ON_DEVICE, AT, AT, COPY_DEFAULT)
COPY_ASYNC(cuMemcpyHtoDAsync_v2, TO_DEVICE, AT, , COPY_H2D)
COPY_ASYNC(cuMemcpyDtoHAsync_v2, TO_HOST, , AT, COPY_D2H)
COPY_ASYNC(cuMemcpyDtoDAsync_v2, ON_DEVICE, AT, AT, COPY_D2D)

/* ---- memsets -------------------------------------------------------------------------------- */

static int fill(struct standin_call *call, CUdeviceptr p, uint32_t value, unsigned element,
                size_t count, bool async, CUstream stream) {
    enum standin_kind kind;
    size_t bytes;
    if (__builtin_mul_overflow(count, element, &bytes))
        return SD_INVALID_VALUE;
    struct set set = {.address = AT(p),
                      .pitch = bytes,
                      .rows = 1,
                      .width = bytes,
                      .height = 1,
                      .depth = 1,
                      .value = value,
                      .element = element,
                      .stream = stream,
                      .per_thread = call->per_thread,
                      .async = async};
    int status = need_context();
    if (!status)
        status = sd_set(&set, &kind);
    PUT("ptr", p);
    PUT("bytes", bytes);
    PUT("value", value);
    if (async)
        PUT("stream", (uintptr_t)stream);
    return status;
}

#define SET(bits, type, param)                                                                     \
    DRIVER_TWIN(cuMemsetD##bits##_v2, _ptds, (CUdeviceptr dstDevice, type param, size_t N),        \
                (dstDevice, param, N)) {                                                           \
        return fill(call, dstDevice, param, bits / 8, N, false, NULL);                             \
    }                                                                                              \
    DRIVER_TWIN(cuMemsetD##bits##Async, _ptsz,                                                     \
                (CUdeviceptr dstDevice, type param, size_t N, CUstream hStream),                   \
                (dstDevice, param, N, hStream)) {                                                  \
        return fill(call, dstDevice, param, bits / 8, N, true, hStream);                           \
    }
SET(8, unsigned char, uc)
SET(16, unsigned short, us)
SET(32, unsigned int, ui)
