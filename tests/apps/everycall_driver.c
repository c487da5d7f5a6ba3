/*
 * everycall_driver.c - everycall's fourth part: the driver's calls, with device 0's context current
 * (the runtime's own).
 */
#include "everycall.h"

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr p);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleUnload(CUmodule module);
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, void *options, void *values,
                           unsigned int count, void *library_options, void *library_values,
                           unsigned int library_count);
CUresult cuLibraryUnload(CUlibrary library);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetCurrent(CUcontext *context);

static CUdeviceptr d, e; /* device memory */

static void driver_allocations(void) {
    CUdeviceptr p = 0, q = 0;
    size_t pitch = 0, free_bytes = 0, total = 0;
    void *host = NULL;

    CHECK(cuMemAllocPitch_v2(&p, &pitch, 100, 10, 4));
    CHECK(cuMemFree_v2(p));
    CHECK(cuMemAllocManaged(&p, 12345, 1));
    CHECK(cuMemcpy(p, d, 100));
    CHECK(cuMemFree_v2(p));
    CHECK(cuMemAllocAsync(&p, 1000, stream));
    CHECK(cuMemAllocAsync_ptsz(&q, 2000, stream));
    CHECK(cuMemFreeAsync(p, stream));
    CHECK(cuMemFreeAsync_ptsz(q, stream));
    CHECK(cuMemAllocHost_v2(&host, 3000));
    CHECK(cuMemcpyHtoD_v2(d, host, 3000));
    CHECK(cuMemFreeHost(host));
    CHECK(cuMemHostAlloc(&host, 5000, 0));
    CHECK(cuMemcpyDtoH_v2((char *)host + 10, d, 4000));
    CHECK(cuMemFreeHost(host));
    CHECK(cuMemHostRegister_v2(pageable, sizeof pageable, 0));
    CHECK(cuMemcpyHtoD_v2(d, pageable + 100, 500));
    CHECK(cuMemHostUnregister(pageable));
    CHECK(cuMemcpyHtoD_v2(d, pageable + 100, 500));
    CHECK(cuMemGetInfo_v2(&free_bytes, &total));
    EXPECT(free_bytes > 0 && free_bytes <= total);

    REFUSED(cuMemAlloc_v2(&p, (size_t)1 << 60));
    REFUSED(cuMemAlloc_v2(NULL, 100));
    REFUSED(cuMemAllocPitch_v2(&p, NULL, 100, 10, 4));
    REFUSED(cuMemAllocPitch_v2(NULL, &pitch, 100, 10, 4));
    REFUSED(cuMemAllocManaged(NULL, 100, 1));
    REFUSED(cuMemAllocAsync(NULL, 100, stream));
    REFUSED(cuMemAllocHost_v2(NULL, 100));
    REFUSED(cuMemHostAlloc(NULL, 100, 0));
    REFUSED(cuMemHostRegister_v2(NULL, 4096, 0));
    REFUSED(cuMemHostUnregister(pageable));
    REFUSED(cuMemFree_v2((CUdeviceptr)(uintptr_t)pageable));
    REFUSED(cuMemFreeHost(pageable));
    REFUSED(cuMemFreeAsync((CUdeviceptr)(uintptr_t)pageable, stream));
    REFUSED(cuMemGetInfo_v2(NULL, &total));
}

static void driver_pools(void) {
    CUmemPoolProps props = {.allocType = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemoryPool pool = NULL;
    CUdeviceptr p = 0, q = 0;
    uint64_t threshold = 4096;

    CHECK(cuMemPoolCreate(&pool, &props));
    CHECK(cuMemPoolSetAttribute(pool, 4, &threshold));
    CHECK(cuMemAllocFromPoolAsync(&p, 3000, pool, stream));
    CHECK(cuMemAllocFromPoolAsync_ptsz(&q, 4000, pool, stream));
    CHECK(cuMemFreeAsync(p, stream));
    CHECK(cuMemFreeAsync(q, stream));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemPoolTrimTo(pool, 0));
    CHECK(cuMemPoolDestroy(pool));
    REFUSED(cuMemPoolCreate(&pool, NULL));
    REFUSED(cuMemAllocFromPoolAsync(&p, 10, NULL, stream));
}

