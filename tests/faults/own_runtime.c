/*
 * own_runtime.c - a CUDA runtime of a few functions that do next to nothing, for what the simulated
 * device cannot show. It has another major version than the device, so both fit into one process;
 * it reaches its own functions through the PLT, as one linked without -Bsymbolic does; and it takes
 * no lock and makes no system call: a handler may call it, a fork may come at any time.
 *
 * Any thread; safe in a signal handler, but for the modules.
 */
#include <stdatomic.h>

#include "own_runtime.h"

struct module {
    uint64_t magic;
};
#define MODULE_MAGIC 0x6f776e206d6f6475u

static char memory[1 << 20];
static atomic_int mallocs, frees, launches, modules, kernels, modules_gone;

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = OWN_RUNTIME_MAJOR * 1000;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **devPtr, size_t size) {
    int n = atomic_fetch_add(&mallocs, 1);
    *devPtr = &memory[(size_t)n % 1024 * 1024];
    return size <= 1024 ? cudaSuccess : (cudaError_t)2;
}

cudaError_t cudaFree(void *devPtr) {
    char *p = (char *)devPtr;
    atomic_fetch_add(&frees, 1);
    return !p || (p >= memory && p < memory + sizeof memory) ? cudaSuccess : (cudaError_t)1;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
    (void)kind, (void)stream;
    memcpy(dst, src, count);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind) {
    return cudaMemcpyAsync(dst, src, count, kind, NULL);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    (void)event, (void)stream;
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaPeekAtLastError(void);
cudaError_t cudaPeekAtLastError(void) {
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr) {
    (void)ptr;
    memset(attributes, 0, sizeof *attributes); /* unregistered: pageable */
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
                             size_t sharedMem, cudaStream_t stream) {
    (void)func, (void)gridDim, (void)blockDim, (void)args, (void)sharedMem, (void)stream;
    atomic_fetch_add(&launches, 1);
    return cudaSuccess;
}

static struct module *own_module(void **handle) {
    struct module *module = (struct module *)handle;
    if (module->magic != MODULE_MAGIC) {
        fprintf(stderr, "own runtime: that module is another runtime's\n");
        abort();
    }
    return module;
}

void **__cudaRegisterFatBinary(void *wrapper) {
    struct module *module = (struct module *)malloc(sizeof *module);
    (void)wrapper;
    EXPECT(module != NULL);
    module->magic = MODULE_MAGIC;
    atomic_fetch_add(&modules, 1);
    return (void **)module;
}

void __cudaRegisterFatBinaryEnd(void **handle) {
    own_module(handle);
}

void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
                            const char *deviceName, int thread_limit, uint3 *tid, uint3 *bid,
                            dim3 *bDim, dim3 *gDim, int *wSize) {
    (void)hostFun, (void)deviceFun, (void)deviceName, (void)thread_limit;
    (void)tid, (void)bid, (void)bDim, (void)gDim, (void)wSize;
    own_module(fatCubinHandle);
    atomic_fetch_add(&kernels, 1);
}

void __cudaUnregisterFatBinary(void **fatCubinHandle) {
    struct module *module = own_module(fatCubinHandle);
    module->magic = 0;
    free(module);
    atomic_fetch_add(&modules_gone, 1);
}

void own_runtime_say(void) {
    printf("own runtime: malloc %d, free %d, launch %d, module %d, kernel %d, gone %d\n", mallocs,
           frees, launches, modules, kernels, modules_gone);
}
