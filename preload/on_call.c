/*
 * on_call.c - from a call's class to what is kept track of. See on_call.h.
 * Any thread, after each recorded call; async-signal-safe.
 */
#include "on_call.h"

uint8_t ls_on_call(struct ls_thread *self, enum ls_api api, int status, const uint64_t *field) {
    switch (ls_api_info[api].cls) {
    case LS_CLASS_DEVICE_ALLOC:
    case LS_CLASS_ASYNC_ALLOC:
    case LS_CLASS_MANAGED_ALLOC:
    case LS_CLASS_PINNED_ALLOC:
    case LS_CLASS_REGISTER:
        ls_on_alloc(api, status, field);
        return 0;
    case LS_CLASS_CAPTURE_BEGIN:
    case LS_CLASS_CAPTURE_END:
        ls_on_capture(ls_api_info[api].cls, status);
        return 0;
    case LS_CLASS_DEVICE:
        ls_on_device(self, api, status, field);
        return 0;
    case LS_CLASS_COPY:
        return ls_on_copy(api, status, field);
    default:
        return 0;
    }
}
