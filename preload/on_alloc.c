/*
 * on_alloc.c - allocations make their addresses known (known.h). See on_call.h.
 */
#include "known.h"
#include "on_call.h"

void ls_on_alloc(enum ls_api api, int status, const uint64_t *field) {
    const struct ls_roles *role = &ls_roles[api];
    if (status == 0 && role->ptr >= 0 && role->size >= 0)
        ls_known_mark(field[role->ptr], field[role->size]);
}
