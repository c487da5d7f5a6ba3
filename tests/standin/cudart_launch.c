/*
 * cudart_launch.c - registration and launches of kernels, as the runtime's functions.
 * See cudart.h and kernel.h.
 *
 * Registration runs in programs' constructors, before main, and in dlopen: it makes no context.
 */
#include "cudart.h"

#include <string.h>

#include "alloc.h"
#include "capture.h"
#include "handles.h"
#include "kernel.h"
#include "properties.h"
#include "truth.h"

/* ---- registration --------------------------------------------------------------------------- */

#define REGISTER(name, caller_fields, ...)                                                         \
    standin_log(name, 0, __builtin_return_address(0), caller_fields, __VA_ARGS__)

void **__cudaRegisterFatBinary(void *fatCubin);
STANDIN_EXPORT void **__cudaRegisterFatBinary(void *fatCubin) {
    (void)fatCubin;
    void **handle = NULL;
    if (sd_begin_registration()) {
        handle = (void **)sd_module_new();
        sd_end();
    }
    REGISTER("__cudaRegisterFatBinary", "module=%lu", (unsigned long)(uintptr_t)handle);
    return handle;
}

void __cudaRegisterFatBinaryEnd(void **fatCubinHandle);
STANDIN_EXPORT void __cudaRegisterFatBinaryEnd(void **fatCubinHandle) {
    REGISTER("__cudaRegisterFatBinaryEnd", "module=%lu", (unsigned long)(uintptr_t)fatCubinHandle);
}

char __cudaInitModule(void **fatCubinHandle);
STANDIN_EXPORT char __cudaInitModule(void **fatCubinHandle) {
    (void)fatCubinHandle;
    standin_log("__cudaInitModule", 0, __builtin_return_address(0), NULL);
    return 1;
}

void __cudaUnregisterFatBinary(void **fatCubinHandle);
STANDIN_EXPORT void __cudaUnregisterFatBinary(void **fatCubinHandle) {
    if (sd_begin_registration()) {
        struct module *m = sd_module(fatCubinHandle);
        if (m)
            sd_module_delete(m);
        sd_end();
    }
    REGISTER("__cudaUnregisterFatBinary", "module=%lu", (unsigned long)(uintptr_t)fatCubinHandle);
}

void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
                            const char *deviceName, int thread_limit, uint3 *tid, uint3 *bid,
                            dim3 *bDim, dim3 *gDim, int *wSize);
STANDIN_EXPORT void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun,
                                           char *deviceFun, const char *deviceName,
                                           int thread_limit, uint3 *tid, uint3 *bid, dim3 *bDim,
                                           dim3 *gDim, int *wSize) {
    /* Not entered as other calls are: it cannot fail. */
    struct standin_call call = {.name = "__cudaRegisterFunction",
                                .caller = __builtin_return_address(0),
                                .logged = sd_truth_wanted()};
    (void)deviceFun, (void)thread_limit, (void)tid, (void)bid, (void)bDim, (void)gDim, (void)wSize;
    if (sd_begin_registration()) {
        struct module *m = sd_module(fatCubinHandle);
        if (m && deviceName)
            sd_kernel_add(m, hostFun, deviceName);
        sd_end();
    }
    standin_put(&call, "module", (uintptr_t)fatCubinHandle);
    standin_put(&call, "func", (uintptr_t)hostFun);
    call.kernel = deviceName;
    standin_leave(&call, 0);
}

void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
                       const char *deviceName, int ext, size_t size, int constant, int global);
STANDIN_EXPORT void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress,
                                      const char *deviceName, int ext, size_t size, int constant,
                                      int global) {
    (void)deviceAddress, (void)ext, (void)constant, (void)global;
    if (sd_begin_registration()) {
        struct module *m = sd_module(fatCubinHandle);
        if (m)
            sd_variable_add(m, hostVar, deviceName, size);
        sd_end();
    }
    REGISTER("__cudaRegisterVar", "symbol=%lu\tsize=%zu", (unsigned long)(uintptr_t)hostVar, size);
}

