/*
 * on_device.c - the current device of a thread, as CUDA keeps it: per thread, 0 until set; and what
 * goes with a device's context. See on_call.h.
 */
#include "on_call.h"

void ls_on_device(struct ls_thread *self, enum ls_api api, int status, const uint64_t *field) {
    if (status != 0)
        return;
    if (api == LS_API_cudaSetDevice)
        self->device = (uint8_t)field[ls_roles[api].device];
    else if (api == LS_API_cudaDeviceReset || api == LS_API_cuCtxDestroy_v2)
        ls_capture_device_gone(self->device);
    else if (api == LS_API_cuDevicePrimaryCtxReset_v2)
        ls_capture_device_gone((uint8_t)field[ls_roles[api].device]);
}
