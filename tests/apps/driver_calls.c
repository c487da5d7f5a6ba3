/*
 * driver_calls.c - a program of the driver's functions alone, as compilers and interpreters of
 * other languages make them: a context, memory of every kind, a stream-ordered pool, copies, a
 * module and launches, a captured graph, virtual memory. One allocation is never freed.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "expect.h"

enum { BYTES = 1 << 20, ROUNDS = 3, LEAKED = 4096 + 321 };
#define PAGE ((size_t)2 << 20)

/* As cuda.h has them. */
typedef int CUresult, CUdevice;
typedef unsigned long long CUdeviceptr, CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct {
    int type, requestedHandleTypes;
    struct {
        int type, id;
    } location;
    void *security;
    unsigned char rest[8];
} CUmemAllocationProp;
typedef struct {
    int allocType, handleTypes;
    struct {
        int type, id;
    } location;
    void *security;
    size_t maxSize;
    unsigned char rest[56];
} CUmemPoolProps;
typedef struct {
    size_t srcX, srcY;
    int srcType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray;
    size_t srcPitch;
    size_t dstX, dstY;
    int dstType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray;
    size_t dstPitch;
    size_t width, height;
} CUDA_MEMCPY2D;

CUresult cuInit(unsigned);
CUresult cuDeviceGet(CUdevice *, int);
CUresult cuCtxCreate_v2(CUcontext *, unsigned, CUdevice);
CUresult cuCtxDestroy_v2(CUcontext);
CUresult cuCtxSynchronize(void);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice);
CUresult cuMemAlloc_v2(CUdeviceptr *, size_t);
CUresult cuMemAllocPitch_v2(CUdeviceptr *, size_t *, size_t, size_t, unsigned);
CUresult cuMemAllocManaged(CUdeviceptr *, size_t, unsigned);
CUresult cuMemAllocAsync(CUdeviceptr *, size_t, CUstream);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *, size_t, CUmemoryPool, CUstream);
CUresult cuMemFree_v2(CUdeviceptr);
CUresult cuMemFreeAsync(CUdeviceptr, CUstream);
CUresult cuMemAllocHost_v2(void **, size_t);
CUresult cuMemHostAlloc(void **, size_t, unsigned);
CUresult cuMemFreeHost(void *);
CUresult cuMemHostRegister_v2(void *, size_t, unsigned);
CUresult cuMemHostUnregister(void *);
CUresult cuMemcpy(CUdeviceptr, CUdeviceptr, size_t);
CUresult cuMemcpyAsync(CUdeviceptr, CUdeviceptr, size_t, CUstream);
CUresult cuMemcpyHtoD_v2(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH_v2(void *, CUdeviceptr, size_t);
CUresult cuMemcpyDtoD_v2(CUdeviceptr, CUdeviceptr, size_t);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr, const void *, size_t, CUstream);
CUresult cuMemcpyDtoHAsync_v2(void *, CUdeviceptr, size_t, CUstream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr, CUdeviceptr, size_t, CUstream);
CUresult cuMemcpyPeer(CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t);
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *);
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *, CUstream);
CUresult cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t);
CUresult cuMemsetD32Async(CUdeviceptr, unsigned, size_t, CUstream);
CUresult cuMemsetD2D16_v2(CUdeviceptr, size_t, unsigned short, size_t, size_t);
CUresult cuModuleLoadData(CUmodule *, const void *);
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuModuleUnload(CUmodule);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream, void **, void **);
CUresult cuStreamCreate(CUstream *, unsigned);
CUresult cuStreamSynchronize(CUstream);
CUresult cuStreamDestroy_v2(CUstream);
CUresult cuStreamBeginCapture_v2(CUstream, int);
CUresult cuStreamEndCapture(CUstream, CUgraph *);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *, CUgraph, unsigned long long);
CUresult cuGraphLaunch(CUgraphExec, CUstream);
CUresult cuGraphExecDestroy(CUgraphExec);
CUresult cuGraphDestroy(CUgraph);
CUresult cuMemPoolCreate(CUmemoryPool *, const CUmemPoolProps *);
CUresult cuMemPoolTrimTo(CUmemoryPool, size_t);
CUresult cuMemPoolDestroy(CUmemoryPool);
CUresult cuMemAddressReserve(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
CUresult cuMemAddressFree(CUdeviceptr, size_t);
CUresult cuMemCreate(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *,
                     unsigned long long);
CUresult cuMemRelease(CUmemGenericAllocationHandle);
CUresult cuMemMap(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
CUresult cuMemUnmap(CUdeviceptr, size_t);

static NOINLINE void leak(void) {
    CUdeviceptr p;
    CHECK(cuMemAlloc_v2(&p, LEAKED)); /* SITE: leak */
}

static NOINLINE void copy_all(CUcontext context, CUdeviceptr device, CUdeviceptr other,
                              char *pageable, char *pinned, CUstream stream) {
    CUDA_MEMCPY2D box = {.srcType = 1,
                         .srcHost = pinned,
                         .srcPitch = 512,
                         .dstType = 2,
                         .dstDevice = device,
                         .dstPitch = 1024,
                         .width = 500,
                         .height = 100};
    CHECK(cuMemcpyHtoD_v2(device, pageable, BYTES));
    CHECK(cuMemcpyDtoH_v2(pinned, device, BYTES));
    EXPECT(memcmp(pinned, pageable, BYTES) == 0);
    CHECK(cuMemcpyDtoD_v2(other, device, BYTES));
    CHECK(cuMemcpy(other, (uintptr_t)pinned, BYTES));
    CHECK(cuMemcpyPeer(other, context, device, context, BYTES));
    CHECK(cuMemcpy2D_v2(&box));
    CHECK(cuMemcpyHtoDAsync_v2(device, pinned, BYTES, stream));
    CHECK(cuMemcpyDtoDAsync_v2(other, device, BYTES, stream));
    CHECK(cuMemcpyDtoHAsync_v2(pageable, other, BYTES, stream));
    CHECK(cuMemcpyAsync(device, (uintptr_t)pinned, BYTES, stream));
    CHECK(cuMemcpy2DAsync_v2(&box, stream));
    CHECK(cuStreamSynchronize(stream));
}

static NOINLINE void fill_all(CUdeviceptr device, CUstream stream) {
    unsigned char back[8];
    CHECK(cuMemsetD8_v2(device, 0xab, BYTES));
    CHECK(cuMemsetD32Async(device, 0x01020304, BYTES / 8, stream));
    CHECK(cuMemsetD2D16_v2(device + BYTES / 2, 1024, 0x0506, 256, 100));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH_v2(back, device + BYTES / 2 - 4, 8));
    EXPECT(memcmp(back, "\x04\x03\x02\x01\x06\x05\x06\x05", 8) == 0);
}

static NOINLINE void pooled(CUstream stream) {
    CUmemPoolProps props = {.allocType = 1, .location = {1, 0}};
    CUmemoryPool pool;
    CUdeviceptr own, shared;
    CHECK(cuMemPoolCreate(&pool, &props));
    CHECK(cuMemAllocFromPoolAsync(&own, BYTES, pool, stream));
    CHECK(cuMemAllocAsync(&shared, BYTES, stream));
    CHECK(cuMemFreeAsync(own, stream));
    CHECK(cuMemFreeAsync(shared, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemPoolTrimTo(pool, 0));
    CHECK(cuMemPoolDestroy(pool));
}

static NOINLINE void graph(CUfunction function, CUdeviceptr device, char *pinned, CUstream stream) {
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamBeginCapture_v2(stream, 0));
    CHECK(cuMemcpyHtoDAsync_v2(device, pinned, BYTES, stream));
    CHECK(cuLaunchKernel(function, 3, 1, 1, 64, 1, 1, 0, stream, NULL, NULL));
    CHECK(cuStreamEndCapture(stream, &graph));
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int round = 0; round < ROUNDS; round++)
        CHECK(cuGraphLaunch(exec, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuGraphExecDestroy(exec));
    CHECK(cuGraphDestroy(graph));
}

static NOINLINE void mapped(void) {
    CUmemAllocationProp prop = {.type = 1, .location = {1, 0}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at;
    CHECK(cuMemAddressReserve(&at, 2 * PAGE, 0, 0, 0));
    CHECK(cuMemCreate(&handle, PAGE, &prop, 0));
    CHECK(cuMemMap(at, PAGE, 0, handle, 0));
    CHECK(cuMemRelease(handle));
    CHECK(cuMemUnmap(at, PAGE));
    CHECK(cuMemAddressFree(at, 2 * PAGE));
}

/* Memory of every kind, held together and given back. */
static NOINLINE void memory(char *pageable) {
    CUdeviceptr pitched, managed;
    size_t pitch;
    void *locked;
    CHECK(cuMemAllocPitch_v2(&pitched, &pitch, 1000, 100, 4));
    EXPECT(pitch == 1024);
    CHECK(cuMemAllocManaged(&managed, BYTES, 1));
    CHECK(cuMemAllocHost_v2(&locked, BYTES));
    CHECK(cuMemHostRegister_v2(pageable, BYTES, 0));
    CHECK(cuMemHostUnregister(pageable));
    CHECK(cuMemFreeHost(locked));
    CHECK(cuMemFree_v2(managed));
    CHECK(cuMemFree_v2(pitched));
    EXPECT(cuMemAlloc_v2(&pitched, (size_t)1 << 50) == 2);
    EXPECT(cuMemFree_v2(managed) == 1);
}

int main(void) {
    CUdevice ordinal;
    CUcontext context, primary;
    CUmodule module;
    CUfunction function;
    CUstream stream;
    CUdeviceptr device, other;
    void *pinned;
    char *pageable = malloc(BYTES);
    EXPECT(pageable != NULL);
    memset(pageable, 7, BYTES);
    EXPECT(cuMemAlloc_v2(&device, BYTES) == 3); /* before cuInit */
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&ordinal, 0));
    CHECK(cuCtxCreate_v2(&context, 0, ordinal));
    CHECK(cuDevicePrimaryCtxRetain(&primary, ordinal));
    CHECK(cuStreamCreate(&stream, 1));
    CHECK(cuModuleLoadData(&module, "some image"));
    CHECK(cuModuleGetFunction(&function, module, "_Z6driverPf"));
    CHECK(cuMemAlloc_v2(&device, BYTES));
    CHECK(cuMemAlloc_v2(&other, BYTES));
    CHECK(cuMemHostAlloc(&pinned, BYTES, 0));
    leak();
    for (int round = 0; round < ROUNDS; round++) {
        copy_all(context, device, other, pageable, pinned, stream);
        CHECK(cuLaunchKernel(function, 4, 2, 1, 64, 1, 1, 128, stream, NULL, NULL));
        fill_all(device, stream);
    }
    memory(pageable);
    pooled(stream);
    graph(function, device, pinned, stream);
    mapped();
    CHECK(cuCtxSynchronize());
    CHECK(cuMemFreeHost(pinned));
    CHECK(cuMemFree_v2(other));
    CHECK(cuMemFree_v2(device));
    CHECK(cuModuleUnload(module));
    CHECK(cuStreamDestroy_v2(stream));
    CHECK(cuDevicePrimaryCtxRelease_v2(ordinal));
    CHECK(cuCtxDestroy_v2(context));
    free(pageable);
    puts("done");
    return 0;
}
