/*
 * on_device.c - the current device of a thread, as CUDA keeps it: per thread, 0 until set.
 * See on_call.h.
 */
#include "on_call.h"

void ls_on_device(struct ls_thread *self, enum ls_api api, int status, const uint64_t *field) {
    if (api == LS_API_cudaSetDevice && status == 0)
        self->device = (uint8_t)field[ls_roles[api].device];
}
