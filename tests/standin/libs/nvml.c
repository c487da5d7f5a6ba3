/*
 * nvml.c - as much of NVML as frameworks and profilers ask for: how many devices there are, handles
 * to them, their memory, and which processes use them. Without it a framework would find the real
 * one of the machine, or its out-of-memory report would stop at a failed assertion. Any thread; not
 * safe in a signal handler. Declarations are our own: the toolkit has no header of NVML.
 *
 * Every figure is of the whole device, as NVML sees it: of all processes that run on it (use.h), of
 * those in STANDIN_NVML_OTHER="PID:BYTES,..." (on device 0), and STANDIN_CONTEXT_BYTES for each
 * context.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../options.h"
#include "../properties.h"
#include "../use.h"
#include "lib.h"

#define EXPORT STANDIN_EXPORT int

enum {
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_INSUFFICIENT_SIZE = 7,
    NVML_VERSION_MISMATCH = 25,
};

typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct {
    unsigned long long total, free, used;
} nvmlMemory_t;
typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;
#define MEMORY_V2 (sizeof(nvmlMemory_v2_t) | 2u << 24)
typedef struct {
    unsigned pid;
    unsigned long long used;
} nvmlProcessInfo_v1_t;
typedef struct {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
} nvmlProcessInfo_t;
_Static_assert(sizeof(nvmlMemory_v2_t) == 40 && sizeof(nvmlProcessInfo_t) == 24, "as in nvml.h");

int nvmlInit(void);
int nvmlInit_v2(void);
int nvmlInitWithFlags(unsigned flags);
int nvmlShutdown(void);
int nvmlDeviceGetCount(unsigned *count);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device);
int nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
int nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned size);
int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
int nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);
int nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count, void *infos);
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, void *infos);
int nvmlSystemGetCudaDriverVersion(int *version);
int nvmlSystemGetCudaDriverVersion_v2(int *version);
int nvmlSystemGetDriverVersion(char *version, unsigned size);
const char *nvmlErrorString(int status);

/* ---- coming and going ---- */

static _Atomic int users; /* inits without a shutdown */

static int init(const struct standin_call *call) {
    if (!call->fault)
        users++;
    return call->fault;
}

EXPORT nvmlInit(void) {
    LIB_ENTER(call);
    return standin_leave(&call, init(&call));
}

EXPORT nvmlInit_v2(void) {
    LIB_ENTER(call);
    return standin_leave(&call, init(&call));
}

EXPORT nvmlInitWithFlags(unsigned flags) {
    LIB_ENTER(call);
    standin_put(&call, "flags", flags);
    return standin_leave(&call, init(&call));
}

EXPORT nvmlShutdown(void) {
    LIB_ENTER(call);
    int status = lib_status(&call, users ? 0 : NVML_UNINITIALIZED);
    if (!status)
        users--;
    return standin_leave(&call, status);
}

/* What stands before every other answer. */
static int early(const struct standin_call *call) {
    return call->fault ? call->fault : users ? 0 : NVML_UNINITIALIZED;
}

/* ---- devices ---- */

static int tell(const struct standin_call *call, unsigned *out, unsigned value) {
    int status = early(call);
    if (!status && !out)
        status = NVML_INVALID_ARGUMENT;
    if (!status)
        *out = value;
    return status;
}

EXPORT nvmlDeviceGetCount_v2(unsigned *count) {
    LIB_ENTER(call);
    return standin_leave(&call, tell(&call, count, (unsigned)standin_device_count()));
}

EXPORT nvmlDeviceGetCount(unsigned *count) {
    LIB_ENTER(call);
    return standin_leave(&call, tell(&call, count, (unsigned)standin_device_count()));
}

/* A handle is the ordinal plus one. */
static int device_at(const struct standin_call *call, long ordinal, int missing,
                     nvmlDevice_t *device) {
    int status = early(call);
    if (status)
        return status;
    if (!device)
        return NVML_INVALID_ARGUMENT;
    if (ordinal < 0 || ordinal >= standin_device_count())
        return missing;
    *device = (nvmlDevice_t)(uintptr_t)(ordinal + 1);
    return 0;
}

EXPORT nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    LIB_ENTER(call);
    return standin_leave(&call, device_at(&call, index, NVML_INVALID_ARGUMENT, device));
}

EXPORT nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
    LIB_ENTER(call);
    return standin_leave(&call, device_at(&call, index, NVML_INVALID_ARGUMENT, device));
}

/* The simulated cards sit on the buses 1, 2, ... of domain 0. */
static long by_bus(const char *bus_id) {
    unsigned domain, bus;
    if (!bus_id || sscanf(bus_id, "%x:%x:", &domain, &bus) != 2 || domain)
        return -1;
    return (long)bus - 1;
}

EXPORT nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device) {
    LIB_ENTER(call);
    return standin_leave(&call, device_at(&call, by_bus(id), NVML_NOT_FOUND, device));
}

static void uuid_of(int ordinal, char out[48]) {
    unsigned char b[16];
    sd_device_uuid(ordinal, (char *)b);
    char *at = out + sprintf(out, "GPU-");
    for (int i = 0; i < 16; i++)
        at += sprintf(at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", b[i]);
}

static long by_uuid(const char *uuid) {
    char own[48];
    for (int i = 0; uuid && i < standin_device_count(); i++) {
        uuid_of(i, own);
        if (strcmp(uuid, own) == 0 || strcmp(uuid, own + 4) == 0)
            return i;
    }
    return -1;
}

EXPORT nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    LIB_ENTER(call);
    return standin_leave(&call, device_at(&call, by_uuid(uuid), NVML_NOT_FOUND, device));
}

