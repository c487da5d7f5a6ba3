/*
 * on_call.c - from a call's class to what is kept track of. See on_call.h.
 * Any thread, after each recorded call; async-signal-safe.
 */
#include "on_call.h"

struct ls_roles ls_roles[LS_API_COUNT];

void ls_roles_init(void) {
    for (int i = 1; i < LS_API_COUNT; i++) {
        enum ls_api api = (enum ls_api)i;
        ls_roles[i] = (struct ls_roles){
            .ptr = (int8_t)ls_field_index(api, "ptr"),
            .size = (int8_t)ls_field_index(api, "size"),
            .dst = (int8_t)ls_field_index(api, "dst"),
            .src = (int8_t)ls_field_index(api, "src"),
            .kind = (int8_t)ls_field_index(api, "kind"),
            .device = (int8_t)ls_field_index(api, "device"),
        };
    }
}

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
