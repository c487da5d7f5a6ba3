/*
 * on_alloc.c - allocations make their addresses known (known.h). See on_call.h.
 */
#include "known.h"
#include "on_call.h"

/* Whether the device uses it as its own; of the classes that come here. */
static bool is_device_memory(enum ls_class cls) {
    return cls != LS_CLASS_PINNED_ALLOC && cls != LS_CLASS_REGISTER;
}

void ls_on_alloc(enum ls_api api, int status, const uint64_t *field) {
    const struct ls_roles *role = &ls_roles[api];
    if (status != 0 || role->ptr < 0 || role->size < 0)
        return;
    ls_known_mark(field[role->ptr], field[role->size]);
    if (is_device_memory(ls_api_info[api].cls))
        ls_known_mark_device(field[role->ptr], field[role->size]);
}

void ls_on_block(enum ls_api api, const uint64_t *field) {
    const struct ls_roles *role = &ls_roles[api];
    if ((int64_t)field[role->size] > 0)
        ls_known_mark_device(field[role->ptr], field[role->size]);
}