/* A driver copy and its twin, with the suffix that its name has. */
static void driver_copies(void) {
    PTDS(cuMemcpy, d, e, 100);
    PTSZ(cuMemcpyAsync, d, e, 200, stream);
    PTDS(cuMemcpyHtoD_v2, d, pageable, N);
    PTSZ(cuMemcpyHtoDAsync_v2, d, pinned, N, stream);
    PTDS(cuMemcpyDtoH_v2, pageable, d, N);
    PTSZ(cuMemcpyDtoHAsync_v2, pinned, d, N, stream);
    PTDS(cuMemcpyDtoD_v2, e, d, N);
    PTSZ(cuMemcpyDtoDAsync_v2, e, d, N, stream);
    CHECK(cuStreamSynchronize(stream));
    REFUSED_PTDS(cuMemcpyHtoD_v2, 0, pageable, N);
    REFUSED_PTDS(cuMemcpyHtoD_v2, d, NULL, N);
    REFUSED_PTDS(cuMemcpyDtoD_v2, d, e, (size_t)1 << 40);
    REFUSED(cuMemcpyDtoHAsync_v2(NULL, d, 8, stream));

    PTDS(cuMemsetD8_v2, d, 0x81, 100);
    PTDS(cuMemsetD16_v2, d, 0x8182, 100);
    PTDS(cuMemsetD32_v2, d, 0x81828384, 100);
    PTSZ(cuMemsetD8Async, d, 1, 100, stream);
    PTSZ(cuMemsetD16Async, d, 2, 100, stream);
    PTSZ(cuMemsetD32Async, d, 3, 100, stream);
    CHECK(cuStreamSynchronize(stream));
    REFUSED(cuMemsetD8_v2(0, 1, N));
    REFUSED(cuMemsetD32_v2(d, 1, (size_t)1 << 40));
}

static void driver_boxes(void) {
    CUDA_MEMCPY2D area = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = pageable,
                          .srcPitch = W,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = d,
                          .dstPitch = 2 * W,
                          .WidthInBytes = W,
                          .Height = H};
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = d,
                         .srcPitch = W,
                         .srcHeight = H,
                         .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                         .dstDevice = e,
                         .dstPitch = W,
                         .dstHeight = H,
                         .WidthInBytes = W,
                         .Height = H,
                         .Depth = D};
    PTDS(cuMemcpy2D_v2, &area);
    PTDS(cuMemcpy2DUnaligned_v2, &area);
    area.srcHost = pinned;
    area.srcXInBytes = 4;
    area.WidthInBytes = W - 4;
    PTSZ(cuMemcpy2DAsync_v2, &area, stream);
    PTDS(cuMemcpy3D_v2, &box);
    PTSZ(cuMemcpy3DAsync_v2, &box, stream);
    CHECK(cuStreamSynchronize(stream));
    REFUSED_PTDS(cuMemcpy2D_v2, NULL);
    area.dstDevice = 0;
    REFUSED_PTDS(cuMemcpy2D_v2, &area);
    REFUSED_PTDS(cuMemcpy3D_v2, NULL);
}

static void driver_arrays(void) {
    CUDA_ARRAY_DESCRIPTOR flat = {W / 4, H, 0x20 /* float */, 1};
    CUDA_ARRAY3D_DESCRIPTOR deep = {W / 4, H, D, 0x10 /* half */, 2, 0};
    CUarray a = NULL, b = NULL;

    CHECK(cuArrayCreate_v2(&a, &flat));
    CUDA_MEMCPY2D area = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = pageable,
                          .srcPitch = W,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = a,
                          .WidthInBytes = W,
                          .Height = H};
    CHECK(cuArray3DCreate_v2(&b, &deep));
    PTDS(cuMemcpy2D_v2, &area);
    CHECK(cuArrayDestroy(b));
    CHECK(cuArrayDestroy(a));
    REFUSED(cuArrayDestroy(a));
    REFUSED(cuArrayCreate_v2(&a, NULL));
    REFUSED(cuArray3DCreate_v2(NULL, &deep));
}

static void driver_handles(void) {
    CUipcMemHandle memory = {{0}};
    CUipcEventHandle handle = {{0}};
    CUevent theirs = NULL;
    CUdeviceptr p = 0;

    CHECK(cuIpcGetMemHandle(&memory, d));
    REFUSED(cuIpcGetMemHandle(NULL, d));
    REFUSED(cuIpcOpenMemHandle_v2(&p, memory, 1)); /* not by the process that gave it out */
    REFUSED(cuIpcCloseMemHandle(d));
    REFUSED(cuIpcGetEventHandle(&handle, event)); /* not an interprocess event */
    REFUSED(cuIpcOpenEventHandle(&theirs, handle));
}

static void driver_streams(void) {
    CUstream s = NULL, t = NULL;

    CHECK(cuStreamCreate(&s, 1));
    CHECK(cuStreamCreateWithPriority(&t, 1, -1));
    PTSZ(cuEventRecord, event, s);
    PTSZ(cuStreamWaitEvent, t, event, 0);
    CHECK(cuEventSynchronize(event));
    PTSZ(cuStreamSynchronize, t);
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamDestroy_v2(t));
    CHECK(cuStreamDestroy_v2(s));
    REFUSED(cuStreamCreate(NULL, 0));
    REFUSED(cuEventRecord(NULL, stream));
    REFUSED(cuEventSynchronize(NULL));
}

