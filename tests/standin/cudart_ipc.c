/*
 * cudart_ipc.c - memory and events of other processes, as the runtime's functions. See cudart.h
 * and ipc_call.h.
 */
#include "cudart.h"

#include "alloc.h"
#include "ipc_call.h"

/* ---- memory --------------------------------------------------------------------------------- */

CUDART(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void *devPtr), (handle, devPtr)) {
    int status = ATTEMPT(sd_ipc_get_memory(handle, devPtr));
    PUT("ptr", (uintptr_t)devPtr);
    PUT("handle", status ? 0 : sd_ipc_hash(handle));
    PUT_DEVICE();
    return status;
}

CUDART(cudaIpcOpenMemHandle, (void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags),
       (devPtr, handle, flags)) {
    uint64_t size = 0;
    int on = sd_current_ordinal();
    int status = ATTEMPT(sd_ipc_open_memory(devPtr, &handle, flags, &size, &on));
    PUT_OUT("ptr", devPtr);
    PUT("size", size);
    PUT("handle", sd_ipc_hash(&handle));
    PUT("flags", flags);
    PUT_DEVICE();
    PUT_INT("memory_device", on);
    standin_put_text(call, "memory", "ipc");
    return status;
}

CUDART(cudaIpcCloseMemHandle, (void *devPtr), (devPtr)) {
    struct freed freed = {0};
    int status = ATTEMPT(sd_ipc_close_memory(devPtr, &freed));
    PUT("ptr", (uintptr_t)devPtr);
    if (freed.known) {
        standin_put_text(call, "memory", "ipc");
        PUT("size", freed.size);
    }
    PUT_DEVICE();
    return status;
}

/* ---- events --------------------------------------------------------------------------------- */

CUDART(cudaIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event), (handle, event)) {
    int status = ATTEMPT(sd_ipc_get_event(handle, event));
    PUT("event", (uintptr_t)event);
    PUT("handle", status ? 0 : sd_ipc_hash(handle));
    PUT_DEVICE();
    return status;
}

CUDART(cudaIpcOpenEventHandle, (cudaEvent_t * event, cudaIpcEventHandle_t handle),
       (event, handle)) {
    int status = ATTEMPT(sd_ipc_open_event((void **)event, &handle));
    PUT_OUT("event", event);
    PUT("handle", sd_ipc_hash(&handle));
    PUT_DEVICE();
    return status;
}
