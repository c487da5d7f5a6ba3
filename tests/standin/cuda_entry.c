/*
 * cuda_entry.c - cuGetProcAddress: finds every function of this library, itself included.
 * See driver.h.
 */
#include "driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* A function of this very library by its exported name, whatever else the process has loaded. */
static void *own_function(const char *name) {
    static void *self;
    Dl_info at;
    if (!self) {
        if (!dladdr((void *)(uintptr_t)own_function, &at))
            return NULL;
        self = dlopen(at.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    }
    void *found = self ? dlsym(self, name) : NULL;
    Dl_info there;
    if (!found || !dladdr(found, &there) || !dladdr((void *)(uintptr_t)own_function, &at) ||
        there.dli_fbase != at.dli_fbase)
        return NULL;
    return found;
}

/* Since which version a suffix is what the plain name means, where that is recent. */
static const struct {
    const char *name;
    int suffix, since;
} recent[] = {
    {"cuCtxCreate", 4, 13000},
    {"cuCtxCreate", 3, 11040},
    {"cuStreamGetCaptureInfo", 3, 12030},
    {"cuStreamGetCaptureInfo", 2, 11030},
    {"cuGetProcAddress", 2, 12000},
    {"cuMemPrefetchAsync", 2, 13000},
    {"cuMemAdvise", 2, 13000},
    {"cuDeviceGetUuid", 2, 13000},
    {"cuEventElapsedTime", 2, 13000},
};

static bool too_new(const char *name, int suffix, int version) {
    for (size_t i = 0; i < sizeof recent / sizeof *recent; i++)
        if (recent[i].suffix == suffix && strcmp(recent[i].name, name) == 0)
            return version < recent[i].since;
    return false;
}

static void *find(const char *name, int version, bool per_thread) {
    static const char *const twins[] = {"_ptsz", "_ptds", ""};
    char full[128];
    for (int suffix = 4; suffix >= 1; suffix--) {
        if (suffix > 1 && too_new(name, suffix, version))
            continue;
        for (int twin = per_thread ? 0 : 2; twin < 3; twin++) {
            int length = suffix > 1
                             ? snprintf(full, sizeof full, "%s_v%d%s", name, suffix, twins[twin])
                             : snprintf(full, sizeof full, "%s%s", name, twins[twin]);
            void *found = length < (int)sizeof full ? own_function(full) : NULL;
            if (found)
                return found;
        }
    }
    return NULL;
}

static int lookup(const char *symbol, void **out, int version, uint64_t flags, int *state) {
    if (!symbol || !out || flags > 2)
        return SD_INVALID_VALUE;
    *out = find(symbol, version, flags == 2);
    if (state)
        *state = *out ? 0 : 1; /* CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND */
    return *out || state ? SD_OK : SD_NOT_FOUND;
}

/* Both work before cuInit. */
CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus);
STANDIN_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
                                            cuuint64_t flags,
                                            CUdriverProcAddressQueryResult *symbolStatus) {
    struct standin_call call;
    standin_enter(&call, "cuGetProcAddress_v2", __builtin_return_address(0));
    int state = 0;
    int status = call.fault ? call.fault
                            : lookup(symbol, pfn, cudaVersion, flags, symbolStatus ? &state : NULL);
    if (symbolStatus)
        *symbolStatus = (CUdriverProcAddressQueryResult)state;
    return (CUresult)standin_leave(&call, status);
}

#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags);
STANDIN_EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion,
                                         cuuint64_t flags) {
    struct standin_call call;
    standin_enter(&call, "cuGetProcAddress", __builtin_return_address(0));
    int status = call.fault ? call.fault : lookup(symbol, pfn, cudaVersion, flags, NULL);
    return (CUresult)standin_leave(&call, status);
}