static void driver_launches(void) {
    static const unsigned long long image[8] = {0x00100001ba55ed50ull, 0};
    CUmodule module = NULL;
    CUlibrary library = NULL;
    CUfunction f = NULL, g = NULL;
    CUkernel k = NULL;
    void *arguments[] = {&d, NULL};
    CUlaunchConfig config = {4, 5, 6, 7, 8, 9, 10, stream, NULL, 0};

    CHECK(cuModuleLoadData(&module, image));
    CHECK(cuModuleGetFunction(&f, module, "triton_poi_fused_clone_0"));
    CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    CHECK(cuLibraryGetKernel(&k, library, "_Z3addPf"));
    CHECK(cuKernelGetFunction(&g, k));
    PTSZ(cuLaunchKernel, f, 1, 2, 3, 4, 5, 6, 7, stream, arguments, NULL);
    PTSZ(cuLaunchKernelEx, &config, g, arguments, NULL);
    PTSZ(cuLaunchCooperativeKernel, f, 1, 1, 1, 8, 1, 1, 0, stream, arguments);
    CHECK(cuCtxSynchronize());
    REFUSED(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
    REFUSED(cuLaunchKernel(f, 1, 1, 1, 2048, 1, 1, 0, stream, arguments, NULL));
    REFUSED(cuLaunchKernelEx(NULL, f, arguments, NULL));
    CHECK(cuModuleUnload(module));
    CHECK(cuLibraryUnload(library));
}

static void driver_graphs(void) {
    for (int twin = 0; twin < 2; twin++) {
        cudaGraph_t graph = NULL;
        cudaGraphExec_t exec = NULL;
        CHECK(twin ? cuStreamBeginCapture_v2_ptsz(stream, 0) : cuStreamBeginCapture_v2(stream, 0));
        CHECK(cuMemcpyDtoDAsync_v2(e, d, 64, stream));
        CHECK(cuMemsetD32Async(d, 0, 16, stream));
        CHECK(twin ? cuStreamEndCapture_ptsz(stream, (CUgraph *)&graph)
                   : cuStreamEndCapture(stream, (CUgraph *)&graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        PTSZ(cuGraphLaunch, (CUgraphExec)exec, stream);
        CHECK(cuStreamSynchronize(stream));
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
    }
    REFUSED(cuStreamEndCapture(stream, NULL));
    REFUSED(cuGraphLaunch(NULL, stream));
}

/* The last: it changes which context is current, and ends the memory of device 1. */
static void driver_contexts(void) {
    CUcontext usual = NULL, primary = NULL, c = NULL;
    CUdeviceptr there = 0;

    CHECK(cuCtxGetCurrent(&usual));
    CHECK(cuDevicePrimaryCtxRetain(&primary, 1));
    CHECK(cuCtxSetCurrent(primary));
    CHECK(cudaSetDevice(1)); /* so that both say the same */
    CHECK(cuMemAlloc_v2(&there, 1000));
    PTDS(cuMemcpyPeer, there, primary, d, usual, 500);
    PTSZ(cuMemcpyPeerAsync, d, usual, there, primary, 600, NULL);
    CHECK(cuCtxSynchronize());
    REFUSED_PTDS(cuMemcpyPeer, there, primary, d, NULL, 500);
    CHECK(cuMemFree_v2(there));
    CHECK(cudaSetDevice(0));
    CHECK(cuCtxSetCurrent(usual));
    CHECK(cuDevicePrimaryCtxRelease_v2(1));
    REFUSED(cuDevicePrimaryCtxRetain(NULL, 0));
    REFUSED(cuDevicePrimaryCtxRetain(&primary, 9));

    CHECK(cuCtxCreate_v2(&c, 0, 0));
    CHECK(cuCtxDestroy_v2(c));
    CHECK(cuCtxCreate_v3(&c, NULL, 0, 0, 0));
    CHECK(cuCtxDestroy_v2(c));
    CHECK(cuCtxCreate_v4(&c, NULL, 0, 0));
    CHECK(cuCtxDestroy_v2(c));
    CHECK(cuCtxSetCurrent(usual));
    REFUSED(cuCtxCreate_v2(&c, 0, 9));
    REFUSED(cuCtxDestroy_v2(NULL));
}

void driver_calls(void) {
    CHECK(cuMemAlloc_v2(&d, 2 * N));
    CHECK(cuMemAlloc_v2(&e, 2 * N));
    driver_allocations();
    driver_pools();
    driver_copies();
    driver_boxes();
    driver_arrays();
    driver_handles();
    driver_streams();
    driver_launches();
    driver_graphs();
    driver_contexts();
    CHECK(cuMemFree_v2(d));
    CHECK(cuMemFree_v2(e));
}

/* Ends what is left on device 0: its `left` was not freed. */
void driver_reset(void) {
    CHECK(cuDevicePrimaryCtxReset_v2(0));
    REFUSED(cuDevicePrimaryCtxReset_v2(9));
}
