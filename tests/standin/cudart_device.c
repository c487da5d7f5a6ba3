/*
 * cudart_device.c - devices, their properties and limits, as the runtime's functions.
 * See cudart.h and properties.h.
 */
#include "cudart.h"

#include <stdio.h>
#include <string.h>

#include "capture.h"
#include "handles.h"
#include "pool.h"
#include "properties.h"
#include "stream.h"
#include "tell.h"

/* Lock and driver, no context: 100 without devices, 101 for an ordinal that is none. */
static int begin_device(int ordinal) {
    int status = sd_begin();
    if (status)
        return status;
    if (standin_device_count() == 0)
        return sd_end_with(SD_NO_DEVICE);
    if (!sd_device(ordinal))
        return sd_end_with(SD_INVALID_DEVICE);
    return SD_OK;
}

static int device_count(int *count) {
    if (!count)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    *count = standin_device_count();
    return sd_end_with(*count ? SD_OK : SD_NO_DEVICE);
}

CUDART(cudaGetDeviceCount, (int *count), (count)) {
    return ATTEMPT(device_count(count));
}

static int get_device(int *device) {
    if (!device)
        return SD_INVALID_VALUE;
    int status = begin_device(sd_current_ordinal());
    if (status)
        return status;
    *device = sd_current_ordinal();
    return sd_end_with(SD_OK);
}

CUDART(cudaGetDevice, (int *device), (device)) {
    return ATTEMPT(get_device(device));
}

/* Since CUDA 12 this makes the context. */
static int set_device(int ordinal) {
    int status = begin_device(ordinal);
    if (status)
        return status;
    sd_set_current(ordinal);
    sd_end();
    struct device *device;
    status = sd_begin_context(&device);
    return status ? status : sd_end_with(SD_OK);
}

CUDART(cudaSetDevice, (int device), (device)) {
    int status = ATTEMPT(set_device(device));
    PUT_INT("device", device);
    return status;
}

static int init_device(int ordinal, unsigned device_flags, unsigned flags) {
    if (flags <= 1)
        sd_tap_make_context(ordinal);
    int status = begin_device(ordinal);
    if (status)
        return status;
    if (flags > 1)
        return sd_end_with(SD_INVALID_VALUE);
    struct device *device;
    status = sd_device_context(ordinal, &device);
    if (!status && (flags & 1))
        device->flags = device_flags;
    return sd_end_with(status);
}

CUDART(cudaInitDevice, (int device, unsigned int deviceFlags, unsigned int flags),
       (device, deviceFlags, flags)) {
    int status = ATTEMPT(init_device(device, deviceFlags, flags));
    PUT_INT("device", device);
    PUT("flags", flags);
    return status;
}

static int reset(void) {
    int status = begin_device(sd_current_ordinal());
    if (status)
        return status;
    status = sd_capture_refuses();
    if (!status)
        sd_device_reset(sd_current());
    return sd_end_with(status);
}

CUDART_VOID(cudaDeviceReset) {
    int status = ATTEMPT(reset());
    PUT_DEVICE();
    return status;
}

static int synchronize(void) {
    struct device *device;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    status = sd_capture_refuses_device(device);
    if (!status) {
        uint64_t since = sd_wait_start();
        sd_device_wait(device);
        sd_tell_wait(WAIT_CONTEXT, device->ordinal, 0, since);
        sd_pools_settle(device);
    }
    return sd_end_with(status);
}

CUDART_VOID(cudaDeviceSynchronize) {
    int status = ATTEMPT(synchronize());
    PUT_DEVICE();
    return status;
}

static int set_flags(unsigned flags) {
    int status = begin_device(sd_current_ordinal());
    if (status)
        return status;
    if (flags & ~0xffu)
        return sd_end_with(SD_INVALID_VALUE);
    sd_current()->flags = flags;
    return sd_end_with(SD_OK);
}

CUDART(cudaSetDeviceFlags, (unsigned int flags), (flags)) {
    return ATTEMPT(set_flags(flags));
}

static int get_flags(unsigned *flags) {
    if (!flags)
        return SD_INVALID_VALUE;
    int status = begin_device(sd_current_ordinal());
    if (status)
        return status;
    *flags = sd_current()->flags | 8; /* maps host memory */
    return sd_end_with(SD_OK);
}

CUDART(cudaGetDeviceFlags, (unsigned int *flags), (flags)) {
    return ATTEMPT(get_flags(flags));
}

/* ---- properties ----------------------------------------------------------------------------- */

static int attribute(int *value, int number, int ordinal) {
    if (!value)
        return SD_INVALID_VALUE;
    int status = begin_device(ordinal), known;
    if (status)
        return status;
    *value = sd_attribute(number, ordinal, &known);
    return sd_end_with(known ? SD_OK : SD_INVALID_VALUE);
}

CUDART(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr attr, int device),
       (value, attr, device)) {
    return ATTEMPT(attribute(value, (int)attr, device));
}

