/*
 * cupti_context.c - contexts and devices: their numbers and handles, the callbacks of the RESOURCE
 * domain, the records that say what there is. The device tells of contexts with its lock held, so
 * callbacks come a moment later, in a thread that calls (a context that goes is gone by then).
 */
#include <string.h>

#include "../device.h"
#include "../properties.h"
#include "cupti_standin.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static uint32_t ids[STANDIN_DEVICES_MAX], contexts;
#define EVENTS 64
static struct {
    int device;
    bool made;
} events[EVENTS];
static atomic_uint waiting;

uint32_t cp_context_id(int device) {
    if (device < 0 || device >= STANDIN_DEVICES_MAX)
        return 0;
    pthread_mutex_lock(&lock);
    if (!ids[device])
        ids[device] = ++contexts;
    uint32_t id = ids[device];
    pthread_mutex_unlock(&lock);
    return id;
}

void cp_context_in_child(void) {
    pthread_mutex_init(&lock, NULL);
}

CUcontext cp_context(int device) {
    return (CUcontext)sd_context_handle(device);
}

int cp_device_of(CUcontext context) {
    for (int i = 0; context && i < standin_device_count(); i++)
        if (cp_context(i) == context)
            return i;
    return -1;
}

void cp_note_context(int device, bool made) {
    if (device < 0 || device >= STANDIN_DEVICES_MAX)
        return;
    pthread_mutex_lock(&lock);
    if (made)
        ids[device] = ++contexts;
    unsigned n = atomic_load(&waiting);
    if (n < EVENTS) {
        events[n].device = device;
        events[n].made = made;
        atomic_store(&waiting, n + 1);
    }
    pthread_mutex_unlock(&lock);
}

static void call_back(uint32_t number, int device) {
    const CUpti_ResourceData data = {.context = cp_context(device)};
    for (int i = 0; i < CP_SUBSCRIBERS; i++)
        cp_call_back(&cp_subscribers[i], CUPTI_CB_DOMAIN_RESOURCE, number, &data);
}

void cp_dispatch_resources(void) {
    static atomic_bool initialised;
    while (atomic_load(&waiting)) {
        pthread_mutex_lock(&lock);
        unsigned n = atomic_load(&waiting);
        int device = events[0].device;
        bool made = events[0].made;
        if (n) {
            memmove(events, events + 1, (n - 1) * sizeof *events);
            atomic_store(&waiting, n - 1);
        }
        pthread_mutex_unlock(&lock);
        if (!n)
            return;
        if (made && !atomic_exchange(&initialised, true))
            call_back(CUPTI_CBID_RESOURCE_CU_INIT_FINISHED, device);
        call_back(made ? CUPTI_CBID_RESOURCE_CONTEXT_CREATED
                       : CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING,
                  device);
    }
}

/* ---- records ---- */

static void tell_device(struct cp_session *session, int device) {
    static const char name[] = SD_DEVICE_NAME;
    char uuid[16];
    sd_device_uuid(device, uuid);
    struct cp_record r;
    cp_begin(&r, CP_R_DEVICE);
    SET(&r, DEVICE, flags, 1); /* concurrent kernels */
    SET(&r, DEVICE, globalMemorySize, sd_options()->memory);
    SET(&r, DEVICE, globalMemoryBandwidth, 2000000000);
    SET(&r, DEVICE, numThreadsPerWarp, 32);
    SET(&r, DEVICE, numMultiprocessors, 132);
    SET(&r, DEVICE, coreClockRate, 1700000);
    SET(&r, DEVICE, computeCapabilityMajor, 9);
    SET(&r, DEVICE, id, device);
    cp_set_bytes(&r, CP_F_DEVICE_uuid, uuid);
    SET(&r, DEVICE, name, (uintptr_t)name);
    cp_append(session, &r);
}

void cp_tell_standing(struct cp_session *session, int kind) {
    if (kind == CUPTI_ACTIVITY_KIND_DEVICE)
        for (int i = 0; i < standin_device_count(); i++)
            tell_device(session, i);
    if (kind != CUPTI_ACTIVITY_KIND_CONTEXT)
        return;
    for (int i = 0; i < STANDIN_DEVICES_MAX; i++) {
        pthread_mutex_lock(&lock);
        bool there = ids[i] != 0;
        pthread_mutex_unlock(&lock);
        struct cp_record r;
        struct cp_told told = {.what = CP_CONTEXT, .device = i};
        if (there && cp_encode(&r, session, &told))
            cp_append(session, &r);
    }
}

/* ---- questions ---- */

CP_EXPORT cuptiGetContextId(CUcontext context, uint32_t *id) {
    CP_ENTER(call, CP_CALLBACK);
    int device = cp_device_of(context);
    int status = lib_status(&call, !id          ? CUPTI_ERROR_INVALID_PARAMETER
                                   : device < 0 ? CUPTI_ERROR_INVALID_CONTEXT
                                                : 0);
    if (!status)
        *id = cp_context_id(device);
    return cp_leave(&call, status);
}

CP_EXPORT cuptiGetDeviceId(CUcontext context, uint32_t *device) {
    CP_ENTER(call, CP_CALLBACK);
    int found = context ? cp_device_of(context) : standin_current_device();
    int status = lib_status(&call, !device     ? CUPTI_ERROR_INVALID_PARAMETER
                                   : found < 0 ? CUPTI_ERROR_INVALID_CONTEXT
                                               : 0);
    if (!status)
        *device = (uint32_t)found;
    return cp_leave(&call, status);
}

static int stream_id(CUstream stream, bool per_thread, uint32_t *id) {
    if (!id)
        return CUPTI_ERROR_INVALID_PARAMETER;
    uint32_t number = sd_stream_number(stream, per_thread);
    if (!number)
        return CUPTI_ERROR_INVALID_STREAM;
    *id = number;
    return 0;
}

CP_EXPORT cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t *id) {
    CP_ENTER(call, CP_CALLBACK);
    (void)context;
    return cp_leave(&call, call.fault ? call.fault : stream_id(stream, false, id));
}

CP_EXPORT cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread, uint32_t *id) {
    CP_ENTER(call, CP_CALLBACK);
    (void)context;
    return cp_leave(&call, call.fault ? call.fault : stream_id(stream, per_thread != 0, id));
}
