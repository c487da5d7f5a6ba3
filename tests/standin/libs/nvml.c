/*
 * nvml.c - as much of NVML as frameworks ask for: how many devices there are, handles to them, and
 * which processes use them (none is told). Without it a framework would find the real one of the
 * machine, or its out-of-memory report would stop at a failed assertion. Any thread; not safe in a
 * signal handler. Declarations are our own: the toolkit has no header of NVML.
 */
#include <stdio.h>

#include "lib.h"

#define EXPORT STANDIN_EXPORT int

enum { NVML_INVALID_ARGUMENT = 2, NVML_NOT_FOUND = 6 };

typedef struct nvmlDevice_st *nvmlDevice_t;

int nvmlInit(void);
int nvmlInit_v2(void);
int nvmlInitWithFlags(unsigned flags);
int nvmlShutdown(void);
int nvmlDeviceGetCount(unsigned *count);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device);
int nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count, void *infos);
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, void *infos);
int nvmlSystemGetCudaDriverVersion(int *version);
int nvmlSystemGetCudaDriverVersion_v2(int *version);

#define YES(name, ...)                                                                             \
    EXPORT name(__VA_ARGS__) {                                                                     \
        LIB_ENTER(call);                                                                           \
        return standin_leave(&call, call.fault);                                                   \
    }

YES(nvmlInit, void)
YES(nvmlInit_v2, void)
YES(nvmlShutdown, void)

EXPORT nvmlInitWithFlags(unsigned flags) {
    LIB_ENTER(call);
    standin_put(&call, "flags", flags);
    return standin_leave(&call, call.fault);
}

static int tell(unsigned *out, unsigned value) {
    if (!out)
        return NVML_INVALID_ARGUMENT;
    *out = value;
    return 0;
}

EXPORT nvmlDeviceGetCount_v2(unsigned *count) {
    LIB_ENTER(call);
    int status = call.fault ? call.fault : tell(count, (unsigned)standin_device_count());
    return standin_leave(&call, status);
}

EXPORT nvmlDeviceGetCount(unsigned *count) {
    LIB_ENTER(call);
    int status = call.fault ? call.fault : tell(count, (unsigned)standin_device_count());
    return standin_leave(&call, status);
}

/* A handle is the ordinal plus one. */
static int device_at(long ordinal, nvmlDevice_t *device) {
    if (!device)
        return NVML_INVALID_ARGUMENT;
    if (ordinal < 0 || ordinal >= standin_device_count())
        return NVML_NOT_FOUND;
    *device = (nvmlDevice_t)(uintptr_t)(ordinal + 1);
    return 0;
}

EXPORT nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    LIB_ENTER(call);
    return standin_leave(&call, call.fault ? call.fault : device_at(index, device));
}

EXPORT nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
    LIB_ENTER(call);
    return standin_leave(&call, call.fault ? call.fault : device_at(index, device));
}

/* The simulated cards sit on the buses 1, 2, ... of domain 0. */
static long ordinal_of(const char *bus_id) {
    unsigned domain, bus;
    if (!bus_id || sscanf(bus_id, "%x:%x:", &domain, &bus) != 2 || domain)
        return -1;
    return (long)bus - 1;
}

EXPORT nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device) {
    LIB_ENTER(call);
    return standin_leave(&call, call.fault ? call.fault : device_at(ordinal_of(id), device));
}

EXPORT nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count, void *infos) {
    LIB_ENTER(call);
    (void)device, (void)infos;
    return standin_leave(&call, call.fault ? call.fault : tell(count, 0));
}

EXPORT nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, void *infos) {
    LIB_ENTER(call);
    (void)device, (void)infos;
    return standin_leave(&call, call.fault ? call.fault : tell(count, 0));
}

EXPORT nvmlSystemGetCudaDriverVersion(int *version) {
    LIB_ENTER(call);
    int status = lib_status(&call, version ? 0 : NVML_INVALID_ARGUMENT);
    if (status == 0)
        *version = standin_cuda_version();
    return standin_leave(&call, status);
}

EXPORT nvmlSystemGetCudaDriverVersion_v2(int *version) {
    LIB_ENTER(call);
    int status = lib_status(&call, version ? 0 : NVML_INVALID_ARGUMENT);
    if (status == 0)
        *version = standin_cuda_version();
    return standin_leave(&call, status);
}
