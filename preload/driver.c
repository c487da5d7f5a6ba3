/*
 * driver.c - handing out our wrappers of the driver's functions. See driver.h.
 *
 * Any thread, after a call that asked for an address; not async-signal-safe (dlsym).
 */
#include "driver.h"

#include <stdatomic.h>
#include <string.h>

#include "layoutspy/api/types.h"
#include "layoutspy/table.h"
#include "resolve.h"

/* The wrappers (wrap.c), by number; other libraries' rows vanish. */
#define DECLARE_CUDA(ret, name, params) extern ret name params;
#define DECLARE_CUDART(ret, name, params)
#define DECLARE_CUBLAS(ret, name, params)
#define DECLARE_C10(ret, name, params)
#define DECLARE_TORCH(ret, name, params)
#define ENTRY_CUDA(name) {LS_API_##name, (void *)name},
#define ENTRY_CUDART(name)
#define ENTRY_CUBLAS(name)
#define ENTRY_C10(name)
#define ENTRY_TORCH(name)

#define API(LIB, ret, name, CLASS, STACK, params, args, ...) DECLARE_##LIB(ret, name, params)
#include "layoutspy/api/all.def"

void ls_driver_entry(int status, const char *symbol, void **function) {
    const struct {
        enum ls_api api;
        void *wrapper;
    } wrappers[] = {
#define API(LIB, ret, name, CLASS, STACK, params, args, ...) ENTRY_##LIB(name)
#include "layoutspy/api/all.def"
    };
    if (status != 0 || !symbol || !function || !*function)
        return;
    for (unsigned i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
        if (strcmp(ls_api_info[wrappers[i].api].name, symbol) != 0)
            continue;
        /* Another version of the function than the one behind the wrapper stays as it is. */
        void *real = ls_real(wrappers[i].api, NULL);
        if (real == *function)
            *function = wrappers[i].wrapper;
        return;
    }
}
