/*
 * cudart_ipc.c - memory and events of other processes, as the runtime's functions. See cudart.h
 * and ipc.h. The log's `handle` is a hash (64-bit FNV-1a) of the 64 bytes.
 */
#include "cudart.h"

#include <string.h>

#include "alloc.h"
#include "capture.h"
#include "handles.h"
#include "ipc.h"
#include "memory.h"
#include "stream.h"

static uint64_t hash(const void *handle) {
    const unsigned char *byte = handle;
    uint64_t value = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < sizeof(struct ipc_handle); i++)
        value = (value ^ byte[i]) * 0x100000001b3ull;
    return value;
}

/* ---- memory --------------------------------------------------------------------------------- */

static int get_memory(void *handle, void *ptr) {
    struct device *device;
    struct ipc_handle made;
    if (!handle)
        return SD_INVALID_VALUE;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    struct memory *m =
        sd_memory_exact(ptr); /* pools, managed memory and mappings have other ways */
    if (!m || m->kind != STANDIN_DEVICE || m->internal)
        return sd_end_with(SD_INVALID_VALUE);
    status = sd_ipc_export(m, &made);
    if (!status)
        memcpy(handle, &made, sizeof made);
    return sd_end_with(status);
}

CUDART(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void *devPtr), (handle, devPtr)) {
    int status = ATTEMPT(get_memory(handle, devPtr));
    PUT("ptr", (uintptr_t)devPtr);
    PUT("handle", status ? 0 : hash(handle));
    PUT_DEVICE();
    return status;
}

static int open_memory(void **out, const void *bytes, unsigned flags, uint64_t *size, int *on) {
    struct device *device;
    struct ipc_handle handle;
    struct memory *m = NULL;
    if (!out || flags != 1) /* cudaIpcMemLazyEnablePeerAccess */
        return SD_INVALID_VALUE;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    memcpy(&handle, bytes, sizeof handle);
    status = sd_capture_refuses();
    if (!status)
        status = sd_ipc_open(&handle, &m);
    if (!status) {
        *out = sd_memory_address(m);
        *size = m->size;
        *on = m->device;
    }
    return sd_end_with(status);
}

CUDART(cudaIpcOpenMemHandle, (void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags),
       (devPtr, handle, flags)) {
    uint64_t size = 0;
    int on = sd_current_ordinal();
    int status = ATTEMPT(open_memory(devPtr, &handle, flags, &size, &on));
    PUT_OUT("ptr", devPtr);
    PUT("size", size);
    PUT("handle", hash(&handle));
    PUT("flags", flags);
    PUT_DEVICE();
    PUT_INT("memory_device", on);
    standin_put_text(call, "memory", "ipc");
    return status;
}

static int close_memory(void *ptr, struct freed *out) {
    struct device *device;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    status = sd_capture_refuses();
    if (status)
        return sd_end_with(status);
    for (int i = 0; i < standin_device_count(); i++)
        if (sd_device(i)->context)
            sd_device_wait(sd_device(i));
    struct memory *m = sd_memory_exact(ptr);
    if (!m || m->kind != STANDIN_IPC)
        return sd_end_with(SD_INVALID_VALUE);
    *out = (struct freed){.known = true, .kind = STANDIN_IPC, .size = m->size};
    sd_ipc_close(m);
    return sd_end_with(SD_OK);
}

CUDART(cudaIpcCloseMemHandle, (void *devPtr), (devPtr)) {
    struct freed freed = {0};
    int status = ATTEMPT(close_memory(devPtr, &freed));
    PUT("ptr", (uintptr_t)devPtr);
    if (freed.known) {
        standin_put_text(call, "memory", "ipc");
        PUT("size", freed.size);
    }
    PUT_DEVICE();
    return status;
}

/* ---- events --------------------------------------------------------------------------------- */

static int get_event(void *handle, cudaEvent_t event) {
    struct ipc_handle made;
    if (!handle)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    struct event *e = sd_handle(event, HANDLE_EVENT);
    status = e ? sd_ipc_event_export(e, &made) : SD_INVALID_HANDLE;
    if (!status)
        memcpy(handle, &made, sizeof made);
    return sd_end_with(status);
}

CUDART(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event), (handle, event)) {
    int status = ATTEMPT(get_event(handle, event));
    PUT("event", (uintptr_t)event);
    PUT("handle", status ? 0 : hash(handle));
    PUT_DEVICE();
    return status;
}

static int open_event(cudaEvent_t *out, const void *bytes) {
    struct device *device;
    struct ipc_handle handle;
    struct event *e = NULL;
    if (!out)
        return SD_INVALID_VALUE;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    memcpy(&handle, bytes, sizeof handle);
    status = sd_ipc_event_open(&handle, &e);
    if (!status)
        *out = (cudaEvent_t)e;
    return sd_end_with(status);
}

CUDART(cudaIpcOpenEventHandle, (cudaEvent_t * event, cudaIpcEventHandle_t handle),
       (event, handle)) {
    int status = ATTEMPT(open_event(event, &handle));
    PUT_OUT("event", event);
    PUT("handle", hash(&handle));
    PUT_DEVICE();
    return status;
}
