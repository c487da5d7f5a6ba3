/*
 * cudart_pool.c - memory pools as the runtime's functions. See cudart.h and pool.h.
 */
#include "cudart.h"

#include <string.h>

#include "handles.h"
#include "pool.h"

static int pool_of_device(cudaMemPool_t *out, int ordinal, bool current) {
    struct device *device;
    if (!out)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    status = sd_device_context(ordinal, &device);
    if (!status)
        *out = (cudaMemPool_t)(current ? device->current_pool : device->default_pool);
    return sd_end_with(status);
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
    struct device *device;
    if (!out || !props || props->allocType != 1 ||
        props->location.type != cudaMemLocationTypeDevice)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    status = sd_device_context(props->location.id, &device);
    if (!status)
        *out = (cudaMemPool_t)sd_pool_new(device);
    return sd_end_with(status);
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

/* The pool behind a handle, with the lock held on status 0. */
static int begin_pool(cudaMemPool_t handle, struct pool **out) {
    int status = sd_begin();
    if (status)
        return status;
    *out = sd_handle(handle, HANDLE_POOL);
    return *out ? SD_OK : sd_end_with(SD_INVALID_VALUE);
}

static int destroy(cudaMemPool_t handle) {
    struct pool *pool;
    int status = begin_pool(handle, &pool);
    return status ? status : sd_end_with(sd_pool_delete(pool));
}

CUDART(cudaMemPoolDestroy, (cudaMemPool_t memPool), (memPool)) {
    int status = ATTEMPT(destroy(memPool));
    PUT("pool", (uintptr_t)memPool);
    return status;
}

static int trim(cudaMemPool_t handle, size_t keep) {
    struct pool *pool;
    int status = begin_pool(handle, &pool);
    if (status)
        return status;
    sd_pool_trim(pool, keep);
    return sd_end_with(SD_OK);
}

CUDART(cudaMemPoolTrimTo, (cudaMemPool_t memPool, size_t minBytesToKeep),
       (memPool, minBytesToKeep)) {
    int status = ATTEMPT(trim(memPool, minBytesToKeep));
    PUT("pool", (uintptr_t)memPool);
    PUT("size", minBytesToKeep);
    return status;
}

/* cudaMemPoolAttr: 1 to 3 are ints that switch reuse, 4 to 8 are 64-bit sizes. */
static uint64_t *size_attribute(struct pool *pool, int number) {
    switch (number) {
    case 4:
        return &pool->threshold;
    case 5:
        return &pool->reserved;
    case 6:
        return &pool->reserved_high;
    case 7:
        return &pool->used;
    case 8:
        return &pool->used_high;
    default:
        return NULL;
    }
}

static int set_attribute(cudaMemPool_t handle, int number, const void *value) {
    struct pool *pool;
    int status = begin_pool(handle, &pool);
    if (status)
        return status;
    uint64_t *size = size_attribute(pool, number), wanted;
    if (!value || (!size && (number < 1 || number > 3)) || number == 5 || number == 7)
        return sd_end_with(SD_INVALID_VALUE);
    if (!size) {
        memcpy(&pool->reuse[number - 1], value, sizeof(int));
        return sd_end_with(SD_OK);
    }
    memcpy(&wanted, value, sizeof wanted);
    if (number == 4)
        *size = wanted;
    else if (wanted == 0) /* a high-water mark can only be reset */
        *size = number == 6 ? pool->reserved : pool->used;
    else
        return sd_end_with(SD_INVALID_VALUE);
    return sd_end_with(SD_OK);
}

CUDART(cudaMemPoolSetAttribute, (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
       (memPool, attr, value)) {
    int status = ATTEMPT(set_attribute(memPool, (int)attr, value));
    PUT("pool", (uintptr_t)memPool);
    PUT("attr", attr);
    return status;
}

static int get_attribute(cudaMemPool_t handle, int number, void *value) {
    struct pool *pool;
    int status = begin_pool(handle, &pool);
    if (status)
        return status;
    const uint64_t *size = size_attribute(pool, number);
    if (!value || (!size && (number < 1 || number > 3)))
        return sd_end_with(SD_INVALID_VALUE);
    if (size)
        memcpy(value, size, sizeof *size);
    else
        memcpy(value, &pool->reuse[number - 1], sizeof(int));
    return sd_end_with(SD_OK);
}

CUDART(cudaMemPoolGetAttribute, (cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value),
       (memPool, attr, value)) {
    int status = ATTEMPT(get_attribute(memPool, (int)attr, value));
    PUT("pool", (uintptr_t)memPool);
    PUT("attr", attr);
    PUT("value", status || !value ? 0
                 : attr >= 4      ? *(const uint64_t *)value
                                  : *(const uint32_t *)value);
    return status;
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
