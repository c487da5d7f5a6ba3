/*
 * cuda_memory.c - the driver's allocations and what lies at an address. See driver.h and alloc.h.
 * Copies: cuda_copy.c.
 *
 * Rows of the log carry the runtime's words for the fields.
 */
#include "driver.h"

#include <string.h>

#include "alloc.h"
#include "memory.h"

static int put_new(struct standin_call *call, int status, const void *p, size_t size,
                   const char *kind) {
    PUT("ptr", status ? 0 : (uintptr_t)p);
    PUT("size", size);
    standin_put_text(call, "memory", kind);
    PUT_DEVICE();
    return status;
}

static int put_freed(struct standin_call *call, int status, const void *p,
                     const struct freed *freed) {
    PUT("ptr", (uintptr_t)p);
    if (freed->known) {
        PUT("size", freed->size);
        standin_put_text(call, "memory", sd_freed_word(freed));
    }
    PUT_DEVICE();
    return status;
}

static int mem_alloc(CUdeviceptr *out, size_t size) {
    void *p = NULL;
    if (!out || !size)
        return SD_INVALID_VALUE;
    int status = sd_driver_context();
    if (!status)
        status = sd_malloc(size, &p);
    if (!status)
        *out = (uintptr_t)p;
    return status;
}

DRIVER_LOGGED(cuMemAlloc_v2, (CUdeviceptr * dptr, size_t bytesize), (dptr, bytesize)) {
    int status = ATTEMPT(mem_alloc(dptr, bytesize));
    return put_new(call, status, status ? NULL : AT(*dptr), bytesize, "device");
}

static int alloc_pitch(CUdeviceptr *out, size_t *out_pitch, size_t width, size_t height,
                       unsigned element, size_t *size) {
    size_t pitch = (width + 511) & ~(size_t)511;
    if (!out_pitch || (element != 4 && element != 8 && element != 16) || pitch < width ||
        __builtin_mul_overflow(pitch, height, size))
        return SD_INVALID_VALUE;
    int status = mem_alloc(out, *size);
    if (!status)
        *out_pitch = pitch;
    return status;
}

DRIVER_LOGGED(cuMemAllocPitch_v2,
              (CUdeviceptr * dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
               unsigned int ElementSizeBytes),
              (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes)) {
    size_t size = 0;
    int status = ATTEMPT(alloc_pitch(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes, &size));
    PUT("pitch", status ? 0 : *pPitch);
    PUT("width", WidthInBytes);
    PUT("height", Height);
    return put_new(call, status, status ? NULL : AT(*dptr), status ? 0 : size, "device");
}

static int alloc_managed(CUdeviceptr *out, size_t size, unsigned flags) {
    void *p = NULL;
    int status = out ? sd_driver_context() : SD_INVALID_VALUE;
    if (!status)
        status = sd_malloc_managed(size, flags, &p);
    if (!status)
        *out = (uintptr_t)p;
    return status;
}

DRIVER_LOGGED(cuMemAllocManaged, (CUdeviceptr * dptr, size_t bytesize, unsigned int flags),
              (dptr, bytesize, flags)) {
    int status = ATTEMPT(alloc_managed(dptr, bytesize, flags));
    PUT("flags", flags);
    return put_new(call, status, status ? NULL : AT(*dptr), bytesize, "managed");
}

static int alloc_async(CUdeviceptr *out, size_t size, const void *pool, CUstream stream,
                       bool per_thread, bool *in_graph) {
    void *p = NULL;
    int status = out ? sd_driver_context() : SD_INVALID_VALUE;
    if (!status)
        status = sd_malloc_async(size, pool, stream, per_thread, &p, in_graph);
    if (!status)
        *out = (uintptr_t)p;
    return status;
}

DRIVER_LOGGED_TWIN(cuMemAllocAsync, _ptsz, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
                   (dptr, bytesize, hStream)) {
    bool in_graph = false;
    int status = ATTEMPT(alloc_async(dptr, bytesize, NULL, hStream, call->per_thread, &in_graph));
    PUT("stream", (uintptr_t)hStream);
    return put_new(call, status, status ? NULL : AT(*dptr), bytesize, in_graph ? "graph" : "async");
}

