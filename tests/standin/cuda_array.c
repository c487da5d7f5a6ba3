/*
 * cuda_array.c - the driver's arrays. See driver.h and array.h.
 */
#include "driver.h"

#include "alloc.h"
#include "array.h"
#include "capture.h"
#include "handles.h"
#include "stream.h"

/* A CUarray_format as bits of a channel and cudaChannelFormatKind; 0 bits for one that is none. */
static int bits_of(int format, int *kind) {
    static const struct {
        unsigned char format, bits, kind;
    } known[] = {{0x01, 8, 1},  {0x02, 16, 1}, {0x03, 32, 1}, {0x08, 8, 0},
                 {0x09, 16, 0}, {0x0a, 32, 0}, {0x10, 16, 2}, {0x20, 32, 2}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].format == format) {
            *kind = known[i].kind;
            return known[i].bits;
        }
    return 0;
}

/* As the runtime's rows have it: the bits of each channel in a byte. */
static unsigned packed(const CUDA_ARRAY3D_DESCRIPTOR *d) {
    int kind, bits = bits_of((int)d->Format, &kind);
    unsigned format = 0;
    for (unsigned i = 0; i < d->NumChannels && i < 4; i++)
        format |= (unsigned)bits << (8 * i);
    return format;
}

static int create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d) {
    struct device *device;
    struct array *array = NULL;
    int bits[4] = {0}, kind = 0, one = bits_of((int)d->Format, &kind);
    if (!out || !one || !d->NumChannels || d->NumChannels > 4)
        return SD_INVALID_VALUE;
    for (unsigned i = 0; i < d->NumChannels; i++)
        bits[i] = one;
    int status = sd_driver_begin(&device);
    if (status)
        return status;
    status = sd_capture_refuses();
    if (!status)
        status = sd_array_new(device, bits, kind, d->Width, d->Height, d->Depth, d->Flags, &array);
    if (!status)
        *out = (CUarray)array;
    return sd_end_with(status);
}

static int put_array(struct standin_call *call, int status, const CUarray *out,
                     const CUDA_ARRAY3D_DESCRIPTOR *d) {
    PUT("ptr", status ? 0 : (uintptr_t)*out);
    PUT("width", d->Width);
    PUT("height", d->Height);
    PUT("depth", d->Depth);
    PUT("format", packed(d));
    PUT("flags", d->Flags);
    PUT_DEVICE();
    standin_put_text(call, "memory", "array");
    return status;
}

static const CUDA_ARRAY3D_DESCRIPTOR nothing;

DRIVER_LOGGED(cuArrayCreate_v2, (CUarray * pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray),
              (pHandle, pAllocateArray)) {
    const CUDA_ARRAY_DESCRIPTOR *a = pAllocateArray;
    CUDA_ARRAY3D_DESCRIPTOR d = nothing;
    if (a)
        d = (CUDA_ARRAY3D_DESCRIPTOR){.Width = a->Width,
                                      .Height = a->Height,
                                      .Format = a->Format,
                                      .NumChannels = a->NumChannels};
    int status = ATTEMPT(a ? create(pHandle, &d) : SD_INVALID_VALUE);
    return put_array(call, status, pHandle, &d);
}

DRIVER_LOGGED(cuArray3DCreate_v2,
              (CUarray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray),
              (pHandle, pAllocateArray)) {
    int status = ATTEMPT(pAllocateArray ? create(pHandle, pAllocateArray) : SD_INVALID_VALUE);
    return put_array(call, status, pHandle, pAllocateArray ? pAllocateArray : &nothing);
}

static int destroy(CUarray handle, struct freed *out) {
    int status = sd_begin();
    if (status)
        return status;
    status = sd_capture_refuses();
    struct array *array = sd_handle(handle, HANDLE_ARRAY);
    if (status || !array || array->mipmap)
        return sd_end_with(status ? status : SD_INVALID_HANDLE);
    sd_device_wait(sd_device(array->memory->device));
    *out = (struct freed){.known = true, .kind = STANDIN_ARRAY, .size = sd_array_bytes(array)};
    sd_array_delete(array);
    return sd_end_with(SD_OK);
}

DRIVER_LOGGED(cuArrayDestroy, (CUarray hArray), (hArray)) {
    struct freed freed = {0};
    int status = ATTEMPT(destroy(hArray, &freed));
    PUT("ptr", (uintptr_t)hArray);
    if (freed.known) {
        standin_put_text(call, "memory", "array");
        PUT("size", freed.size);
    }
    PUT_DEVICE();
    return status;
}