void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress, char *deviceAddress,
                              const char *deviceName, int ext, size_t size, int constant,
                              int global);
STANDIN_EXPORT void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress,
                                             char *deviceAddress, const char *deviceName, int ext,
                                             size_t size, int constant, int global) {
    (void)deviceAddress, (void)ext, (void)constant, (void)global;
    if (sd_begin_registration()) {
        struct module *m = sd_module(fatCubinHandle);
        if (m && sd_device(0)) {
            struct variable *v = sd_variable_add(m, hostVarPtrAddress, deviceName, size);
            struct memory *memory = sd_variable_managed(v);
            if (memory)
                *hostVarPtrAddress = sd_memory_address(memory);
        }
        sd_end();
    }
    REGISTER("__cudaRegisterManagedVar", "symbol=%lu\tsize=%zu",
             (unsigned long)(uintptr_t)hostVarPtrAddress, size);
}

void __cudaRegisterHostVar(void **fatCubinHandle, const char *deviceName, char *hostVar,
                           size_t size);
STANDIN_EXPORT void __cudaRegisterHostVar(void **fatCubinHandle, const char *deviceName,
                                          char *hostVar, size_t size) {
    (void)fatCubinHandle, (void)deviceName;
    REGISTER("__cudaRegisterHostVar", "symbol=%lu\tsize=%zu", (unsigned long)(uintptr_t)hostVar,
             size);
}

char __cudaRegisterUnifiedTable(void **fatCubinHandle, void *table);
STANDIN_EXPORT char __cudaRegisterUnifiedTable(void **fatCubinHandle, void *table) {
    (void)fatCubinHandle, (void)table;
    standin_log("__cudaRegisterUnifiedTable", 0, __builtin_return_address(0), NULL);
    return 0;
}

/* ---- <<<...>>>: the configuration waits on the thread's stack of them ----------------------- */

struct configuration {
    dim3 grid, block;
    size_t shared;
    void *stream;
};
static __thread struct configuration configurations[8];
static __thread unsigned configuration_count;

unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem, void *stream);
STANDIN_EXPORT unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                                    void *stream) {
    bool room = configuration_count < sizeof configurations / sizeof *configurations;
    if (room)
        configurations[configuration_count++] =
            (struct configuration){gridDim, blockDim, sharedMem, stream};
    standin_log("__cudaPushCallConfiguration", !room, __builtin_return_address(0), NULL);
    return !room;
}

CUDART(__cudaPopCallConfiguration,
       (dim3 * gridDim, dim3 *blockDim, size_t *sharedMem, void *stream),
       (gridDim, blockDim, sharedMem, stream)) {
    if (call->fault || !configuration_count)
        return ATTEMPT(SD_MISSING_CONFIGURATION);
    struct configuration *c = &configurations[--configuration_count];
    *gridDim = c->grid;
    *blockDim = c->block;
    *sharedMem = c->shared;
    memcpy(stream, &c->stream, sizeof c->stream);
    return SD_OK;
}

/* ---- handles of kernels --------------------------------------------------------------------- */

static int find_kernel(const void *function, struct kernel **out) {
    if (!sd_begin_registration())
        return SD_INITIALIZATION;
    *out = sd_kernel(function);
    return sd_end_with(*out ? SD_OK : SD_INVALID_FUNCTION);
}

static int get_kernel(struct standin_call *call, void *out, const void *function) {
    struct kernel *k = NULL;
    int status = ATTEMPT(out ? find_kernel(function, &k) : SD_INVALID_VALUE);
    if (!status)
        memcpy(out, &k, sizeof k);
    PUT("func", (uintptr_t)function);
    PUT("handle", status ? 0 : (uintptr_t)k);
    call->kernel = k ? k->name : NULL;
    return status;
}

CUDART(__cudaGetKernel, (cudaKernel_t * kernel, const void *func), (kernel, func)) {
    return get_kernel(call, kernel, func);
}

