/*
 * cudart_mipmap.c - mipmapped arrays, as the runtime's functions. See cudart.h and array.h.
 *
 * In the log the mipmapped array is one allocation, whose `size` is that of all levels; a level is
 * no allocation of its own.
 */
#include "cudart.h"

#include "array.h"
#include "capture.h"
#include "handles.h"

static int new_mipmap(cudaMipmappedArray_t *out, const struct cudaChannelFormatDesc *desc,
                      struct cudaExtent extent, unsigned levels, unsigned flags, uint64_t *bytes) {
    struct device *device;
    struct mipmap *mipmap = NULL;
    if (!out || !desc)
        return SD_INVALID_VALUE;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    status = sd_capture_refuses();
    if (!status)
        status = sd_mipmap_new(device, (int[]){desc->x, desc->y, desc->z, desc->w}, (int)desc->f,
                               (uint64_t[]){extent.width, extent.height, extent.depth}, levels,
                               flags, &mipmap);
    if (!status) {
        *out = (cudaMipmappedArray_t)mipmap;
        *bytes = sd_mipmap_bytes(mipmap);
    }
    return sd_end_with(status);
}

CUDART(cudaMallocMipmappedArray,
       (cudaMipmappedArray_t * mipmappedArray, const struct cudaChannelFormatDesc *desc,
        struct cudaExtent extent, unsigned int numLevels, unsigned int flags),
       (mipmappedArray, desc, extent, numLevels, flags)) {
    uint64_t bytes = 0;
    int status = ATTEMPT(new_mipmap(mipmappedArray, desc, extent, numLevels, flags, &bytes));
    PUT_OUT("ptr", mipmappedArray);
    PUT("width", extent.width);
    PUT("height", extent.height);
    PUT("depth", extent.depth);
    PUT("format",
        desc ? (unsigned)(desc->x | desc->y << 8 | desc->z << 16) | (unsigned)desc->w << 24 : 0);
    PUT("flags", flags);
    PUT("levels", numLevels);
    PUT("size", bytes);
    PUT_DEVICE();
    standin_put_text(call, "memory", "array");
    return status;
}

static int level_of(cudaArray_t *out, const void *handle, unsigned level) {
    if (!out)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    const struct mipmap *m = sd_handle(handle, HANDLE_MIPMAP);
    if (!m)
        return sd_end_with(SD_INVALID_HANDLE);
    if (level >= m->count)
        return sd_end_with(SD_INVALID_VALUE);
    *out = (cudaArray_t)m->level[level];
    return sd_end_with(SD_OK);
}

CUDART(cudaGetMipmappedArrayLevel,
       (cudaArray_t * levelArray, cudaMipmappedArray_const_t mipmappedArray, unsigned int level),
       (levelArray, mipmappedArray, level)) {
    int status = ATTEMPT(level_of(levelArray, mipmappedArray, level));
    PUT_OUT("array", levelArray);
    PUT("ptr", (uintptr_t)mipmappedArray);
    PUT("level", level);
    PUT_DEVICE();
    return status;
}

static int free_mipmap(cudaMipmappedArray_t handle, uint64_t *bytes) {
    int status = sd_begin();
    if (status)
        return status;
    status = sd_capture_refuses();
    if (status || !handle)
        return sd_end_with(status);
    struct mipmap *m = sd_handle(handle, HANDLE_MIPMAP);
    if (!m)
        return sd_end_with(SD_INVALID_HANDLE);
    sd_device_wait(sd_device(m->level[0]->memory->device));
    *bytes = sd_mipmap_bytes(m);
    sd_mipmap_delete(m);
    return sd_end_with(SD_OK);
}

CUDART(cudaFreeMipmappedArray, (cudaMipmappedArray_t mipmappedArray), (mipmappedArray)) {
    uint64_t bytes = 0;
    int status = ATTEMPT(free_mipmap(mipmappedArray, &bytes));
    PUT("ptr", (uintptr_t)mipmappedArray);
    if (bytes) {
        standin_put_text(call, "memory", "array");
        PUT("size", bytes);
    }
    PUT_DEVICE();
    return status;
}
