/*
 * everycall_memory.c - everycall's second part: mipmapped arrays, batches of copies, memory of
 * other processes, of graphs and of the driver, what PyTorch's allocator reports, and handles.
 */
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "everycall.h"

/* Each level of a mipmapped array is an array that goes with it. */
void mipmaps(void) {
    struct cudaChannelFormatDesc texel = {32, 0, 0, 0, cudaChannelFormatKindSigned};
    struct cudaExtent extent = {W / 4, H, D};
    struct cudaMemcpy3DParms p = {0};
    cudaMipmappedArray_t mipmap = NULL, layered = NULL;
    cudaArray_t level = NULL;

    CHECK(cudaMallocMipmappedArray(&mipmap, &texel, extent, 3, 0));
    CHECK(cudaMallocMipmappedArray(&layered, &texel, extent, 99, 1));
    CHECK(cudaGetMipmappedArrayLevel(&level, mipmap, 1));
    p.srcPtr = (struct cudaPitchedPtr){pageable, W / 2, W / 2, H / 2};
    p.dstArray = level;
    p.extent = (struct cudaExtent){W / 8, H / 2, D / 2};
    p.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&p));
    REFUSED(cudaFreeArray(level));
    REFUSED(cudaGetMipmappedArrayLevel(&level, mipmap, 3));
    REFUSED(cudaGetMipmappedArrayLevel(NULL, mipmap, 0));
    REFUSED(cudaMallocMipmappedArray(NULL, &texel, extent, 3, 0));
    REFUSED(cudaMallocMipmappedArray(&mipmap, NULL, extent, 3, 0));
    CHECK(cudaFreeMipmappedArray(layered));
    CHECK(cudaFreeMipmappedArray(mipmap));
    REFUSED(cudaFreeMipmappedArray(mipmap));
}

/* The runtime takes either form of the call: where the stream is tells its version. */
#if CUDA_MAJOR >= 13
#define LINES(twin, n, s) cudaMemcpyBatchAsync##twin(dst, src, size, n, &attribute, &at, 1, s, NULL)
#define BOXES(twin, n, flags, s) cudaMemcpy3DBatchAsync##twin(n, op, (void *)flags, s, NULL)
#else
#define LINES(twin, n, s)                                                                          \
    cudaMemcpyBatchAsync##twin(dst, src, size, n, &attribute, &at, 1, &failed, s)
#define BOXES(twin, n, flags, s) cudaMemcpy3DBatchAsync##twin(n, op, &failed, (void *)flags, s)
#endif

void batches(void) {
    struct cudaChannelFormatDesc texel = {32, 0, 0, 0, cudaChannelFormatKindSigned};
    struct cudaMemcpyAttributes attribute = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    void *dst[] = {device, (char *)device + 512, (char *)device + 1024};
    const void *src[] = {pinned, pinned + 1000, pinned + 2000};
    size_t size[] = {500, 300, 200}, at = 0;
    struct cudaMemcpy3DBatchOp op[2] = {0};
    cudaArray_t array = NULL;
    __attribute__((unused)) size_t failed = 0;

    CHECK(LINES(, 3, stream));
    CHECK(LINES(_ptsz, 3, NULL)); /* the thread's own stream, not the legacy one */
    src[0] = pageable;
    CHECK(LINES(, 1, stream));
    REFUSED(LINES(, 3, NULL));
    REFUSED(LINES(, 0, stream));
    size[2] = N;
    REFUSED(LINES(_ptsz, 3, stream));

    CHECK(cudaMallocArray(&array, &texel, W / 4, H, 0));
    for (int i = 0; i < 2; i++) {
        op[i].src.type = op[i].dst.type = cudaMemcpyOperandTypePointer;
        op[i].src.op.ptr.ptr = (char *)device + i * W * H;
        op[i].dst.op.ptr.ptr = pinned + i * W * H;
        op[i].extent = (struct cudaExtent){W, H, 1};
        op[i].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    }
    CHECK(BOXES(, 2, 0, stream));
    for (int i = 0; i < 2; i++) {
        op[i].dst.type = cudaMemcpyOperandTypeArray;
        op[i].dst.op.array.array = array;
        op[i].dst.op.array.offset = (struct cudaOffset3D){0, 0, 0};
        op[i].extent = (struct cudaExtent){W / 4, H / 2, 1};
    }
    CHECK(BOXES(_ptsz, 2, 0, stream));
    CHECK(cudaStreamSynchronize(stream));
    REFUSED(BOXES(, 2, 1, stream));
    op[1].extent.depth = 0;
    REFUSED(BOXES(_ptsz, 2, 0, stream));
    CHECK(cudaFreeArray(array));
}

/* ---- another process ------------------------------------------------------------------------ */

struct exported {
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t event;
};

