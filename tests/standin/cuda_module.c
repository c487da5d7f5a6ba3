/*
 * cuda_module.c - the driver's modules, functions and launches. See driver.h and kernel.h.
 *
 * Device code is not read: a module has every function that is asked for, and no variables.
 */
#include "driver.h"

#include <string.h>

#include "handles.h"
#include "kernel.h"
#include "properties.h"

static int new_module(void *out, const void *image) {
    struct device *device;
    if (!out || !image)
        return SD_INVALID_VALUE;
    int status = sd_driver_begin(&device);
    if (status)
        return status;
    struct module *m = sd_module_new();
    memcpy(out, &m, sizeof m);
    return sd_end_with(m ? SD_OK : SD_OUT_OF_MEMORY);
}

DRIVER(cuModuleLoadData, (CUmodule * module, const void *image), (module, image)) {
    return new_module(module, image);
}

DRIVER(cuModuleLoadDataEx,
       (CUmodule * module, const void *image, unsigned int numOptions, CUjit_option *options,
        void **optionValues),
       (module, image, numOptions, options, optionValues)) {
    (void)numOptions, (void)options, (void)optionValues;
    return new_module(module, image);
}

DRIVER(cuModuleLoadFatBinary, (CUmodule * module, const void *fatCubin), (module, fatCubin)) {
    return new_module(module, fatCubin);
}

DRIVER(cuModuleLoad, (CUmodule * module, const char *fname), (module, fname)) {
    return new_module(module, fname);
}

DRIVER(cuLibraryLoadData,
       (CUlibrary * library, const void *code, CUjit_option *jitOptions, void **jitOptionsValues,
        unsigned int numJitOptions, CUlibraryOption *libraryOptions, void **libraryOptionValues,
        unsigned int numLibraryOptions),
       (library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
        libraryOptionValues, numLibraryOptions)) {
    (void)jitOptions, (void)jitOptionsValues, (void)numJitOptions, (void)libraryOptions;
    (void)libraryOptionValues, (void)numLibraryOptions;
    return new_module(library, code);
}

static int delete_module(const void *handle) {
    int status = sd_begin();
    if (status)
        return status;
    struct module *m = sd_module(handle);
    if (m)
        sd_module_delete(m);
    return sd_end_with(m ? SD_OK : SD_INVALID_HANDLE);
}

DRIVER(cuModuleUnload, (CUmodule hmod), (hmod)) {
    return delete_module(hmod);
}

DRIVER(cuLibraryUnload, (CUlibrary library), (library)) {
    return delete_module(library);
}

static int function_of(struct standin_call *call, void *out, const void *handle, const char *name) {
    if (!out || !name || !*name)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    struct module *m = sd_module(handle);
    if (!m)
        return sd_end_with(SD_INVALID_HANDLE);
    struct kernel *k = m->kernels;
    while (k && strcmp(k->name, name) != 0)
        k = k->next;
    if (!k)
        k = sd_kernel_add(m, NULL, name);
    memcpy(out, &k, sizeof k);
    call->kernel = k->name;
    return sd_end_with(SD_OK);
}

DRIVER(cuModuleGetFunction, (CUfunction * hfunc, CUmodule hmod, const char *name),
       (hfunc, hmod, name)) {
    return function_of(call, hfunc, hmod, name);
}

DRIVER(cuLibraryGetKernel, (CUkernel * pKernel, CUlibrary library, const char *name),
       (pKernel, library, name)) {
    return function_of(call, pKernel, library, name);
}

static int same_kernel(void *out, const void *handle) {
    if (!out)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    struct kernel *k = sd_handle(handle, HANDLE_KERNEL);
    memcpy(out, &k, sizeof k);
    return sd_end_with(k ? SD_OK : SD_INVALID_HANDLE);
}

DRIVER(cuKernelGetFunction, (CUfunction * pFunc, CUkernel kernel), (pFunc, kernel)) {
    return same_kernel(pFunc, kernel);
}

DRIVER(cuModuleGetLoadingMode, (CUmoduleLoadingMode * mode), (mode)) {
    if (!mode)
        return SD_INVALID_VALUE;
    *mode = (CUmoduleLoadingMode)2; /* lazy */
    return SD_OK;
}

static int name_of(const char **name, const void *handle) {
    struct kernel *k = NULL;
    if (!name)
        return SD_INVALID_VALUE;
    int status = same_kernel(&k, handle);
    if (!status)
        *name = k->name;
    return status;
}

DRIVER(cuFuncGetName, (const char **name, CUfunction hfunc), (name, hfunc)) {
    return name_of(name, hfunc);
}

DRIVER(cuKernelGetName, (const char **name, CUkernel hfunc), (name, hfunc)) {
    return name_of(name, hfunc);
}

static int param_of(const void *handle, size_t index, size_t *offset, size_t *size) {
    int status = sd_begin();
    if (status)
        return status;
    struct kernel *k = sd_handle(handle, HANDLE_KERNEL);
    return sd_end_with(k ? sd_kernel_param(k, index, offset, size) : SD_INVALID_HANDLE);
}

