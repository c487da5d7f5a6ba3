/*
 * cuda_app.h - what the small CUDA programs of the tests have in common: the prototypes (made from
 * the one table, and those that are not in it), error checks, and what nvcc's host code does for
 * a kernel. A program must behave the same with layoutspy and without, so none prints an address.
 */
#ifndef CUDA_APP_H
#define CUDA_APP_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "layoutspy/api/types.h"

#define API(LIB, ret, name, CLASS, STACK, params, args, ...) ret name params;
#include "layoutspy/api/all.def"

cudaError_t cudaGetLastError(void);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceCount(int *count);
const char *cudaGetErrorName(cudaError_t error);
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device);
cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterVar(void **handle, char *shadow, char *device_address, const char *device_name,
                       int is_extern, size_t size, int constant, int global);
unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                         struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

#ifdef __cplusplus
}
#endif

static inline dim3 dim(unsigned int x, unsigned int y, unsigned int z) {
    dim3 d = {x, y, z};
    return d;
}

/*
 * A module as nvcc makes it: a static constructor hands the fat binary to the runtime and registers
 * each kernel's host stub and each variable's shadow under its device name, and atexit() takes the
 * module away again. MODULE(name, registrations) once per program, after its kernels.
 */
struct fatbin_wrapper {
    int magic, version;
    const void *data;
    void *filename_or_fatbins;
};
#define MODULE(module, ...)                                                                        \
    static const unsigned long long module##_image[8] = {0x00100001ba55ed50ull, 0};                \
    static struct fatbin_wrapper module##_wrapper = {0x466243b1, 1, module##_image, NULL};         \
    static void **module##_handle;                                                                 \
    static void module##_unregister(void) {                                                        \
        __cudaUnregisterFatBinary(module##_handle);                                                \
    }                                                                                              \
    __attribute__((constructor)) static void module##_register(void) {                             \
        void **handle = module##_handle = __cudaRegisterFatBinary(&module##_wrapper);              \
        __VA_ARGS__                                                                                \
        __cudaRegisterFatBinaryEnd(handle);                                                        \
        atexit(module##_unregister);                                                               \
    }
#define REGISTER_KERNEL(stub, mangled)                                                             \
    __cudaRegisterFunction(handle, (const char *)(void (*)(void))stub, (char *)mangled, mangled,   \
                           -1, NULL, NULL, NULL, NULL, NULL);
#define REGISTER_VARIABLE(shadow, name)                                                            \
    __cudaRegisterVar(handle, (char *)&shadow, (char *)name, name, 0, sizeof shadow, 0, 0);

/* kernel<<<grid, block, shared, stream>>>(...): push the configuration, call the host stub. */
#define LAUNCH(grid, block, shared, stream, stub_call)                                             \
    (__cudaPushCallConfiguration(grid, block, shared, stream) ? (void)0 : (void)(stub_call))

/* The body of a host stub until CUDA 12. */
#define STUB_LEGACY(stub, arguments)                                                               \
    do {                                                                                           \
        dim3 stub_grid, stub_block;                                                                \
        size_t stub_shared;                                                                        \
        cudaStream_t stub_stream;                                                                  \
        if (__cudaPopCallConfiguration(&stub_grid, &stub_block, &stub_shared, &stub_stream) !=     \
            cudaSuccess)                                                                           \
            return;                                                                                \
        (void)cudaLaunchKernel((const void *)(void (*)(void))stub, stub_grid, stub_block,          \
                               arguments, stub_shared, stub_stream);                               \
    } while (0)

/* The body of a host stub from CUDA 13 on. */
#define STUB(stub, arguments)                                                                      \
    do {                                                                                           \
        static cudaKernel_t stub_kernel;                                                           \
        if (stub_kernel == NULL)                                                                   \
            (void)__cudaGetKernel(&stub_kernel, (const void *)(void (*)(void))stub);               \
        dim3 stub_grid, stub_block;                                                                \
        size_t stub_shared;                                                                        \
        cudaStream_t stub_stream;                                                                  \
        if (__cudaPopCallConfiguration(&stub_grid, &stub_block, &stub_shared, &stub_stream) !=     \
            cudaSuccess)                                                                           \
            return;                                                                                \
        (void)__cudaLaunchKernel(stub_kernel, stub_grid, stub_block, arguments, stub_shared,       \
                                 stub_stream);                                                     \
    } while (0)

#endif