CUDART(cudaGetKernel, (cudaKernel_t * kernel, const void *func), (kernel, func)) {
    return get_kernel(call, kernel, func);
}

CUDART(cudaGetFuncBySymbol, (cudaFunction_t * func, const void *symbol), (func, symbol)) {
    return get_kernel(call, func, symbol);
}

CUDART(cudaFuncGetName, (const char **name, const void *func), (name, func)) {
    struct kernel *k = NULL;
    int status = ATTEMPT(name ? find_kernel(func, &k) : SD_INVALID_VALUE);
    if (!status)
        *name = k->name;
    return status;
}

static int find_param(const void *function, size_t index, size_t *offset, size_t *size) {
    if (!sd_begin_registration())
        return SD_INITIALIZATION;
    struct kernel *k = sd_kernel(function);
    return sd_end_with(k ? sd_kernel_param(k, index, offset, size) : SD_INVALID_FUNCTION);
}

CUDART(cudaFuncGetParamInfo,
       (const void *func, size_t paramIndex, size_t *paramOffset, size_t *paramSize),
       (func, paramIndex, paramOffset, paramSize)) {
    return ATTEMPT(find_param(func, paramIndex, paramOffset, paramSize));
}

/* ---- launches ------------------------------------------------------------------------------- */

static int run(struct standin_call *call, const void *function, dim3 grid, dim3 block,
               size_t shared, cudaStream_t stream, bool cooperative) {
    struct launch launch = {.function = function,
                            .grid = {grid.x, grid.y, grid.z},
                            .block = {block.x, block.y, block.z},
                            .shared = shared,
                            .stream = stream,
                            .per_thread = call->per_thread,
                            .cooperative = cooperative};
    int status = ATTEMPT(sd_launch(&launch, &call->kernel));
    struct kernel *kernel = NULL;
    if (!call->kernel && find_kernel(function, &kernel) == SD_OK)
        call->kernel = kernel->name; /* refused before it was looked up */
    standin_put_dim3(call, "grid", grid.x, grid.y, grid.z);
    standin_put_dim3(call, "block", block.x, block.y, block.z);
    PUT("shared", shared);
    PUT("stream", (uintptr_t)stream);
    PUT_DEVICE();
    return status;
}

CUDART_TWIN(cudaLaunchKernel, _ptsz,
            (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
             cudaStream_t stream),
            (func, gridDim, blockDim, args, sharedMem, stream)) {
    (void)args;
    return run(call, func, gridDim, blockDim, sharedMem, stream, false);
}

CUDART_TWIN(cudaLaunchCooperativeKernel, _ptsz,
            (const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
             cudaStream_t stream),
            (func, gridDim, blockDim, args, sharedMem, stream)) {
    (void)args;
    return run(call, func, gridDim, blockDim, sharedMem, stream, true);
}

CUDART_TWIN(__cudaLaunchKernel, _ptsz,
            (cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
             cudaStream_t stream),
            (kernel, gridDim, blockDim, args, sharedMem, stream)) {
    (void)args;
    return run(call, kernel, gridDim, blockDim, sharedMem, stream, false);
}

CUDART_TWIN(cudaLaunchKernelExC, _ptsz,
            (const cudaLaunchConfig_t *config, const void *func, void **args),
            (config, func, args)) {
    static const cudaLaunchConfig_t nothing;
    const cudaLaunchConfig_t *c = config ? config : &nothing;
    (void)args;
    /* An empty configuration is an invalid value here: the grid would be refused as 9. */
    if (!config && !call->fault)
        call->fault = SD_INVALID_VALUE;
    return run(call, func, c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream, false);
}

/* ---- what a kernel needs -------------------------------------------------------------------- */