static void fill_textures(struct cudaDeviceProp *p) {
    int known;
#define A(number) sd_attribute(number, 0, &known)
    p->textureAlignment = (size_t)A(14);
    p->texturePitchAlignment = (size_t)A(51);
    p->surfaceAlignment = (size_t)A(30);
    p->maxTexture1D = A(21);
    p->maxTexture1DMipmap = A(77);
    for (int i = 0; i < 2; i++) {
        p->maxTexture2D[i] = A(22 + i);
        p->maxTexture2DMipmap[i] = A(73 + i);
        p->maxTexture2DGather[i] = A(45 + i);
        p->maxTexture1DLayered[i] = A(42 + i);
        p->maxTextureCubemapLayered[i] = A(53 + i);
        p->maxSurface2D[i] = A(56 + i);
        p->maxSurface1DLayered[i] = A(61 + i);
        p->maxSurfaceCubemapLayered[i] = A(67 + i);
    }
    for (int i = 0; i < 3; i++) {
        p->maxTexture2DLinear[i] = A(70 + i);
        p->maxTexture3D[i] = A(24 + i);
        p->maxTexture3DAlt[i] = A(47 + i);
        p->maxTexture2DLayered[i] = A(27 + i);
        p->maxSurface3D[i] = A(58 + i);
        p->maxSurface2DLayered[i] = A(63 + i);
    }
    p->maxTextureCubemap = A(52);
    p->maxSurface1D = A(55);
    p->maxSurfaceCubemap = A(66);
#if CUDA_MAJOR < 13
    p->maxTexture1DLinear = A(69);
    p->clockRate = A(13);
    p->memoryClockRate = A(36);
    p->deviceOverlap = A(15);
    p->singleToDoublePrecisionPerfRatio = A(87);
    p->cooperativeMultiDeviceLaunch = A(96);
#endif
}

static void fill(struct cudaDeviceProp *p, int ordinal) {
    int known;
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, SD_DEVICE_NAME);
    sd_device_uuid(ordinal, p->uuid.bytes);
    p->totalGlobalMem = sd_options()->memory & ~(ARENA_PAGE - 1);
    p->sharedMemPerBlock = (size_t)A(8);
    p->regsPerBlock = A(12);
    p->warpSize = A(10);
    p->memPitch = (size_t)A(11);
    p->maxThreadsPerBlock = A(1);
    for (int i = 0; i < 3; i++) {
        p->maxThreadsDim[i] = A(2 + i);
        p->maxGridSize[i] = A(5 + i);
    }
    p->totalConstMem = (size_t)A(9);
    p->major = A(75);
    p->minor = A(76);
    p->multiProcessorCount = A(16);
    p->canMapHostMemory = A(19);
    p->concurrentKernels = A(31);
    p->ECCEnabled = A(32);
    p->pciBusID = ordinal + 1;
    p->asyncEngineCount = A(40);
    p->unifiedAddressing = A(41);
    p->memoryBusWidth = A(37);
    p->l2CacheSize = A(38);
    p->persistingL2CacheMaxSize = A(108);
    p->maxThreadsPerMultiProcessor = A(39);
    p->streamPrioritiesSupported = A(78);
    p->globalL1CacheSupported = A(79);
    p->localL1CacheSupported = A(80);
    p->sharedMemPerMultiprocessor = (size_t)A(81);
    p->regsPerMultiprocessor = A(82);
    p->managedMemory = A(83);
    p->concurrentManagedAccess = A(89);
    p->computePreemptionSupported = A(90);
    p->canUseHostPointerForRegisteredMem = A(91);
    p->cooperativeLaunch = A(95);
    p->sharedMemPerBlockOptin = (size_t)A(97);
    p->maxBlocksPerMultiProcessor = A(106);
    p->accessPolicyMaxWindowSize = A(109);
    p->reservedSharedMemPerBlock = (size_t)A(111);
    p->hostRegisterSupported = A(99);
    p->memoryPoolsSupported = A(115);
    p->clusterLaunch = A(120);
    fill_textures(p);
}

static int properties(struct cudaDeviceProp *prop, int ordinal) {
    if (!prop)
        return SD_INVALID_VALUE;
    int status = begin_device(ordinal);
    if (status)
        return status;
    fill(prop, ordinal);
    return sd_end_with(SD_OK);
}

#if CUDA_MAJOR >= 13
#define PROPERTIES cudaGetDeviceProperties
#else
#define PROPERTIES cudaGetDeviceProperties_v2
#endif
CUDART(PROPERTIES, (struct cudaDeviceProp * prop, int device), (prop, device)) {
    int status = ATTEMPT(properties(prop, device));
    PUT_INT("device", device);
    PUT("total", status == SD_OK ? prop->totalGlobalMem : 0);
    return status;
}

static int choose(int *device) {
    if (!device)
        return SD_INVALID_VALUE;
    int status = begin_device(0);
    if (status)
        return status;
    *device = 0;
    return sd_end_with(SD_OK);
}

CUDART(cudaChooseDevice, (int *device, const struct cudaDeviceProp *prop), (device, prop)) {
    return ATTEMPT(prop ? choose(device) : SD_INVALID_VALUE);
}

