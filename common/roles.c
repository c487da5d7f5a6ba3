/*
 * roles.c - see roles.h.
 */
#include "common/roles.h"

#include <string.h>

struct ls_roles ls_roles[LS_API_COUNT];

void ls_roles_init(void) {
    for (int i = 1; i < LS_API_COUNT; i++) {
        enum ls_api api = (enum ls_api)i;
        struct ls_roles *roles = &ls_roles[i];
#define ROLE(role) roles->role = (int8_t)ls_field_index(api, #role);
        LS_ROLES(ROLE)
#undef ROLE
        roles->ptr_is_handle =
            roles->ptr >= 0 && ls_api_info[i].field[roles->ptr].type == LS_FIELD_HANDLE;
        roles->is_async = strstr(ls_api_info[i].name, "Async") != NULL;
        roles->is_reset =
            ls_api_info[i].cls == LS_CLASS_DEVICE && strstr(ls_api_info[i].name, "Reset") != NULL;
    }
}