DRIVER_LOGGED_TWIN(cuMemAllocFromPoolAsync, _ptsz,
                   (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
                   (dptr, bytesize, pool, hStream)) {
    bool in_graph = false;
    int status =
        ATTEMPT(pool ? alloc_async(dptr, bytesize, pool, hStream, call->per_thread, &in_graph)
                     : SD_INVALID_VALUE);
    PUT("pool", (uintptr_t)pool);
    PUT("stream", (uintptr_t)hStream);
    return put_new(call, status, status ? NULL : AT(*dptr), bytesize, in_graph ? "graph" : "async");
}

static int mem_free(void *p, struct freed *freed) {
    int status = sd_driver_context();
    return status ? status : sd_free(p, freed);
}

DRIVER_LOGGED(cuMemFree_v2, (CUdeviceptr dptr), (dptr)) {
    struct freed freed = {0};
    int status = ATTEMPT(mem_free(AT(dptr), &freed));
    return put_freed(call, status, AT(dptr), &freed);
}

static int free_async(void *p, CUstream stream, bool per_thread, struct freed *freed) {
    int status = sd_driver_context();
    return status ? status : sd_free_async(p, stream, per_thread, freed);
}

DRIVER_LOGGED_TWIN(cuMemFreeAsync, _ptsz, (CUdeviceptr dptr, CUstream hStream), (dptr, hStream)) {
    struct freed freed = {0};
    int status = ATTEMPT(free_async(AT(dptr), hStream, call->per_thread, &freed));
    PUT("stream", (uintptr_t)hStream);
    return put_freed(call, status, AT(dptr), &freed);
}

static int host_alloc(void **out, size_t size, unsigned flags) {
    int status = out && size ? sd_driver_context() : SD_INVALID_VALUE;
    return status ? status : sd_malloc_host(size, flags, out);
}

DRIVER_LOGGED(cuMemAllocHost_v2, (void **pp, size_t bytesize), (pp, bytesize)) {
    int status = ATTEMPT(host_alloc(pp, bytesize, 0));
    return put_new(call, status, status ? NULL : *pp, bytesize, "pinned");
}

DRIVER_LOGGED(cuMemHostAlloc, (void **pp, size_t bytesize, unsigned int Flags),
              (pp, bytesize, Flags)) {
    int status = ATTEMPT(host_alloc(pp, bytesize, Flags));
    PUT("flags", Flags);
    return put_new(call, status, status ? NULL : *pp, bytesize, "pinned");
}

static int free_host(void *p, struct freed *freed) {
    int status = sd_driver_context();
    return status ? status : sd_free_host(p, freed);
}

DRIVER_LOGGED(cuMemFreeHost, (void *p), (p)) {
    struct freed freed = {0};
    int status = ATTEMPT(free_host(p, &freed));
    return put_freed(call, status, p, &freed);
}

static int host_register(void *p, size_t size, unsigned flags) {
    int status = sd_driver_context();
    return status ? status : sd_register(p, size, flags);
}

/* Also after a failure `ptr` is the address that was given. */
DRIVER_LOGGED(cuMemHostRegister_v2, (void *p, size_t bytesize, unsigned int Flags),
              (p, bytesize, Flags)) {
    int status = ATTEMPT(host_register(p, bytesize, Flags));
    PUT("flags", Flags);
    put_new(call, SD_OK, p, bytesize, "registered");
    return status;
}

static int host_unregister(void *p, struct freed *freed) {
    int status = sd_driver_context();
    return status ? status : sd_unregister(p, freed);
}

DRIVER_LOGGED(cuMemHostUnregister, (void *p), (p)) {
    struct freed freed = {0};
    int status = ATTEMPT(host_unregister(p, &freed));
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

static int mem_info(size_t *available, size_t *total) {
    uint64_t a, t;
    int status = available && total ? sd_driver_context() : SD_INVALID_VALUE;
    if (!status)
        status = sd_mem_info(&a, &t);
    if (!status) {
        *available = a;
        *total = t;
    }
    return status;
}

DRIVER_LOGGED(cuMemGetInfo_v2, (size_t * available, size_t *total), (available, total)) {
    int status = ATTEMPT(mem_info(available, total));
    PUT("free", status ? 0 : *available);
    PUT("total", status ? 0 : *total);
    PUT_DEVICE();
    return status;
}

DRIVER(cuMemGetAddressRange_v2, (CUdeviceptr * pbase, size_t *psize, CUdeviceptr dptr),
       (pbase, psize, dptr)) {
    struct standin_memory m;
    int status = sd_driver_context();
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
