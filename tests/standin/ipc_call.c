/*
 * ipc_call.c - memory and events of other processes, as programs ask for them. See ipc_call.h.
 */
#include "ipc_call.h"

#include <string.h>

#include "alloc.h"
#include "capture.h"
#include "handles.h"
#include "ipc.h"
#include "memory.h"
#include "stream.h"

uint64_t sd_ipc_hash(const void *handle) {
    const unsigned char *byte = handle;
    uint64_t value = 0xcbf29ce484222325ull;
    for (size_t i = 0; i < sizeof(struct ipc_handle); i++)
        value = (value ^ byte[i]) * 0x100000001b3ull;
    return value;
}

int sd_ipc_get_memory(void *handle, void *ptr) {
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

int sd_ipc_open_memory(void **out, const void *bytes, unsigned flags, uint64_t *size, int *on) {
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

int sd_ipc_close_memory(void *ptr, struct freed *out) {
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

int sd_ipc_get_event(void *handle, const void *event) {
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

int sd_ipc_open_event(void **out, const void *bytes) {
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
        *out = e;
    return sd_end_with(status);
}