static int attributes(struct cudaFuncAttributes *out, const void *function) {
    struct kernel *k;
    if (!out)
        return SD_INVALID_VALUE;
    int status = find_kernel(function, &k);
    if (status)
        return status;
    memset(out, 0, sizeof *out);
    out->maxThreadsPerBlock = 1024;
    out->numRegs = 32;
    out->binaryVersion = out->ptxVersion = 90;
    out->maxDynamicSharedSizeBytes = k->max_dynamic_shared;
    out->preferredShmemCarveout = -1;
    return SD_OK;
}

CUDART(cudaFuncGetAttributes, (struct cudaFuncAttributes * attr, const void *func), (attr, func)) {
    return ATTEMPT(attributes(attr, func));
}

static int set_attribute(const void *function, int number, int value) {
    struct kernel *k;
    int status = find_kernel(function, &k);
    if (status)
        return status;
    if (number < 8 || number > 15 || (number == 8 && (value < 0 || value > SD_SHARED_MOST)))
        return SD_INVALID_VALUE;
    if (number == 8)
        k->max_dynamic_shared = value;
    else
        k->attribute[number] = value;
    return SD_OK;
}

CUDART(cudaFuncSetAttribute, (const void *func, enum cudaFuncAttribute attr, int value),
       (func, attr, value)) {
    return ATTEMPT(set_attribute(func, (int)attr, value));
}

CUDART(cudaFuncSetCacheConfig, (const void *func, enum cudaFuncCache cacheConfig),
       (func, cacheConfig)) {
    struct kernel *k;
    return ATTEMPT((unsigned)cacheConfig <= 3 ? find_kernel(func, &k) : SD_INVALID_VALUE);
}

static int occupancy(int *blocks, const void *function, int threads, size_t shared) {
    struct kernel *k;
    if (!blocks || threads <= 0)
        return SD_INVALID_VALUE;
    int status = find_kernel(function, &k);
    if (!status)
        *blocks = sd_occupancy(threads, shared);
    return status;
}

CUDART(cudaOccupancyMaxActiveBlocksPerMultiprocessor,
       (int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize),
       (numBlocks, func, blockSize, dynamicSMemSize)) {
    return ATTEMPT(occupancy(numBlocks, func, blockSize, dynamicSMemSize));
}

CUDART(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
       (int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize,
        unsigned int flags),
       (numBlocks, func, blockSize, dynamicSMemSize, flags)) {
    return ATTEMPT(flags > 1 ? SD_INVALID_VALUE
                             : occupancy(numBlocks, func, blockSize, dynamicSMemSize));
}

static int available_shared(size_t *size, const void *function, int blocks) {
    struct kernel *k;
    if (!size || blocks <= 0 || blocks > 32)
        return SD_INVALID_VALUE;
    int status = find_kernel(function, &k);
    if (!status)
        *size = (size_t)(233472 / blocks - 1024);
    return status;
}

CUDART(cudaOccupancyAvailableDynamicSMemPerBlock,
       (size_t * dynamicSmemSize, const void *func, int numBlocks, int blockSize),
       (dynamicSmemSize, func, numBlocks, blockSize)) {
    (void)blockSize;
    return ATTEMPT(available_shared(dynamicSmemSize, func, numBlocks));
}

static int clusters(int *out, const void *function, int value) {
    struct kernel *k;
    if (!out)
        return SD_INVALID_VALUE;
    int status = find_kernel(function, &k);
    if (!status)
        *out = value;
    return status;
}

CUDART(cudaOccupancyMaxActiveClusters,
       (int *numClusters, const void *func, const cudaLaunchConfig_t *launchConfig),
       (numClusters, func, launchConfig)) {
    return ATTEMPT(launchConfig ? clusters(numClusters, func, 16) : SD_INVALID_VALUE);
}

CUDART(cudaOccupancyMaxPotentialClusterSize,
       (int *clusterSize, const void *func, const cudaLaunchConfig_t *launchConfig),
       (clusterSize, func, launchConfig)) {
    return ATTEMPT(launchConfig ? clusters(clusterSize, func, 8) : SD_INVALID_VALUE);
}