/* The other process: gives its handles out and waits until nobody needs them. */
int export_handles(void) {
    struct exported out;
    void *p = NULL;
    char end;

    CHECK(cudaMalloc(&p, 3000));
    CHECK(cudaEventCreateWithFlags(&event, 2 | 4));
    CHECK(cudaIpcGetMemHandle(&out.memory, p));
    CHECK(cudaIpcGetEventHandle(&out.event, event));
    EXPECT(write(STDOUT_FILENO, &out, sizeof out) == sizeof out);
    return read(STDIN_FILENO, &end, 1) != 0;
}

/* Starts it, unrecorded and unlogged: it is no part of what is tested. */
static pid_t start_exporter(char *self, int *to, struct exported *out) {
    char *argv[] = {self, (char *)"export", NULL};
    char *env[64];
    int in[2], back[2], kept = 0;
    pid_t pid = -1;
    posix_spawn_file_actions_t actions;

    for (char **e = environ; *e && kept < 63; e++)
        if (strncmp(*e, "LD_PRELOAD=", 11) && strncmp(*e, "STANDIN_LOG=", 12) &&
            strncmp(*e, "STANDIN_FAIL=", 13) && strncmp(*e, "LAYOUTSPY_", 10))
            env[kept++] = *e;
    env[kept] = NULL;
    EXPECT(pipe(in) == 0 && pipe(back) == 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, back[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, in[1]);
    EXPECT(posix_spawn(&pid, self, &actions, NULL, argv, env) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(back[1]);
    EXPECT(read(back[0], out, sizeof *out) == sizeof *out);
    close(back[0]);
    *to = in[1];
    return pid;
}

/* The same memory and event by the driver's functions. */
static void other_process_by_driver(const struct exported *got, cudaEvent_t shared) {
    CUipcMemHandle memory;
    CUipcEventHandle handle;
    CUdeviceptr p = 0;
    CUevent theirs = NULL;

    memcpy(&memory, &got->memory, sizeof memory);
    memcpy(&handle, &got->event, sizeof handle);
    CHECK(cuIpcOpenMemHandle_v2(&p, memory, 1));
    CHECK(cuMemcpyHtoD_v2(p, pageable, 2000));
    CHECK(cuIpcCloseMemHandle(p));
    CHECK(cuIpcOpenEventHandle(&theirs, handle));
    CHECK(cudaEventDestroy((cudaEvent_t)theirs));
    CHECK(cuIpcGetEventHandle(&handle, (CUevent)shared));
}

void other_process(char *self) {
    struct exported got = {0}, own = {0};
    cudaEvent_t shared = NULL, theirs = NULL;
    void *p = NULL, *again = NULL;
    int to = -1, status = 1;
    pid_t pid = start_exporter(self, &to, &got);

    CHECK(cudaIpcOpenMemHandle(&p, got.memory, 1));
    CHECK(cudaIpcOpenMemHandle(&again, got.memory, 1)); /* once more: the same address */
    EXPECT(p == again);
    CHECK(cudaMemcpy(p, pageable, 3000, cudaMemcpyHostToDevice));
    CHECK(cudaIpcOpenEventHandle(&theirs, got.event));
    CHECK(cudaEventRecord(theirs, stream));
    CHECK(cudaEventSynchronize(theirs));
    CHECK(cudaEventDestroy(theirs));
    REFUSED(cudaFree(p));
    CHECK(cudaIpcCloseMemHandle(again));
    CHECK(cudaIpcCloseMemHandle(p));
    REFUSED(cudaIpcCloseMemHandle(p));
    REFUSED(cudaIpcOpenMemHandle(&p, got.memory, 0));

    CHECK(cudaEventCreateWithFlags(&shared, 2 | 4));
    other_process_by_driver(&got, shared);
    CHECK(cudaIpcGetMemHandle(&own.memory, device));
    CHECK(cudaIpcGetEventHandle(&own.event, shared));
    REFUSED(cudaIpcOpenMemHandle(&p, own.memory, 1)); /* not by the process that gave it out */
    REFUSED(cudaIpcOpenEventHandle(&theirs, own.event));
    REFUSED(cudaIpcGetMemHandle(&own.memory, pageable));
    REFUSED(cudaIpcGetMemHandle(NULL, device));
    REFUSED(cudaIpcGetEventHandle(&own.event, event)); /* not an interprocess event */
    CHECK(cudaEventDestroy(shared));
    close(to);
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    REFUSED(cudaIpcOpenMemHandle(&p, got.memory, 1)); /* nobody is there any more */
}

/* ---- memory of graphs, of the driver, and blocks of PyTorch ---------------------------------- */

#if CUDA_MAJOR >= 13
#define ADD_NODE(out, graph, after, n, params)                                                     \
    cudaGraphAddNode(out, graph, after, NULL, (void *)(uintptr_t)(n), params)
#else
#define ADD_NODE(out, graph, after, n, params)                                                     \
    cudaGraphAddNode(out, graph, after, (void *)(uintptr_t)(n), params, NULL)
#endif

void graph_memory(void) {
    struct cudaMemAllocNodeParams alloc = {
        .poolProps = {.allocType = (enum cudaMemAllocationType)1,
                      .location = {cudaMemLocationTypeDevice, 0}},
        .bytesize = 5000};
    struct cudaGraphNodeParams node = {.type = cudaGraphNodeTypeMemAlloc};
    struct cudaGraphNodeParams end = {.type = cudaGraphNodeTypeMemFree};
    cudaGraph_t graph = NULL;
    cudaGraphNode_t first = NULL, second = NULL;
    cudaGraphExec_t exec = NULL;

    node.alloc = alloc;
    node.alloc.bytesize = 6000;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemAllocNode(&first, graph, NULL, 0, &alloc));
    CHECK(ADD_NODE(&second, graph, NULL, 0, &node));
    CHECK(cudaGraphAddMemFreeNode(&first, graph, &first, 1, alloc.dptr));
    REFUSED(cudaGraphAddMemFreeNode(&first, graph, NULL, 0, alloc.dptr));
    REFUSED(cudaGraphAddMemFreeNode(&first, graph, NULL, 0, device));
    end.free.dptr = node.alloc.dptr;
    CHECK(ADD_NODE(&second, graph, &second, 1, &end));
    REFUSED(ADD_NODE(&second, graph, NULL, 0, &end));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaDeviceGraphMemTrim(0));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
    REFUSED(cudaDeviceGraphMemTrim(7));
    REFUSED(cudaGraphAddMemAllocNode(&first, NULL, NULL, 0, &alloc));

    /* Captured, launched, and freed by the program. */
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMallocAsync(&alloc.dptr, 7000, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    REFUSED(cudaFreeAsync(alloc.dptr, stream)); /* no launch has allocated it yet */
    CHECK(cudaGraphLaunch(exec, stream));
    REFUSED(cudaGraphLaunch(exec, stream)); /* not freed since */
    CHECK(cudaFreeAsync(alloc.dptr, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

void driver_memory(void) {
    enum { PAGE = 2 << 20 };
    CUmemAllocationProp prop = {.type = 1, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUdeviceptr at = 0;
    CUmemGenericAllocationHandle handle = 0;

    CHECK(cuMemAddressReserve(&at, 4 * PAGE, 0, 0, 0));
    CHECK(cuMemCreate(&handle, 2 * PAGE, &prop, 0));
    CHECK(cuMemMap(at + PAGE, 2 * PAGE, 0, handle, 0));
    CHECK(cudaMemcpy((void *)(uintptr_t)(at + PAGE), pageable, N, cudaMemcpyDefault));
    REFUSED(cuMemMap(at + PAGE, 2 * PAGE, 0, handle, 0));
    REFUSED(cuMemUnmap(at, PAGE));
    REFUSED(cuMemAddressFree(at, 4 * PAGE));
    CHECK(cuMemUnmap(at + PAGE, 2 * PAGE));
    CHECK(cuMemRelease(handle));
    REFUSED(cuMemRelease(handle));
    CHECK(cuMemAddressFree(at, 4 * PAGE));
    REFUSED(cuMemCreate(&handle, 1000, &prop, 0));
    REFUSED(cuMemAddressReserve(NULL, PAGE, 0, 0, 0));
}

/* What libc10_cuda.so says of its blocks; the CPU's are not recorded. */
void blocks(void) {
    struct ls_c10_device cuda = {LS_C10_CUDA, 1}, cpu = {0, -1};

    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(device, 512, 512, 2 << 20, cuda);
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(pageable, 64, 64, 0, cpu);
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(device, -512, 0, 2 << 20, cuda);
    _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE(device, 1024, 1024, 2 << 20, cuda);
    _ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE(device, -1024, 0, 2 << 20, cuda);
    _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(1l << 40, 0, 2 << 20, cuda);
    _ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE(1l << 40, 0, 2 << 20, cuda);
}

/* What a handle is told: only what it did not know yet is recorded, a refusal always. */
void library_handles(void) {
    cublasHandle_t handle = NULL;
    void *workspace = NULL;

    CHECK(cudaMalloc(&workspace, 1 << 20));
    CHECK(cublasCreate_v2(&handle));
    for (int i = 0; i < 3; i++) {
        CHECK(cublasSetStream_v2(handle, stream));
        CHECK(cublasSetWorkspace_v2(handle, workspace, 1 << 20));
        REFUSED(cublasSetWorkspace_v2(handle, (char *)workspace + 1, 1 << 19));
    }
    CHECK(cublasSetStream_v2(handle, NULL));
    CHECK(cublasSetWorkspace_v2(handle, workspace, 1 << 19));
    CHECK(cublasDestroy_v2(handle));
    REFUSED(cublasDestroy_v2(handle));
    CHECK(cublasCreate_v2(&handle)); /* where the first one was, perhaps: it knows nothing */
    CHECK(cublasSetStream_v2(handle, NULL));
    CHECK(cublasDestroy_v2(handle));
    REFUSED(cublasCreate_v2(NULL));
    CHECK(cudaFree(workspace));
}
