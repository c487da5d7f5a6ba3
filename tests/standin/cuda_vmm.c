/*
 * cuda_vmm.c - virtual memory management as the driver's functions. See driver.h and vmm.h.
 */
#include "driver.h"

#include "handles.h"
#include "stream.h"
#include "vmm.h"

DRIVER(cuMemGetAllocationGranularity,
       (size_t * granularity, const CUmemAllocationProp *prop,
        CUmemAllocationGranularity_flags option),
       (granularity, prop, option)) {
    (void)option;
    if (!granularity || !prop)
        return SD_INVALID_VALUE;
    *granularity = VMM_GRANULARITY;
    return SD_OK;
}

DRIVER(cuMemAddressReserve,
       (CUdeviceptr * ptr, size_t size, size_t alignment, CUdeviceptr addr,
        unsigned long long flags),
       (ptr, size, alignment, addr, flags)) {
    uint64_t start = 0;
    (void)addr; /* a wish */
    if (!ptr || flags)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    status = sd_end_with(sd_vmm_reserve(size, alignment, &start));
    if (!status)
        *ptr = start;
    PUT("ptr", start);
    PUT("size", size);
    return status;
}

DRIVER(cuMemAddressFree, (CUdeviceptr ptr, size_t size), (ptr, size)) {
    int status = sd_begin();
    PUT("ptr", ptr);
    PUT("size", size);
    return status ? status : sd_end_with(sd_vmm_unreserve(ptr, size));
}

static int create(CUmemGenericAllocationHandle *handle, size_t size,
                  const CUmemAllocationProp *prop) {
    struct device *device;
    struct physical *physical = NULL;
    int status = sd_begin();
    if (status)
        return status;
    status = sd_device_context(prop->location.id, &device);
    if (!status)
        status = sd_vmm_create(device, size, &physical);
    if (!status)
        *handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
    return sd_end_with(status);
}

DRIVER(cuMemCreate,
       (CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp *prop,
        unsigned long long flags),
       (handle, size, prop, flags)) {
    if (!handle || !prop || flags || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (int)prop->type != 1)
        return SD_INVALID_VALUE;
    int status = create(handle, size, prop);
    PUT("handle", status ? 0 : *handle);
    PUT("size", size);
    standin_put_signed(call, "device", prop->location.id);
    return status;
}

/* The physical memory behind a handle, with the lock held on status 0. */
static int begin_physical(CUmemGenericAllocationHandle handle, struct physical **out) {
    int status = sd_begin();
    if (status)
        return status;
    *out = sd_handle(AT(handle), HANDLE_PHYSICAL);
    return *out ? SD_OK : sd_end_with(SD_INVALID_VALUE);
}

DRIVER(cuMemRelease, (CUmemGenericAllocationHandle handle), (handle)) {
    struct physical *physical;
    int status = begin_physical(handle, &physical);
    PUT("handle", handle);
    return status ? status : sd_end_with(sd_vmm_release(physical));
}

DRIVER(cuMemMap,
       (CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
        unsigned long long flags),
       (ptr, size, offset, handle, flags)) {
    struct physical *physical;
    PUT("ptr", ptr);
    PUT("size", size);
    PUT("handle", handle);
    if (flags)
        return SD_INVALID_VALUE;
    int status = begin_physical(handle, &physical);
    return status ? status : sd_end_with(sd_vmm_map(ptr, size, offset, physical));
}

DRIVER(cuMemUnmap, (CUdeviceptr ptr, size_t size), (ptr, size)) {
    int status = sd_begin();
    PUT("ptr", ptr);
    PUT("size", size);
    if (status)
        return status;
    for (int i = 0; i < standin_device_count(); i++) /* no work may meet it later */
        if (sd_device(i)->context)
            sd_device_wait(sd_device(i));
    return sd_end_with(sd_vmm_unmap(ptr, size));
}

DRIVER(cuMemSetAccess, (CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count),
       (ptr, size, desc, count)) {
    PUT("ptr", ptr);
    PUT("size", size);
    if (!desc || !count)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    return status ? status : sd_end_with(sd_vmm_set_access(ptr, size));
}

DRIVER(cuMemGetAccess, (unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr),
       (flags, location, ptr)) {
    if (!flags || !location)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    *flags = 3; /* read and write */
    return sd_end_with(sd_vmm_reserved(AT(ptr)) ? SD_OK : SD_INVALID_VALUE);
}

DRIVER(cuMemGetAllocationPropertiesFromHandle,
       (CUmemAllocationProp * prop, CUmemGenericAllocationHandle handle), (prop, handle)) {
    struct physical *physical;
    if (!prop)
        return SD_INVALID_VALUE;
    int status = begin_physical(handle, &physical);
    if (status)
        return status;
    *prop =
        (CUmemAllocationProp){.type = (CUmemAllocationType)1,
                              .location = {CU_MEM_LOCATION_TYPE_DEVICE, physical->device->ordinal}};
    return sd_end_with(SD_OK);
}
