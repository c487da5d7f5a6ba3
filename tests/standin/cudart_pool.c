/*
 * cudart_pool.c - memory pools as the runtime's functions. See cudart.h and pool.h.
 */
#include "cudart.h"

#include <string.h>

#include "alloc.h"
#include "handles.h"
#include "pool.h"

static int pool_of_device(cudaMemPool_t *out, int ordinal, bool current) {
    return out ? sd_mem_pool_of(ordinal, current, (void **)out) : SD_INVALID_VALUE;
}

CUDART(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * memPool, int device), (memPool, device)) {
    return ATTEMPT(pool_of_device(memPool, device, false));
}

CUDART(cudaDeviceGetMemPool, (cudaMemPool_t * memPool, int device), (memPool, device)) {
    return ATTEMPT(pool_of_device(memPool, device, true));
}

static int set_pool(int ordinal, cudaMemPool_t handle) {
    struct device *device;
    int status = sd_begin();
    if (status)
        return status;
    status = sd_device_context(ordinal, &device);
    struct pool *pool = sd_handle(handle, HANDLE_POOL);
    if (!status && (!pool || pool->device != device))
        status = SD_INVALID_VALUE;
    if (!status)
        device->current_pool = pool;
    return sd_end_with(status);
}

CUDART(cudaDeviceSetMemPool, (int device, cudaMemPool_t memPool), (device, memPool)) {
    int status = ATTEMPT(set_pool(device, memPool));
    PUT_INT("device", device);
    PUT("pool", (uintptr_t)memPool);
    return status;
}

static int new_pool(cudaMemPool_t *out, const struct cudaMemPoolProps *props) {
    if (!out || !props || props->allocType != 1 ||
        props->location.type != cudaMemLocationTypeDevice)
        return SD_INVALID_VALUE;
    return sd_mem_pool_make(props->location.id, (void **)out);
}

CUDART(cudaMemPoolCreate, (cudaMemPool_t * memPool, const struct cudaMemPoolProps *poolProps),
       (memPool, poolProps)) {
    int status = ATTEMPT(new_pool(memPool, poolProps));
    PUT_OUT("pool", memPool);
    PUT_INT("device", poolProps && poolProps->location.type == cudaMemLocationTypeDevice
                          ? poolProps->location.id
                          : 0);
    return status;
}

CUDART(cudaMemPoolDestroy, (cudaMemPool_t memPool), (memPool)) {
    int status = ATTEMPT(sd_mem_pool_destroy(memPool));
    PUT("pool", (uintptr_t)memPool);
    return status;
}

CUDART(cudaMemPoolTrimTo, (cudaMemPool_t memPool, size_t minBytesToKeep),
       (memPool, minBytesToKeep)) {
    int status = ATTEMPT(sd_mem_pool_trim(memPool, minBytesToKeep));
    PUT("pool", (uintptr_t)memPool);
    PUT("size", minBytesToKeep);
    return status;
}

CUDART(cudaMemPoolSetAttribute, (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
       (memPool, attr, value)) {
    int status = ATTEMPT(sd_mem_pool_set(memPool, (int)attr, value));
    PUT("pool", (uintptr_t)memPool);
    PUT("attr", attr);
    return status;
}

CUDART(cudaMemPoolGetAttribute, (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
       (memPool, attr, value)) {
    int status = ATTEMPT(sd_mem_pool_get(memPool, (int)attr, value));
    PUT("pool", (uintptr_t)memPool);
    PUT("attr", attr);
    PUT("value", status || !value ? 0
                 : attr >= 4      ? *(const uint64_t *)value
                                  : *(const uint32_t *)value);
    return status;
}

/* The pool behind a handle, with the lock held on status 0. */
static int begin_pool(cudaMemPool_t handle, struct pool **out) {
    int status = sd_begin();
    if (status)
        return status;
    *out = sd_handle(handle, HANDLE_POOL);
    return *out ? SD_OK : sd_end_with(SD_INVALID_VALUE);
}

/* Peers reach each other's pools anyway; the handle is checked. */
static int access_of(cudaMemPool_t handle, const void *needed) {
    struct pool *pool;
    if (!needed)
        return SD_INVALID_VALUE;
    int status = begin_pool(handle, &pool);
    return status ? status : sd_end_with(SD_OK);
}

CUDART(cudaMemPoolSetAccess,
       (cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList, size_t count),
       (memPool, descList, count)) {
    (void)count;
    return ATTEMPT(access_of(memPool, descList));
}

CUDART(cudaMemPoolGetAccess,
       (enum cudaMemAccessFlags * flags, cudaMemPool_t memPool, struct cudaMemLocation *location),
       (flags, memPool, location)) {
    int status = ATTEMPT(flags ? access_of(memPool, location) : SD_INVALID_VALUE);
    if (!status)
        *flags = (enum cudaMemAccessFlags)3; /* read and write */
    return status;
}
