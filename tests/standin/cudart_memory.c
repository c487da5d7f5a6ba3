/*
 * cudart_memory.c - allocations, frees and what lies at an address, as the runtime's functions.
 * See cudart.h and alloc.h.
 */
#include "cudart.h"

#include <string.h>

#include "alloc.h"
#include "capture.h"
#include "kernel.h"
#include "memory.h"
#include "truth.h"

static void put_allocation(struct standin_call *call, const char *kind) {
    PUT_DEVICE();
    standin_put_text(call, "memory", kind);
}

static void put_freed(struct standin_call *call, const struct freed *freed) {
    if (freed->known) {
        standin_put_text(call, "memory", sd_freed_word(freed));
        PUT("size", freed->size);
    }
    PUT_DEVICE();
}

static int plain_malloc(void **out, uint64_t size) {
    return out ? sd_malloc(size, out) : SD_INVALID_VALUE;
}

CUDART(cudaMalloc, (void **devPtr, size_t size), (devPtr, size)) {
    int status = ATTEMPT(plain_malloc(devPtr, size));
    PUT_OUT("ptr", devPtr);
    PUT("size", size);
    put_allocation(call, "device");
    return status;
}

#define PITCH_ALIGNMENT 512ull

static int pitched_malloc(void **out, size_t *pitch, uint64_t width, uint64_t rows) {
    uint64_t wide = (width + PITCH_ALIGNMENT - 1) & ~(PITCH_ALIGNMENT - 1), bytes;
    if (wide < width || __builtin_mul_overflow(wide, rows, &bytes))
        return SD_INVALID_VALUE;
    int status = sd_malloc(bytes, out);
    if (!status)
        *pitch = wide;
    return status;
}

CUDART(cudaMallocPitch, (void **devPtr, size_t *pitch, size_t width, size_t height),
       (devPtr, pitch, width, height)) {
    int status =
        ATTEMPT(devPtr && pitch ? pitched_malloc(devPtr, pitch, width, height) : SD_INVALID_VALUE);
    PUT_OUT("ptr", devPtr);
    PUT("size", OUT(pitch) * height);
    PUT("pitch", OUT(pitch));
    PUT("width", width);
    PUT("height", height);
    put_allocation(call, "device");
    return status;
}

static int malloc_3d(struct cudaPitchedPtr *out, struct cudaExtent extent) {
    void *p;
    size_t pitch = 0, rows;
    if (!out || __builtin_mul_overflow(extent.height, extent.depth, &rows))
        return SD_INVALID_VALUE;
    int status = pitched_malloc(&p, &pitch, extent.width, rows);
    if (!status)
        *out = (struct cudaPitchedPtr){p, pitch, extent.width, extent.height};
    return status;
}

CUDART(cudaMalloc3D, (struct cudaPitchedPtr * pitchedDevPtr, struct cudaExtent extent),
       (pitchedDevPtr, extent)) {
    int status = ATTEMPT(malloc_3d(pitchedDevPtr, extent));
    struct cudaPitchedPtr got = status ? (struct cudaPitchedPtr){0} : *pitchedDevPtr;
    PUT("ptr", (uintptr_t)got.ptr);
    PUT("size", got.pitch * extent.height * extent.depth);
    PUT("pitch", got.pitch);
    PUT("width", extent.width);
    PUT("height", extent.height);
    PUT("depth", extent.depth);
    put_allocation(call, "device");
    return status;
}

CUDART(cudaMallocManaged, (void **devPtr, size_t size, unsigned int flags), (devPtr, size, flags)) {
    int status = ATTEMPT(devPtr ? sd_malloc_managed(size, flags, devPtr) : SD_INVALID_VALUE);
    PUT_OUT("ptr", devPtr);
    PUT("size", size);
    PUT("flags", flags);
    put_allocation(call, "managed");
    return status;
}

CUDART_TWIN(cudaMallocAsync, _ptsz, (void **devPtr, size_t size, cudaStream_t hStream),
            (devPtr, size, hStream)) {
    bool in_graph = false;
    int status =
        ATTEMPT(devPtr ? sd_malloc_async(size, NULL, hStream, call->per_thread, devPtr, &in_graph)
                       : SD_INVALID_VALUE);
    PUT_OUT("ptr", devPtr);
    PUT("size", size);
    PUT("stream", (uintptr_t)hStream);
    put_allocation(call, in_graph ? "graph" : "async");
    return status;
}

