/*
 * cudart_driver.c - the runtime hands out driver functions. See cudart.h.
 *
 * As the real runtime does, it looks libcuda.so.1 up at run time, and never calls it.
 */
#include "cudart.h"

#include <dlfcn.h>
#include <string.h>

typedef int (*get_proc_address)(const char *symbol, void **out, int version, uint64_t flags,
                                int *state);

static get_proc_address driver_lookup(void) {
    static get_proc_address found;
    if (!found) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        void *symbol = driver ? dlsym(driver, "cuGetProcAddress_v2") : NULL;
        memcpy(&found, &symbol, sizeof found);
    }
    return found;
}

static int entry_point(const char *symbol, void **out, unsigned version, uint64_t flags,
                       enum cudaDriverEntryPointQueryResult *state) {
    if (!symbol || !out)
        return SD_INVALID_VALUE;
    get_proc_address lookup = driver_lookup();
    int found = 1;
    *out = NULL;
    int status = lookup ? lookup(symbol, out, (int)version, flags, &found) : SD_OK;
    if (state) /* CU_GET_PROC_ADDRESS_* and cudaDriverEntryPoint* are numbered alike */
        *state = (enum cudaDriverEntryPointQueryResult)found;
    return status == SD_NOT_FOUND ? SD_OK : status; /* told by the state and by NULL */
}

CUDART_TWIN(cudaGetDriverEntryPointByVersion, _ptsz,
            (const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,
             enum cudaDriverEntryPointQueryResult *driverStatus),
            (symbol, funcPtr, cudaVersion, flags, driverStatus)) {
    int status = ATTEMPT(entry_point(symbol, funcPtr, cudaVersion, flags, driverStatus));
    if (symbol)
        standin_put_text(call, "symbol_name", symbol);
    return status;
}

CUDART_TWIN(cudaGetDriverEntryPoint, _ptsz,
            (const char *symbol, void **funcPtr, unsigned long long flags,
             enum cudaDriverEntryPointQueryResult *driverStatus),
            (symbol, funcPtr, flags, driverStatus)) {
    int status = ATTEMPT(
        entry_point(symbol, funcPtr, (unsigned)standin_cuda_version(), flags, driverStatus));
    if (symbol)
        standin_put_text(call, "symbol_name", symbol);
    return status;
}
