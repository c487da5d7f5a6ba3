/*
 * nvtx.c - libnvToolsExt.so.1, which programs built with CUDA 12 and before link: hands each call
 * to the tool that NVTX_INJECTION64_PATH names, loaded at the first call; without one, calls do
 * nothing. NVTX knows no device: its calls have no lines in the truth log. Any thread; in a signal
 * handler as far as the tool is, except for the first call.
 */
#include "nvtx_types.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../standin.h"

/* Entries of each module's table; the first has no function. */
static const unsigned sizes[NVTX_CB_MODULE_SIZE] = {
    [NVTX_CB_MODULE_CORE] = 16,  [NVTX_CB_MODULE_CUDA] = 9,   [NVTX_CB_MODULE_OPENCL] = 15,
    [NVTX_CB_MODULE_CUDART] = 7, [NVTX_CB_MODULE_CORE2] = 15, [NVTX_CB_MODULE_SYNC] = 7,
};
enum { LONGEST = 16 };

/* The tool's functions, written while it initialises itself; and what it finds them by. */
static NvtxFunctionPointer functions[NVTX_CB_MODULE_SIZE][LONGEST];
static NvtxFunctionPointer *tables[NVTX_CB_MODULE_SIZE][LONGEST] = {
#define NVTX(module, number, type, name, parameters, arguments)                                    \
    [NVTX_CB_MODULE_##module][number] = &functions[NVTX_CB_MODULE_##module][number],
#include "nvtx_calls.def"
};

static int module_table(NvtxCallbackModule module, NvtxFunctionTable *table, unsigned *size) {
    if ((unsigned)module >= NVTX_CB_MODULE_SIZE)
        return 0;
    if (table)
        *table = tables[module];
    if (size)
        *size = sizes[module];
    return 1;
}

STANDIN_EXPORT const void *nvtxGetExportTable(uint32_t id) {
    static const NvtxExportTableCallbacks callbacks = {sizeof callbacks, module_table};
    return id == NVTX_ETID_CALLBACKS ? &callbacks : NULL;
}

static void load_tool(void) {
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *tool = path ? dlopen(path, RTLD_LAZY) : NULL;
    if (!tool)
        return;
    NvtxInitializeInjectionNvtxFunc_t initialize =
        (NvtxInitializeInjectionNvtxFunc_t)dlsym(tool, "InitializeInjectionNvtx2");
    if (initialize && initialize(nvtxGetExportTable))
        return;
    memset(functions, 0, sizeof functions);
    dlclose(tool);
}

static NvtxFunctionPointer function_of(NvtxCallbackModule module, unsigned number) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_tool);
    return functions[module][number];
}

/* What a call gives that nobody takes. */
#define NOTHING_int NVTX_NO_PUSH_POP_TRACKING
#define NOTHING_void (void)0
#define NOTHING_nvtxRangeId_t 0
#define NOTHING_nvtxDomainHandle_t NULL
#define NOTHING_nvtxStringHandle_t NULL
#define NOTHING_nvtxResourceHandle_t NULL
#define NOTHING_nvtxSyncUser_t NULL

#define NVTX(module, number, type, name, parameters, arguments)                                    \
    STANDIN_EXPORT type nvtx##name parameters {                                                    \
        type(*function) parameters =                                                               \
            (type(*) parameters)function_of(NVTX_CB_MODULE_##module, number);                      \
        return function ? function arguments : NOTHING_##type;                                     \
    }
#include "nvtx_calls.def"

#ifdef STANDIN_NVIDIA_HEADERS
#define NVTX(module, number, type, name, parameters, arguments)                                    \
    _Static_assert(number == (int)NVTX_CBID_##module##_##name, #name);
#include "nvtx_calls.def"
#endif