/* The device of a handle; with the status where it is none. */
static int ordinal_of(const struct standin_call *call, nvmlDevice_t device, int *ordinal) {
    int status = early(call);
    *ordinal = (int)(uintptr_t)device - 1;
    if (!status && (*ordinal < 0 || *ordinal >= standin_device_count()))
        status = NVML_INVALID_ARGUMENT;
    return status;
}

static int put_text(const char *text, char *out, unsigned size) {
    if (!out)
        return NVML_INVALID_ARGUMENT;
    if (size <= strlen(text))
        return NVML_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return 0;
}

EXPORT nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned size) {
    LIB_ENTER(call);
    int ordinal, status = ordinal_of(&call, device, &ordinal);
    if (!status) {
        char text[48];
        uuid_of(ordinal, text);
        status = put_text(text, uuid, size);
    }
    return standin_leave(&call, status);
}

/* ---- who uses them ---- */

#define PROCESSES 256
struct process {
    unsigned pid;
    unsigned long long used;
};

static unsigned long long setting(const char *name) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

/* Processes that are only said to be there. */
static unsigned others(struct process *out, unsigned count) {
    const char *at = getenv("STANDIN_NVML_OTHER");
    int length;
    while (at && count < PROCESSES &&
           sscanf(at, "%u:%llu%n", &out[count].pid, &out[count].used, &length) == 2) {
        count++;
        at += length;
        if (*at++ != ',')
            break;
    }
    return count;
}

static unsigned processes(int ordinal, struct process out[PROCESSES]) {
    struct sd_use *uses = malloc(PROCESSES * sizeof *uses);
    if (!uses)
        return 0;
    unsigned long long context = setting("STANDIN_CONTEXT_BYTES");
    int all = sd_use_read(uses, PROCESSES);
    unsigned count = 0;
    for (int i = 0; i < all && i < PROCESSES; i++)
        if (uses[i].context[ordinal])
            out[count++] = (struct process){(unsigned)uses[i].pid, uses[i].used[ordinal] + context};
    free(uses);
    return ordinal == 0 ? others(out, count) : count;
}

static unsigned long long used_of(int ordinal, unsigned long long total) {
    struct process list[PROCESSES];
    unsigned count = processes(ordinal, list);
    unsigned long long used = 0;
    for (unsigned i = 0; i < count; i++)
        used += list[i].used;
    return used < total ? used : total;
}

EXPORT nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    LIB_ENTER(call);
    int ordinal, status = ordinal_of(&call, device, &ordinal);
    if (!status && !memory)
        status = NVML_INVALID_ARGUMENT;
    if (!status) {
        memory->total = sd_options()->memory;
        memory->used = used_of(ordinal, memory->total);
        memory->free = memory->total - memory->used;
    }
    return standin_leave(&call, status);
}

EXPORT nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    LIB_ENTER(call);
    int ordinal, status = ordinal_of(&call, device, &ordinal);
    if (!status && !memory)
        status = NVML_INVALID_ARGUMENT;
    if (!status && memory->version != MEMORY_V2)
        status = NVML_VERSION_MISMATCH;
    if (!status) {
        memory->total = sd_options()->memory;
        memory->reserved = 0;
        memory->used = used_of(ordinal, memory->total);
        memory->free = memory->total - memory->used;
    }
    return standin_leave(&call, status);
}

static void put_process(void *infos, unsigned at, const struct process *p, bool first) {
    if (first)
        ((nvmlProcessInfo_v1_t *)infos)[at] = (nvmlProcessInfo_v1_t){p->pid, p->used};
    else /* no instances: no MIG */
        ((nvmlProcessInfo_t *)infos)[at] = (nvmlProcessInfo_t){p->pid, p->used, ~0u, ~0u};
}

/* `first`: in the form of the first version of this function. */
static int running(const struct standin_call *call, nvmlDevice_t device, unsigned *count,
                   void *infos, bool first) {
    int ordinal, status = ordinal_of(call, device, &ordinal);
    if (status)
        return status;
    if (!count || (*count && !infos))
        return NVML_INVALID_ARGUMENT;
    struct process list[PROCESSES];
    unsigned room = *count;
    *count = processes(ordinal, list);
    if (*count > room)
        return NVML_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < *count; i++)
        put_process(infos, i, &list[i], first);
    return 0;
}

EXPORT nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count, void *infos) {
    LIB_ENTER(call);
    return standin_leave(&call, running(&call, device, count, infos, true));
}

EXPORT nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, void *infos) {
    LIB_ENTER(call);
    return standin_leave(&call, running(&call, device, count, infos, false));
}

/* ---- the system ---- */

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

EXPORT nvmlSystemGetDriverVersion(char *version, unsigned size) {
    LIB_ENTER(call);
    int status = early(&call);
    if (!status)
        status = put_text(CUDA_MAJOR >= 13 ? "580.65.06" : "570.86.10", version, size);
    return standin_leave(&call, status);
}

STANDIN_EXPORT const char *nvmlErrorString(int status) {
    switch (status) {
    case 0:
        return "Success";
    case NVML_UNINITIALIZED:
        return "Uninitialized";
    case NVML_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_NOT_FOUND:
        return "Not Found";
    case NVML_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_VERSION_MISMATCH:
        return "Argument version mismatch";
    default:
        return "Unknown Error";
    }
}
