/*
 * roles.c - see roles.h.
 */
#include "common/roles.h"

#include <string.h>

struct ls_roles ls_roles[LS_API_COUNT];

static bool named(enum ls_api api, enum ls_class cls, const char *word) {
    return ls_api_info[api].cls == cls && strstr(ls_api_info[api].name, word) != NULL;
}

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
            named(api, LS_CLASS_DEVICE, "Reset") || named(api, LS_CLASS_CONTEXT, "Reset");
        roles->is_query = named(api, LS_CLASS_SYNC, "Query");
        roles->is_trim = named(api, LS_CLASS_POOL, "Trim");
        roles->makes =
            named(api, LS_CLASS_LIBRARY, "Create") || named(api, LS_CLASS_LIBRARY, "CommInit") ||
            named(api, LS_CLASS_LIBRARY, "CommSplit") || named(api, LS_CLASS_LIBRARY, "cufftPlan");
        roles->ends =
            named(api, LS_CLASS_LIBRARY, "Destroy") || named(api, LS_CLASS_LIBRARY, "CommAbort");
    }
}