DRIVER(cuFuncGetParamInfo,
       (CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize),
       (func, paramIndex, paramOffset, paramSize)) {
    return param_of(func, paramIndex, paramOffset, paramSize);
}

DRIVER(cuKernelGetParamInfo,
       (CUkernel kernel, size_t paramIndex, size_t *paramOffset, size_t *paramSize),
       (kernel, paramIndex, paramOffset, paramSize)) {
    return param_of(kernel, paramIndex, paramOffset, paramSize);
}

DRIVER(cuFuncGetAttribute, (int *pi, CUfunction_attribute attrib, CUfunction hfunc),
       (pi, attrib, hfunc)) {
    struct kernel *k = NULL;
    static const int values[] = {[0] = 1024, [4] = 32, [5] = 90, [6] = 90};
    int status = pi ? same_kernel(&k, hfunc) : SD_INVALID_VALUE;
    if (status || (unsigned)attrib > 15)
        return status ? status : SD_INVALID_VALUE;
    *pi = (int)attrib == 8 ? k->max_dynamic_shared : (unsigned)attrib < 7 ? values[attrib] : 0;
    return SD_OK;
}

DRIVER(cuFuncSetAttribute, (CUfunction hfunc, CUfunction_attribute attrib, int value),
       (hfunc, attrib, value)) {
    struct kernel *k = NULL;
    int status = same_kernel(&k, hfunc);
    if (status)
        return status;
    if ((int)attrib < 8 || (int)attrib > 15 ||
        ((int)attrib == 8 && (value < 0 || value > SD_SHARED_MOST)))
        return SD_INVALID_VALUE;
    if ((int)attrib == 8)
        k->max_dynamic_shared = value;
    return SD_OK;
}

DRIVER(cuFuncSetCacheConfig, (CUfunction hfunc, CUfunc_cache config), (hfunc, config)) {
    struct kernel *k;
    (void)config;
    return same_kernel(&k, hfunc);
}

DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor,
       (int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize),
       (numBlocks, func, blockSize, dynamicSMemSize)) {
    struct kernel *k;
    int status = numBlocks && blockSize > 0 ? same_kernel(&k, func) : SD_INVALID_VALUE;
    if (!status)
        *numBlocks = sd_occupancy(blockSize, dynamicSMemSize);
    return status;
}

static int attempt_launch(struct standin_call *call, struct launch *l) {
    int status = sd_driver_context();
    if (status)
        return status;
    l->driver = true;
    l->per_thread = call->per_thread;
    return sd_launch(l, &call->kernel);
}

static int launch(struct standin_call *call, struct launch *l) {
    int status = ATTEMPT(attempt_launch(call, l));
    if (!call->kernel && sd_begin_registration()) { /* refused before it was looked up */
        const struct kernel *k = sd_kernel(l->function);
        call->kernel = k ? k->name : NULL;
        sd_end();
    }
    standin_put_dim3(call, "grid", l->grid[0], l->grid[1], l->grid[2]);
    standin_put_dim3(call, "block", l->block[0], l->block[1], l->block[2]);
    PUT("shared", l->shared);
    PUT("stream", (uintptr_t)l->stream);
    PUT_DEVICE();
    return status;
}

DRIVER_LOGGED_TWIN(cuLaunchKernel, _ptsz,
                   (CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                    unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                    unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                    void **kernelParams, void **extra),
                   (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                    sharedMemBytes, hStream, kernelParams, extra)) {
    (void)kernelParams, (void)extra;
    return launch(call, &(struct launch){.function = f,
                                         .grid = {gridDimX, gridDimY, gridDimZ},
                                         .block = {blockDimX, blockDimY, blockDimZ},
                                         .shared = sharedMemBytes,
                                         .stream = hStream});
}

DRIVER_LOGGED_TWIN(cuLaunchCooperativeKernel, _ptsz,
                   (CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                    unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                    unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                    void **kernelParams),
                   (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                    sharedMemBytes, hStream, kernelParams)) {
    (void)kernelParams;
    return launch(call, &(struct launch){.function = f,
                                         .grid = {gridDimX, gridDimY, gridDimZ},
                                         .block = {blockDimX, blockDimY, blockDimZ},
                                         .shared = sharedMemBytes,
                                         .stream = hStream,
                                         .cooperative = true});
}

DRIVER_LOGGED_TWIN(cuLaunchKernelEx, _ptsz,
                   (const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra),
                   (config, f, kernelParams, extra)) {
    static const CUlaunchConfig nothing;
    const CUlaunchConfig *c = config ? config : &nothing;
    (void)kernelParams, (void)extra;
    if (!config && !call->fault)
        call->fault = SD_INVALID_VALUE;
    return launch(call, &(struct launch){.function = f,
                                         .grid = {c->gridDimX, c->gridDimY, c->gridDimZ},
                                         .block = {c->blockDimX, c->blockDimY, c->blockDimZ},
                                         .shared = c->sharedMemBytes,
                                         .stream = c->hStream});
}
