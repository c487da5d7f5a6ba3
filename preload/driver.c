/*
 * driver.c - handing out our wrappers of the driver's functions. See driver.h.
 *
 * Any thread, after a call that asked for an address; not async-signal-safe (dlsym).
 */
#include "driver.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "export.h"
#include "layoutspy/api/types.h"
#include "layoutspy/table.h"
#include "resolve.h"

#define API(LIB, ret, name, CLASS, STACK, params, args, ...) extern ret name params;
#include "layoutspy/api/all.def"

/* The wrapper (wrap.c) of a row of the driver's. Cases, not a table of addresses: those would be
 * relocated in every process. */
static void *wrapper_of(enum ls_api api) {
    switch (api) {
#define API(LIB, ret, name, CLASS, STACK, params, args, ...)                                       \
    case LS_API_##name:                                                                            \
        return LS_LIB_##LIB == LS_LIB_CUDA ? (void *)name : NULL;
#include "layoutspy/api/all.def"
    default:
        return NULL;
    }
}

/* Callers ask for cuMemAlloc and get cuMemAlloc_v2 or a twin: is `exported` such a name of `asked`?
 */
static bool is_version(const char *exported, const char *asked, size_t length) {
    if (strncmp(exported, asked, length) != 0)
        return false;
    const char *rest = exported + length;
    if (rest[0] == '_' && rest[1] == 'v' && rest[2] >= '0' && rest[2] <= '9')
        rest += 3;
    return *rest == 0 || strcmp(rest, "_ptsz") == 0 || strcmp(rest, "_ptds") == 0;
}

void *ls_driver_wrapper(const char *symbol, void *function) {
    size_t length = strlen(symbol);
    for (unsigned api = 1; api < LS_API_COUNT; api++)
        if (ls_api_info[api].lib == LS_LIB_CUDA &&
            is_version(ls_api_info[api].name, symbol, length) &&
            ls_real((enum ls_api)api, NULL) == function)
            return wrapper_of((enum ls_api)api);
    return NULL; /* another version of the function than those behind the wrappers */
}

LS_EXPORT void *layoutspy_driver_wrapper(const char *symbol, void *function);
LS_EXPORT void *layoutspy_driver_wrapper(const char *symbol, void *function) {
    int saved = errno;
    void *wrapper = ls_driver_wrapper(symbol, function);
    errno = saved;
    return wrapper;
}

void ls_driver_entry(int status, const char *symbol, void **function) {
    if (status != 0 || !symbol || !function || !*function)
        return;
    void *wrapper = ls_driver_wrapper(symbol, *function);
    if (wrapper)
        *function = wrapper;
}