static int bus_id(char *out, int length, int ordinal) {
    if (!out || length < 13)
        return SD_INVALID_VALUE;
    int status = begin_device(ordinal);
    if (status)
        return status;
    sd_device_bus_id(ordinal, out, length);
    return sd_end_with(SD_OK);
}

CUDART(cudaDeviceGetPCIBusId, (char *pciBusId, int len, int device), (pciBusId, len, device)) {
    return ATTEMPT(bus_id(pciBusId, len, device));
}

static int by_bus_id(int *device, const char *text) {
    unsigned domain, bus, slot;
    if (!device || !text || sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return SD_INVALID_VALUE;
    int status = begin_device((int)bus - 1);
    if (status)
        return status;
    *device = (int)bus - 1;
    return sd_end_with(SD_OK);
}

CUDART(cudaDeviceGetByPCIBusId, (int *device, const char *pciBusId), (device, pciBusId)) {
    return ATTEMPT(by_bus_id(device, pciBusId));
}

static int priority_range(int *least, int *greatest) {
    struct device *device;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return sd_end_with(SD_OK);
}

CUDART(cudaDeviceGetStreamPriorityRange, (int *leastPriority, int *greatestPriority),
       (leastPriority, greatestPriority)) {
    return ATTEMPT(priority_range(leastPriority, greatestPriority));
}

/* ---- peers ---------------------------------------------------------------------------------- */

static int can_access(int *can, int from, int to) {
    if (!can)
        return SD_INVALID_VALUE;
    int status = begin_device(from);
    if (status)
        return status;
    if (!sd_device(to))
        return sd_end_with(SD_INVALID_DEVICE);
    *can = from != to;
    return sd_end_with(SD_OK);
}

CUDART(cudaDeviceCanAccessPeer, (int *canAccessPeer, int device, int peerDevice),
       (canAccessPeer, device, peerDevice)) {
    return ATTEMPT(can_access(canAccessPeer, device, peerDevice));
}

static int set_peer(int ordinal, bool enable) {
    struct device *device;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    if (!sd_device(ordinal) || ordinal == device->ordinal)
        return sd_end_with(SD_INVALID_DEVICE);
    if (device->peer[ordinal] == enable)
        return sd_end_with(enable ? SD_PEER_ALREADY_ENABLED : SD_PEER_NOT_ENABLED);
    device->peer[ordinal] = enable;
    return sd_end_with(SD_OK);
}

CUDART(cudaDeviceEnablePeerAccess, (int peerDevice, unsigned int flags), (peerDevice, flags)) {
    return ATTEMPT(flags ? SD_INVALID_VALUE : set_peer(peerDevice, true));
}

CUDART(cudaDeviceDisablePeerAccess, (int peerDevice), (peerDevice)) {
    return ATTEMPT(set_peer(peerDevice, false));
}

static int peer_attribute(int *value, int number, int from, int to) {
    if (!value || from == to)
        return value ? SD_INVALID_DEVICE : SD_INVALID_VALUE;
    int can, status = can_access(&can, from, to);
    if (!status)
        *value = number == 1 ? 0 : 1; /* performance rank 0; everything else is supported */
    return status;
}

CUDART(cudaDeviceGetP2PAttribute,
       (int *value, enum cudaDeviceP2PAttr attr, int srcDevice, int dstDevice),
       (value, attr, srcDevice, dstDevice)) {
    return ATTEMPT(peer_attribute(value, (int)attr, srcDevice, dstDevice));
}

/* ---- limits and caches: kept, without effect ------------------------------------------------ */

#define LIMITS 7
static size_t limits[LIMITS] = {1024, 7340032, 8388608, 2, 2048, 128, 0};

static int limit(size_t *get, const size_t *set, int number) {
    struct device *device;
    if (!get && !set)
        return SD_INVALID_VALUE;
    if (number < 0 || number >= LIMITS)
        return 215; /* cudaErrorUnsupportedLimit */
    int status = sd_begin_context(&device);
    if (status)
        return status;
    if (set)
        limits[number] = *set;
    else
        *get = limits[number];
    return sd_end_with(SD_OK);
}

CUDART(cudaDeviceGetLimit, (size_t * pValue, enum cudaLimit which), (pValue, which)) {
    return ATTEMPT(limit(pValue, NULL, (int)which));
}

CUDART(cudaDeviceSetLimit, (enum cudaLimit which, size_t value), (which, value)) {
    return ATTEMPT(limit(NULL, &value, (int)which));
}

CUDART(cudaDeviceGetCacheConfig, (enum cudaFuncCache * pCacheConfig), (pCacheConfig)) {
    if (pCacheConfig && !call->fault)
        *pCacheConfig = cudaFuncCachePreferNone;
    return ATTEMPT(pCacheConfig ? SD_OK : SD_INVALID_VALUE);
}

CUDART(cudaDeviceSetCacheConfig, (enum cudaFuncCache cacheConfig), (cacheConfig)) {
    return ATTEMPT((unsigned)cacheConfig <= 3 ? SD_OK : SD_INVALID_VALUE);
}

CUDART_VOID(cudaCtxResetPersistingL2Cache) {
    return ATTEMPT(SD_OK);
}
