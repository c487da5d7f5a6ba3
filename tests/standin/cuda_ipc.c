/*
 * cuda_ipc.c - memory and events of other processes, as the driver's functions. See driver.h and
 * ipc_call.h.
 */
#include "driver.h"

#include "alloc.h"
#include "ipc_call.h"

static int get_memory(void *handle, void *ptr) {
    int status = sd_driver_context();
    return status ? status : sd_ipc_get_memory(handle, ptr);
}

DRIVER_LOGGED(cuIpcGetMemHandle, (CUipcMemHandle * pHandle, CUdeviceptr dptr), (pHandle, dptr)) {
    int status = ATTEMPT(get_memory(pHandle, AT(dptr)));
    PUT("ptr", dptr);
    PUT("handle", status ? 0 : sd_ipc_hash(pHandle));
    PUT_DEVICE();
    return status;
}

static int open_memory(CUdeviceptr *out, const void *handle, unsigned flags, uint64_t *size,
                       int *on) {
    void *p = NULL;
    int status = out ? sd_driver_context() : SD_INVALID_VALUE;
    if (!status)
        status = sd_ipc_open_memory(&p, handle, flags, size, on);
    if (!status)
        *out = (uintptr_t)p;
    return status;
}

DRIVER_LOGGED(cuIpcOpenMemHandle_v2,
              (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned int Flags),
              (pdptr, handle, Flags)) {
    uint64_t size = 0;
    int on = sd_current_ordinal();
    int status = ATTEMPT(open_memory(pdptr, &handle, Flags, &size, &on));
    PUT("ptr", status ? 0 : *pdptr);
    PUT("size", size);
    PUT("handle", sd_ipc_hash(&handle));
    PUT("flags", Flags);
    PUT_DEVICE();
    standin_put_signed(call, "memory_device", on);
    standin_put_text(call, "memory", "ipc");
    return status;
}

static int close_memory(void *p, struct freed *freed) {
    int status = sd_driver_context();
    return status ? status : sd_ipc_close_memory(p, freed);
}

DRIVER_LOGGED(cuIpcCloseMemHandle, (CUdeviceptr dptr), (dptr)) {
    struct freed freed = {0};
    int status = ATTEMPT(close_memory(AT(dptr), &freed));
    PUT("ptr", dptr);
    if (freed.known) {
        standin_put_text(call, "memory", "ipc");
        PUT("size", freed.size);
    }
    PUT_DEVICE();
    return status;
}

DRIVER_LOGGED(cuIpcGetEventHandle, (CUipcEventHandle * pHandle, CUevent event), (pHandle, event)) {
    int status = ATTEMPT(sd_ipc_get_event(pHandle, event));
    PUT("event", (uintptr_t)event);
    PUT("handle", status ? 0 : sd_ipc_hash(pHandle));
    PUT_DEVICE();
    return status;
}

static int open_event(CUevent *out, const void *handle) {
    int status = out ? sd_driver_context() : SD_INVALID_VALUE;
    return status ? status : sd_ipc_open_event((void **)out, handle);
}

DRIVER_LOGGED(cuIpcOpenEventHandle, (CUevent * phEvent, CUipcEventHandle handle),
              (phEvent, handle)) {
    int status = ATTEMPT(open_event(phEvent, &handle));
    PUT("event", status ? 0 : (uintptr_t)*phEvent);
    PUT("handle", sd_ipc_hash(&handle));
    PUT_DEVICE();
    return status;
}
