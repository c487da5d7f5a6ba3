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

static int reserve(CUdeviceptr *ptr, size_t size, size_t alignment, unsigned long long flags) {
    uint64_t start = 0;
    if (!ptr || flags)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    status = sd_vmm_reserve(size, alignment, &start);
    if (!status)
        *ptr = start;
    return sd_end_with(status);
}

DRIVER_LOGGED(cuMemAddressReserve,
              (CUdeviceptr * ptr, size_t size, size_t alignment, CUdeviceptr addr,
               unsigned long long flags),
              (ptr, size, alignment, addr, flags)) {
    (void)addr; /* a wish */
    int status = ATTEMPT(reserve(ptr, size, alignment, flags));
    PUT("ptr", status ? 0 : *ptr);
    PUT("size", size);
    return status;
}

static int unreserve(CUdeviceptr ptr, size_t size) {
    int status = sd_begin();
    return status ? status : sd_end_with(sd_vmm_unreserve(ptr, size));
}

DRIVER_LOGGED(cuMemAddressFree, (CUdeviceptr ptr, size_t size), (ptr, size)) {
    PUT("ptr", ptr);
    PUT("size", size);
    return ATTEMPT(unreserve(ptr, size));
}

static int create(CUmemGenericAllocationHandle *handle, size_t size,
                  const CUmemAllocationProp *prop, unsigned long long flags) {
    struct device *device;
    struct physical *physical = NULL;
    if (!handle || !prop || flags || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        (int)prop->type != 1)
        return SD_INVALID_VALUE;
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

DRIVER_LOGGED(cuMemCreate,
              (CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp *prop,
               unsigned long long flags),
              (handle, size, prop, flags)) {
    int status = ATTEMPT(create(handle, size, prop, flags));
    PUT("handle", status ? 0 : *handle);
    PUT("size", size);
    standin_put_signed(
        call, "device",
        prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? prop->location.id : 0);
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

static int release(CUmemGenericAllocationHandle handle) {
    struct physical *physical;
    int status = begin_physical(handle, &physical);
    return status ? status : sd_end_with(sd_vmm_release(physical));
}

DRIVER_LOGGED(cuMemRelease, (CUmemGenericAllocationHandle handle), (handle)) {
    PUT("handle", handle);
    return ATTEMPT(release(handle));
}

static int map(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
               unsigned long long flags, int *device) {
    struct physical *physical;
    if (flags)
        return SD_INVALID_VALUE;
    int status = begin_physical(handle, &physical);
    if (status)
        return status;
    *device = physical->device->ordinal;
    return sd_end_with(sd_vmm_map(ptr, size, offset, physical));
}

/* A mapping's lifetime is what the trace calls an allocation of kind vmm: `device` is its. */
DRIVER_LOGGED(cuMemMap,
              (CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
               unsigned long long flags),
              (ptr, size, offset, handle, flags)) {
    int device = sd_current_ordinal();
    int status = ATTEMPT(map(ptr, size, offset, handle, flags, &device));
    PUT("ptr", ptr);
    PUT("size", size);
    PUT("offset", offset);
    PUT("handle", handle);
    standin_put_signed(call, "device", device);
    standin_put_text(call, "memory", "vmm");
    return status;
}

static int unmap(CUdeviceptr ptr, size_t size, int *device) {
    int status = sd_begin();
    if (status)
        return status;
    for (int i = 0; i < standin_device_count(); i++) /* no work may meet it later */
        if (sd_device(i)->context)
            sd_device_wait(sd_device(i));
    return sd_end_with(sd_vmm_unmap(ptr, size, device));
}

DRIVER_LOGGED(cuMemUnmap, (CUdeviceptr ptr, size_t size), (ptr, size)) {
    int device = sd_current_ordinal();
    int status = ATTEMPT(unmap(ptr, size, &device));
    PUT("ptr", ptr);
    PUT("size", size);
    standin_put_signed(call, "device", device);
    standin_put_text(call, "memory", "vmm");
    return status;
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