CUDART_TWIN(cudaMallocFromPoolAsync, _ptsz,
            (void **ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
            (ptr, size, memPool, stream)) {
    bool in_graph = false;
    int status = ATTEMPT(
        ptr && memPool ? sd_malloc_async(size, memPool, stream, call->per_thread, ptr, &in_graph)
                       : SD_INVALID_VALUE);
    PUT_OUT("ptr", ptr);
    PUT("size", size);
    PUT("pool", (uintptr_t)memPool);
    PUT("stream", (uintptr_t)stream);
    put_allocation(call, in_graph ? "graph" : "async");
    return status;
}

CUDART(cudaMallocHost, (void **ptr, size_t size), (ptr, size)) {
    int status = ATTEMPT(ptr ? sd_malloc_host(size, 0, ptr) : SD_INVALID_VALUE);
    PUT_OUT("ptr", ptr);
    PUT("size", size);
    put_allocation(call, "pinned");
    return status;
}

CUDART(cudaHostAlloc, (void **pHost, size_t size, unsigned int flags), (pHost, size, flags)) {
    int status = ATTEMPT(pHost ? sd_malloc_host(size, flags, pHost) : SD_INVALID_VALUE);
    PUT_OUT("ptr", pHost);
    PUT("size", size);
    PUT("flags", flags);
    put_allocation(call, "pinned");
    return status;
}

CUDART(cudaHostRegister, (void *ptr, size_t size, unsigned int flags), (ptr, size, flags)) {
    int status = ATTEMPT(sd_register(ptr, size, flags));
    PUT("ptr", (uintptr_t)ptr);
    PUT("size", size);
    PUT("flags", flags);
    put_allocation(call, "registered");
    return status;
}

CUDART(cudaHostUnregister, (void *ptr), (ptr)) {
    struct freed freed = {0};
    int status = ATTEMPT(sd_unregister(ptr, &freed));
    PUT("ptr", (uintptr_t)ptr);
    put_freed(call, &freed);
    return status;
}

CUDART(cudaFree, (void *devPtr), (devPtr)) {
    struct freed freed = {0};
    int status = ATTEMPT(sd_free(devPtr, &freed));
    PUT("ptr", (uintptr_t)devPtr);
    put_freed(call, &freed);
    return status;
}

CUDART_TWIN(cudaFreeAsync, _ptsz, (void *devPtr, cudaStream_t hStream), (devPtr, hStream)) {
    struct freed freed = {0};
    int status = ATTEMPT(sd_free_async(devPtr, hStream, call->per_thread, &freed));
    PUT("ptr", (uintptr_t)devPtr);
    PUT("stream", (uintptr_t)hStream);
    put_freed(call, &freed);
    return status;
}

CUDART(cudaFreeHost, (void *ptr), (ptr)) {
    struct freed freed = {0};
    int status = ATTEMPT(sd_free_host(ptr, &freed));
    PUT("ptr", (uintptr_t)ptr);
    put_freed(call, &freed);
    return status;
}

static int mem_info(size_t *available, size_t *total) {
    uint64_t a, t;
    if (!available || !total)
        return SD_INVALID_VALUE;
    int status = sd_mem_info(&a, &t);
    if (!status) {
        *available = a;
        *total = t;
    }
    return status;
}

/* The parameter is called `free` in the header; a library function here. */
CUDART(cudaMemGetInfo, (size_t * available, size_t *total), (available, total)) {
    int status = ATTEMPT(mem_info(available, total));
    PUT("free", OUT(available));
    PUT("total", OUT(total));
    PUT_DEVICE();
    return status;
}

/* ---- what lies at an address ---------------------------------------------------------------- */

/* CUDA 13 has room for later fields at the end, which programs built for 12 do not give. */
#define POINTER_ATTRIBUTES_SIZE (CUDA_MAJOR >= 13 ? sizeof(struct cudaPointerAttributes) : 24)

static int pointer_attributes(struct standin_call *call, struct cudaPointerAttributes *out,
                              const void *ptr) {
    if (!out || !ptr)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    /* Real CUDA allows this during a capture. layoutspy promises to add no call to one, and calls
     * of this function that return into it are its own: it is held to the promise. */
    if (sd_truth_by(call->caller) == TRUTH_LAYOUTSPY && (status = sd_capture_refuses()) != SD_OK)
        return sd_end_with(status);
    memset(out, 0, POINTER_ATTRIBUTES_SIZE);
    out->device = -2; /* cudaInvalidDeviceId */
    struct memory *m = sd_memory_find(ptr);
    if (m) {
        bool host = m->kind == STANDIN_PINNED || m->kind == STANDIN_REGISTERED;
        bool managed = m->kind == STANDIN_MANAGED;
        out->type = managed ? cudaMemoryTypeManaged
                    : host  ? cudaMemoryTypeHost
                            : cudaMemoryTypeDevice;
        out->device = m->device;
        out->devicePointer = (void *)(uintptr_t)ptr;
        out->hostPointer = host || managed ? (void *)(uintptr_t)ptr : NULL;
    }
    return sd_end_with(SD_OK);
}

CUDART(cudaPointerGetAttributes, (struct cudaPointerAttributes * attributes, const void *ptr),
       (attributes, ptr)) {
    int status = ATTEMPT(pointer_attributes(call, attributes, ptr));
    PUT("ptr", (uintptr_t)ptr);
    PUT("type", status ? 0 : attributes->type);
    return status;
}

static int host_flags(unsigned *flags, const void *ptr) {
    if (!flags)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    struct memory *m = sd_memory_find(ptr);
    if (!m || (m->kind != STANDIN_PINNED && m->kind != STANDIN_REGISTERED))
        return sd_end_with(SD_INVALID_VALUE);
    *flags = m->flags | 2; /* mapped, as unified addressing has it */
    return sd_end_with(SD_OK);
}

CUDART(cudaHostGetFlags, (unsigned int *pFlags, void *pHost), (pFlags, pHost)) {
    return ATTEMPT(host_flags(pFlags, pHost));
}

static int device_pointer(void **out, void *host, unsigned flags) {
    unsigned ignored;
    if (!out || flags)
        return SD_INVALID_VALUE;
    int status = host_flags(&ignored, host);
    *out = status ? NULL : host;
    return status;
}

CUDART(cudaHostGetDevicePointer, (void **pDevice, void *pHost, unsigned int flags),
       (pDevice, pHost, flags)) {
    return ATTEMPT(device_pointer(pDevice, pHost, flags));
}

/* ---- hints on managed memory: checked, then ignored ----------------------------------------- */

static int managed_range(const void *ptr, size_t size) {
    struct span span;
    int status = sd_begin();
    if (status)
        return status;
    bool fits = size && sd_memory_span(ptr, size, &span) && span.kind == STANDIN_MANAGED;
    return sd_end_with(fits ? SD_OK : SD_INVALID_VALUE);
}

#if CUDA_MAJOR >= 13
CUDART_TWIN(cudaMemPrefetchAsync, _ptsz,
            (const void *devPtr, size_t count, struct cudaMemLocation location, unsigned int flags,
             cudaStream_t stream),
            (devPtr, count, location, flags, stream)) {
    (void)location, (void)flags, (void)stream;
    return ATTEMPT(managed_range(devPtr, count));
}

CUDART(cudaMemAdvise,
       (const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
        struct cudaMemLocation location),
       (devPtr, count, advice, location)) {
    (void)advice, (void)location;
    return ATTEMPT(managed_range(devPtr, count));
}
#else
CUDART_TWIN(cudaMemPrefetchAsync, _ptsz,
            (const void *devPtr, size_t count, int dstDevice, cudaStream_t stream),
            (devPtr, count, dstDevice, stream)) {
    (void)dstDevice, (void)stream;
    return ATTEMPT(managed_range(devPtr, count));
}

CUDART(cudaMemAdvise, (const void *devPtr, size_t count, enum cudaMemoryAdvise advice, int device),
       (devPtr, count, advice, device)) {
    (void)advice, (void)device;
    return ATTEMPT(managed_range(devPtr, count));
}
#endif

CUDART_TWIN(cudaStreamAttachMemAsync, _ptsz,
            (cudaStream_t stream, void *devPtr, size_t length, unsigned int flags),
            (stream, devPtr, length, flags)) {
    (void)stream, (void)length, (void)flags;
    return ATTEMPT(managed_range(devPtr, 1));
}
