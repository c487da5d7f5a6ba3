/*
 * cuda_device.c - the driver's devices, versions and errors. See driver.h and properties.h.
 */
#include "driver.h"

#include <stdio.h>
#include <string.h>

#include "properties.h"

static int initialize(unsigned flags) {
    int status = flags ? SD_INVALID_VALUE : sd_begin();
    return status ? status : sd_end_with(standin_device_count() ? SD_OK : SD_NO_DEVICE);
}

/* cuInit is the call that makes the driver "used". */
CUresult cuInit(unsigned int Flags);
STANDIN_EXPORT CUresult cuInit(unsigned int Flags) {
    struct standin_call call;
    standin_enter(&call, "cuInit", __builtin_return_address(0));
    sd_inject_before(&call);
    int status;
    TAP(SD_DOMAIN_DRIVER, "cuInit", (unsigned int Flags), (Flags), status,
        call.fault ? call.fault : initialize(Flags))
    return (CUresult)standin_leave(&call, status);
}

/* These three work before cuInit. */
CUresult cuDriverGetVersion(int *driverVersion);
STANDIN_EXPORT CUresult cuDriverGetVersion(int *driverVersion) {
    struct standin_call call;
    standin_enter(&call, "cuDriverGetVersion", __builtin_return_address(0));
    int status = call.fault ? call.fault : driverVersion ? SD_OK : SD_INVALID_VALUE;
    if (!status)
        *driverVersion = standin_cuda_version();
    TAP(SD_DOMAIN_DRIVER, "cuDriverGetVersion", (int *driverVersion), (driverVersion), status,
        status)
    return (CUresult)standin_leave(&call, status);
}

/* The driver's names and texts differ from the runtime's; these are those that programs print. */
static const struct {
    int status;
    const char *name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {301, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static int tell_error(int error, const char **out, bool name) {
    if (!out)
        return SD_INVALID_VALUE;
    *out = NULL;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].status == error)
            *out = name ? errors[i].name : errors[i].text;
    return *out ? SD_OK : SD_INVALID_VALUE;
}

#define ERROR_TEXT(symbol, is_name)                                                                \
    CUresult symbol(CUresult error, const char **pStr);                                            \
    STANDIN_EXPORT CUresult symbol(CUresult error, const char **pStr) {                            \
        int status = tell_error((int)error, pStr, is_name);                                        \
        standin_log(#symbol, status, __builtin_return_address(0), NULL);                           \
        return (CUresult)status;                                                                   \
    }
ERROR_TEXT(cuGetErrorName, true)
ERROR_TEXT(cuGetErrorString, false)

DRIVER(cuDeviceGetCount, (int *count), (count)) {
    if (!count)
        return SD_INVALID_VALUE;
    *count = standin_device_count();
    return SD_OK;
}

DRIVER(cuDeviceGet, (CUdevice * device, int ordinal), (device, ordinal)) {
    if (!device)
        return SD_INVALID_VALUE;
    if (!sd_device(ordinal))
        return SD_INVALID_DEVICE;
    *device = ordinal;
    return SD_OK;
}

static int check(CUdevice dev, const void *out) {
    return !out ? SD_INVALID_VALUE : sd_device(dev) ? SD_OK : SD_INVALID_DEVICE;
}

DRIVER(cuDeviceGetName, (char *name, int len, CUdevice dev), (name, len, dev)) {
    int status = len > 0 ? check(dev, name) : SD_INVALID_VALUE;
    if (!status)
        snprintf(name, (size_t)len, SD_DEVICE_NAME);
    return status;
}

DRIVER(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice dev), (bytes, dev)) {
    int status = check(dev, bytes);
    if (!status)
        *bytes = sd_options()->memory & ~(ARENA_PAGE - 1);
    return status;
}

DRIVER(cuDeviceGetAttribute, (int *pi, CUdevice_attribute attrib, CUdevice dev),
       (pi, attrib, dev)) {
    int known, status = check(dev, pi);
    if (status)
        return status;
    *pi = sd_attribute((int)attrib, dev, &known);
    return known ? SD_OK : SD_INVALID_VALUE;
}

DRIVER(cuDeviceComputeCapability, (int *major, int *minor, CUdevice dev), (major, minor, dev)) {
    int known, status = minor ? check(dev, major) : SD_INVALID_VALUE;
    if (!status) {
        *major = sd_attribute(75, dev, &known);
        *minor = sd_attribute(76, dev, &known);
    }
    return status;
}

#define UUID(name)                                                                                 \
    DRIVER(name, (CUuuid * uuid, CUdevice dev), (uuid, dev)) {                                     \
        int status = check(dev, uuid);                                                             \
        if (!status)                                                                               \
            sd_device_uuid(dev, uuid->bytes);                                                      \
        return status;                                                                             \
    }
UUID(cuDeviceGetUuid)
UUID(cuDeviceGetUuid_v2)

DRIVER(cuDeviceGetPCIBusId, (char *pciBusId, int len, CUdevice dev), (pciBusId, len, dev)) {
    int status = len >= 13 ? check(dev, pciBusId) : SD_INVALID_VALUE;
    if (!status)
        sd_device_bus_id(dev, pciBusId, len);
    return status;
}

DRIVER(cuDeviceCanAccessPeer, (int *canAccessPeer, CUdevice dev, CUdevice peerDev),
       (canAccessPeer, dev, peerDev)) {
    int status = check(dev, canAccessPeer);
    if (!status)
        status = check(peerDev, canAccessPeer);
    if (!status)
        *canAccessPeer = dev != peerDev;
    return status;
}

DRIVER(cuDeviceGetP2PAttribute,
       (int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice),
       (value, attrib, srcDevice, dstDevice)) {
    int status = srcDevice == dstDevice ? SD_INVALID_DEVICE : check(srcDevice, value);
    if (!status)
        status = check(dstDevice, value);
    if (!status)
        *value = (int)attrib != 1;
    return status;
}
