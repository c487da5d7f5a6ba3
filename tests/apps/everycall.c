/*
 * everycall.c - every row of the table, with and without success: first each row with nothing but
 * zeros and NULLs (made from the table, so none can be left out), then each row as it is meant,
 * and the refusals that need more than zeros. Wants two devices. With the argument "go-on" no
 * failure ends it: for a device that refuses everything. With "export" it is the other process of
 * its own IPC calls.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "everycall.h"
#include "layoutspy/api.h"

static float variable[N / sizeof(float)]; /* the host shadow of a __device__ array */
int go_on;
cudaStream_t stream;
cudaEvent_t event;
unsigned char pageable[N];
unsigned char *pinned;
void *device;
static void *other, *far; /* far: on device 1 */

static NOINLINE void kernel_old(int *data) {
    void *arguments[] = {&data, NULL};
    STUB_LEGACY(kernel_old, arguments);
}
static NOINLINE void kernel_new(int *data) {
    void *arguments[] = {&data, NULL};
    STUB(kernel_new, arguments);
}
static void never_registered(void) {
}
MODULE(everycall,
       REGISTER_KERNEL(kernel_old, "_Z10kernel_oldPi")
           REGISTER_KERNEL(kernel_new, "_Z10kernel_newPi") REGISTER_VARIABLE(variable, "variable"))

#define FUNCTION(f) ((const void *)(void (*)(void))(f))
/* Any function with zeros: enough of them for every register and for structures on the stack. */
typedef long (*any_function)(long, long, long, long, long, long, long, long, long, long, long, long,
                             long, long, long, long, long, long, long, long, long, long, long, long,
                             long, long, long, long);
static int with_zeros(void (*function)(void)) {
    return (int)((any_function)function)(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                         0, 0, 0, 0, 0, 0, 0, 0);
}

/* Names of another version of the runtime, or of cuDNN. */
#pragma weak cudaGetDeviceProperties
#pragma weak cudaGetDeviceProperties_v2
#define API_MAP(...)
#define API_OPERANDS(LIB, ret, name, CLASS, STACK, params, args, operands, ...)                    \
    extern __attribute__((weak)) ret name params;
#include "layoutspy/api/library_before9.def"
#undef API_MAP
#undef API_OPERANDS
static bool is_absent(const char *library, const char *name) {
    static void *runtime, *cudnn;
    char path[32];
    if (strcmp(library, "CUDART") != 0 && strcmp(library, "CUDNN") != 0)
        return false;
    snprintf(path, sizeof path, "libcudart.so.%s", CUDA_MAJOR == 12 ? "12" : "13");
    if (!runtime) {
        EXPECT((runtime = dlopen(path, RTLD_LAZY | RTLD_NOLOAD)) != NULL);
        EXPECT((cudnn = dlopen("libcudnn.so.9", RTLD_LAZY | RTLD_NOLOAD)) != NULL);
    }
    return !dlsym(strcmp(library, "CUDNN") == 0 ? cudnn : runtime, name);
}

/* Zeros are a good stream and mode for cudaStreamBeginCapture_ptsz and the driver's. */
static void end_capture(void) {
    cudaGraph_t graph = NULL;
    CHECK(cudaStreamEndCapture_ptsz(NULL, &graph));
    CHECK(cudaGraphDestroy(graph));
}

static void all_rows_with_zeros(void) {
    int rows = 0;
#define API(LIB, ret, name, CLASS, ...)                                                            \
    if (LS_CLASS_##CLASS != LS_CLASS_MAP && !is_absent(#LIB, #name)) {                             \
        int status = with_zeros((void (*)(void))name);                                             \
        printf("%s %d\n", #name, status);                                                          \
        rows++;                                                                                    \
        if (LS_CLASS_##CLASS == LS_CLASS_CAPTURE_BEGIN && status == 0)                             \
            end_capture();                                                                         \
    }
#define API_VOID_WHEN(LIB, name, CLASS, ...)                                                       \
    (void)with_zeros((void (*)(void))name);                                                        \
    rows++;
#include "layoutspy/api/all.def"
    printf("rows %d\n", rows);
    (void)cudaGetLastError();
}

/* Pageable memory at an address that was pinned until now. */
static void copy_from_where_pinned_memory_was(void *freed) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    void *p = freed ? mmap(freed, 4096, PROT_READ | PROT_WRITE, flags, -1, 0) : MAP_FAILED;
    if (p == MAP_FAILED)
        return;
    CHECK(cudaMemcpy(device, p, 300, cudaMemcpyDefault));
    munmap(p, 4096);
}

static void memory(void) {
    void *p = NULL, *q = NULL;
    size_t pitch = 0, free_bytes = 0, total = 0;
    struct cudaPitchedPtr pitched = {0};

    CHECK(cudaMallocPitch(&p, &pitch, 100, 10));
    CHECK(cudaFree(p));
    CHECK(cudaMalloc3D(&pitched, (struct cudaExtent){100, 10, 3}));
    CHECK(cudaFree(pitched.ptr));
    CHECK(cudaMallocManaged(&p, 12345, 1));
    CHECK(cudaMemcpy(p, pageable, N, cudaMemcpyDefault));
    CHECK(cudaFree(p));
    CHECK(cudaMallocAsync(&p, 1000, stream));
    CHECK(cudaMallocAsync_ptsz(&q, 2000, stream));
    CHECK(cudaFreeAsync(p, stream));
    CHECK(cudaFreeAsync_ptsz(q, stream));
    CHECK(cudaHostAlloc(&p, 5000, 0));
    CHECK(cudaFreeHost(p));
    copy_from_where_pinned_memory_was(p);
    CHECK(cudaHostRegister(pageable, sizeof pageable, 0));
    CHECK(cudaMemcpy(device, pageable + 100, 500, cudaMemcpyDefault)); /* inside a pinned range */
    CHECK(cudaHostUnregister(pageable));
    CHECK(cudaMemcpy(device, pageable + 100, 500, cudaMemcpyDefault)); /* pageable again */
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    EXPECT(free_bytes > 0 && free_bytes <= total);

    REFUSED(cudaMalloc(&p, (size_t)1 << 60));
    REFUSED(cudaMalloc(NULL, 100));
    REFUSED(cudaMallocPitch(&p, NULL, 100, 10));
    REFUSED(cudaMallocPitch(NULL, &pitch, 100, 10));
    REFUSED(cudaMalloc3D(NULL, (struct cudaExtent){100, 10, 3}));
    REFUSED(cudaMallocManaged(NULL, 100, 1));
    REFUSED(cudaMallocAsync(NULL, 100, stream));
    REFUSED(cudaMallocAsync_ptsz(NULL, 100, stream));
    REFUSED(cudaMallocHost(NULL, 100));
    REFUSED(cudaHostAlloc(NULL, 100, 0));
    REFUSED(cudaHostRegister(NULL, 4096, 0));
    REFUSED(cudaHostUnregister(pageable));
    REFUSED(cudaFree(pageable));
    REFUSED(cudaFree((char *)device + 8));
    REFUSED(cudaFreeHost(pageable));
    REFUSED(cudaFreeAsync(pageable, stream));
    REFUSED(cudaFreeAsync_ptsz(pageable, stream));
    REFUSED(cudaMemGetInfo(NULL, &total));
    REFUSED(cudaMemGetInfo(&free_bytes, NULL));
}

static void pools(void) {
    struct cudaMemPoolProps props = {0};
    cudaMemPool_t pool = NULL, usual = NULL;
    void *p = NULL, *q = NULL;
    uint64_t reserved;
    int yes = 1;

    props.allocType = (enum cudaMemAllocationType)1;
    props.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPoolCreate(&pool, &props));
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, &yes));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, &yes));
    CHECK(cudaMemPoolGetAttribute(pool, (enum cudaMemPoolAttr)5, &reserved));
    REFUSED(cudaMemPoolGetAttribute(pool, (enum cudaMemPoolAttr)5, NULL));
    CHECK(cudaMallocFromPoolAsync(&p, 3000, pool, stream));
    CHECK(cudaMallocFromPoolAsync_ptsz(&q, 4000, pool, stream));
    CHECK(cudaFreeAsync(q, stream));
    CHECK(cudaFree(p)); /* cudaFree takes stream-ordered memory too */
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPoolTrimTo(pool, 0));
    CHECK(cudaDeviceSetMemPool(0, pool));
    CHECK(cudaDeviceGetDefaultMemPool(&usual, 0));
    CHECK(cudaDeviceSetMemPool(0, usual));
    CHECK(cudaMemPoolDestroy(pool));
    REFUSED(cudaMemPoolCreate(NULL, &props));
    REFUSED(cudaMemPoolCreate(&pool, NULL));
    REFUSED(cudaMallocFromPoolAsync(NULL, 10, usual, stream));
    REFUSED(cudaMallocFromPoolAsync_ptsz(&p, 10, NULL, stream));
}

static void plain_copies(void) {
    PTDS(cudaMemcpy, device, pageable, N, cudaMemcpyHostToDevice);
    PTDS(cudaMemcpy, pageable, device, 100, cudaMemcpyDefault);
    PTSZ(cudaMemcpyAsync, other, device, N, cudaMemcpyDeviceToDevice, stream);
    PTSZ(cudaMemcpyAsync, pinned, device, N, cudaMemcpyDeviceToHost, stream);
    PTSZ(cudaMemcpyAsync, pinned, pageable, 10, cudaMemcpyHostToHost, stream);
    PTSZ(cudaMemcpyAsync, device, pinned + 10, 20, cudaMemcpyDefault, NULL);
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpyPeer(far, 1, device, 0, 1000));
    CHECK(cudaMemcpyPeerAsync(far, 1, device, 0, 1001, stream));
    PTDS(cudaMemcpy2D, device, W * 2, pageable, W, W, H, cudaMemcpyHostToDevice);
    PTSZ(cudaMemcpy2DAsync, pinned, W, device, W * 2, W, H, cudaMemcpyDefault, stream);
    PTDS(cudaMemcpyToSymbol, variable, pageable, 40, 8, cudaMemcpyHostToDevice);
    PTSZ(cudaMemcpyToSymbolAsync, variable, device, 44, 4, cudaMemcpyDeviceToDevice, stream);
    PTDS(cudaMemcpyFromSymbol, pageable, variable, 48, 0, cudaMemcpyDeviceToHost);
    PTSZ(cudaMemcpyFromSymbolAsync, pinned, variable, 52, 12, cudaMemcpyDefault, stream);
    CHECK(cudaStreamSynchronize(stream));

    REFUSED_PTDS(cudaMemcpy, NULL, pageable, N, cudaMemcpyHostToDevice);
    REFUSED_PTDS(cudaMemcpy, device, NULL, N, cudaMemcpyHostToDevice);
    REFUSED_PTDS(cudaMemcpy, device, pageable, N + 1, cudaMemcpyDeviceToDevice);
    REFUSED_PTDS(cudaMemcpy, device, pageable, N, (enum cudaMemcpyKind)9);
    REFUSED_PTDS(cudaMemcpy, pageable, device, N, cudaMemcpyHostToDevice);
    REFUSED_PTDS(cudaMemcpy2D, device, 10, pageable, W, W, H, cudaMemcpyHostToDevice);
    REFUSED_PTDS(cudaMemcpy2D, NULL, W, pageable, W, W, H, cudaMemcpyHostToDevice);
    REFUSED_PTDS(cudaMemcpyToSymbol, variable, pageable, N + 1, 0, cudaMemcpyHostToDevice);
    REFUSED_PTDS(cudaMemcpyToSymbol, NULL, pageable, 8, 0, cudaMemcpyHostToDevice);
    REFUSED_PTDS(cudaMemcpyFromSymbol, pageable, pageable, 8, 0, cudaMemcpyDeviceToHost);
    REFUSED(cudaMemcpyAsync(device, NULL, 8, cudaMemcpyHostToDevice, stream));
    REFUSED(cudaMemcpyAsync_ptsz(NULL, pinned, 8, cudaMemcpyHostToDevice, stream));
    REFUSED(cudaMemcpyPeer(far, 1, device, 7, 1000));
    REFUSED(cudaMemcpyPeerAsync(NULL, 1, device, 0, 1000, stream));
}

static void array_copies(cudaArray_t a, cudaArray_t b) {
    PTDS(cudaMemcpy2DToArray, a, 0, 0, pageable, W, W, H, cudaMemcpyHostToDevice);
    PTSZ(cudaMemcpy2DToArrayAsync, a, 0, 0, pinned, W, W, H, cudaMemcpyHostToDevice, stream);
    PTDS(cudaMemcpy2DFromArray, pageable, W, a, 0, 0, W, H, cudaMemcpyDeviceToHost);
    PTSZ(cudaMemcpy2DFromArrayAsync, device, W, a, 0, 0, W, H, cudaMemcpyDeviceToDevice, stream);
    PTDS(cudaMemcpy2DArrayToArray, b, 0, 0, a, 0, 0, W, H, cudaMemcpyDeviceToDevice);
    PTDS(cudaMemcpyToArray, a, 0, 0, pageable, W, cudaMemcpyHostToDevice);
    PTSZ(cudaMemcpyToArrayAsync, a, 0, 0, pinned, W, cudaMemcpyDefault, stream);
    PTDS(cudaMemcpyFromArray, pageable, a, 0, 0, W, cudaMemcpyDeviceToHost);
    PTSZ(cudaMemcpyFromArrayAsync, pinned, a, 0, 0, W, cudaMemcpyDeviceToHost, stream);
    PTDS(cudaMemcpyArrayToArray, b, 0, 0, a, 0, 0, W, cudaMemcpyDeviceToDevice);
    CHECK(cudaStreamSynchronize(stream));
    REFUSED_PTDS(cudaMemcpyToArray, NULL, 0, 0, pageable, W, cudaMemcpyHostToDevice);
    REFUSED_PTDS(cudaMemcpyToArray, a, 0, 0, NULL, W, cudaMemcpyHostToDevice);
    REFUSED_PTDS(cudaMemcpyFromArray, NULL, a, 0, 0, W, cudaMemcpyDeviceToHost);
    REFUSED_PTDS(cudaMemcpy2DToArray, a, 0, 0, pageable, W, W, H * 100, cudaMemcpyHostToDevice);
}

/* W floats wide would be 4 W bytes: arrays here hold 32-bit texels, so W / 4 of them in a row. */
static void arrays(void) {
    struct cudaChannelFormatDesc texel = {32, 0, 0, 0, cudaChannelFormatKindSigned};
    struct cudaMemcpy3DParms p = {0};
    cudaArray_t a = NULL, b = NULL, box = NULL;

    CHECK(cudaMallocArray(&a, &texel, W / 4, H, 0));
    CHECK(cudaMallocArray(&b, &texel, W / 4, H, 0));
    CHECK(cudaMalloc3DArray(&box, &texel, (struct cudaExtent){W / 4, H, D}, 0));
    array_copies(a, b);

    /* With an array the extent counts texels. */
    p.srcPtr = (struct cudaPitchedPtr){pageable, W, W, H};
    p.dstArray = box;
    p.extent = (struct cudaExtent){W / 4, H, D};
    p.kind = cudaMemcpyHostToDevice;
    PTDS(cudaMemcpy3D, &p);
    p.srcPtr.ptr = pinned;
    PTSZ(cudaMemcpy3DAsync, &p, stream);

    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaFreeArray(box));
    CHECK(cudaFreeArray(b));
    CHECK(cudaFreeArray(a));
    REFUSED(cudaFreeArray(a));
    REFUSED(cudaMallocArray(NULL, &texel, W, H, 0));
    REFUSED(cudaMallocArray(&a, NULL, W, H, 0));
    REFUSED(cudaMalloc3DArray(NULL, &texel, (struct cudaExtent){W, H, D}, 0));
}

static void boxes(void) {
    struct cudaMemcpy3DParms p = {0};
    struct cudaMemcpy3DPeerParms peer = {0};
    struct cudaPitchedPtr box = {device, W, W, H};

    p.srcPtr = (struct cudaPitchedPtr){pageable, W, W, H};
    p.dstPtr = box;
    p.extent = (struct cudaExtent){W, H, D};
    p.kind = cudaMemcpyDefault;
    PTDS(cudaMemcpy3D, &p);
    p.srcPtr.ptr = other;
    PTSZ(cudaMemcpy3DAsync, &p, stream);
    peer.srcPtr = box;
    peer.dstPtr = (struct cudaPitchedPtr){far, W, W, H};
    peer.dstDevice = 1;
    peer.extent = p.extent;
    PTDS(cudaMemcpy3DPeer, &peer);
    PTSZ(cudaMemcpy3DPeerAsync, &peer, stream);
    p.srcPtr.ptr = NULL;
    REFUSED_PTDS(cudaMemcpy3D, &p);
    peer.srcDevice = 9;
    REFUSED_PTDS(cudaMemcpy3DPeer, &peer);

    PTDS(cudaMemset, device, 1, N);
    PTSZ(cudaMemsetAsync, device, -2, 100, stream);
    PTDS(cudaMemset2D, device, W * 2, 3, W, H);
    PTSZ(cudaMemset2DAsync, device, W, 4, W, H, stream);
    PTDS(cudaMemset3D, box, 5, (struct cudaExtent){W, H, D});
    PTSZ(cudaMemset3DAsync, box, 6, (struct cudaExtent){W / 2, H, D}, stream);
    CHECK(cudaStreamSynchronize(stream));
    REFUSED_PTDS(cudaMemset, NULL, 1, N);
    REFUSED_PTDS(cudaMemset, device, 1, N + 1);
    REFUSED_PTDS(cudaMemset2D, NULL, W, 3, W, H);
}

static void on_callback(cudaStream_t s, cudaError_t status, void *data) {
    (void)s;
    *(int *)data += status == cudaSuccess;
}
static void on_host(void *data) {
    ++*(int *)data;
}

static void streams_and_events(void) {
    cudaStream_t s[3];
    cudaEvent_t e = NULL;
    int called = 0;

    CHECK(cudaInitDevice(0, 0, 0));
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamCreate(&s[0]));
    CHECK(cudaStreamCreateWithFlags(&s[1], 1));
    CHECK(cudaStreamCreateWithPriority(&s[2], 1, -1));
    CHECK(cudaEventCreate(&e));
    PTSZ(cudaEventRecord, e, s[0]);
    PTSZ(cudaEventRecordWithFlags, e, s[1], 0);
    PTSZ(cudaStreamWaitEvent, s[2], e, 0);
    PTSZ(cudaStreamAddCallback, s[0], on_callback, &called, 0);
    PTSZ(cudaLaunchHostFunc, s[0], on_host, &called);
    PTSZ(cudaStreamSynchronize, s[0]);
    EXPECT(called == 4);
    CHECK(cudaEventSynchronize(e));
    CHECK(cudaDeviceSynchronize());
    PTSZ(cudaStreamQuery, s[0]);
    CHECK(cudaEventQuery(e));
    for (int i = 0; i < 3; i++)
        CHECK(cudaStreamDestroy(s[i]));
    CHECK(cudaEventDestroy(e));
    REFUSED(cudaSetDevice(7));
#if CUDA_MAJOR >= 13
    CHECK(cudaGetDeviceProperties((struct cudaDeviceProp *)pageable, 1));
#else
    CHECK(cudaGetDeviceProperties_v2((struct cudaDeviceProp *)pageable, 1));
#endif
    REFUSED(cudaInitDevice(-1, 0, 0));
    REFUSED(cudaEventRecord(NULL, stream));
    REFUSED(cudaStreamAddCallback(stream, NULL, NULL, 0));
    REFUSED(cudaLaunchHostFunc(stream, NULL, NULL));
}

static void launches(void) {
    void *arguments[] = {NULL};
    cudaKernel_t kernel = NULL;
    cudaFunction_t function = NULL;
    cudaLaunchConfig_t config = {{4, 5, 6}, {7, 8, 9}, 10, stream, NULL, 0};

    LAUNCH(dim(3, 1, 1), dim(32, 2, 1), 16, stream, kernel_old((int *)device));
    LAUNCH(dim(65536, 7, 9), dim(1, 1, 1), 0, NULL, kernel_new((int *)device));
    PTSZ(cudaLaunchKernel, FUNCTION(kernel_old), dim(1, 2, 3), dim(4, 5, 6), arguments, 7, stream);
    PTSZ(cudaLaunchKernelExC, &config, FUNCTION(kernel_new), arguments);
    PTSZ(cudaLaunchCooperativeKernel, FUNCTION(kernel_old), dim(1, 1, 1), dim(8, 1, 1), arguments,
         0, stream);
    CHECK(__cudaGetKernel(&kernel, FUNCTION(kernel_old)));
    PTSZ(__cudaLaunchKernel, kernel, dim(2, 1, 1), dim(64, 1, 1), arguments, 0, NULL);
    CHECK(cudaGetKernel(&kernel, FUNCTION(kernel_new)));
    PTSZ(__cudaLaunchKernel, kernel, dim(2, 1, 1), dim(64, 1, 1), arguments, 0, NULL);
    CHECK(cudaGetFuncBySymbol(&function, FUNCTION(kernel_new)));
    CHECK(cudaDeviceSynchronize());
    REFUSED(cudaLaunchKernel(FUNCTION(never_registered), dim(1, 1, 1), dim(1, 1, 1), arguments, 0,
                             stream));
    REFUSED(cudaLaunchKernel(FUNCTION(kernel_old), dim(1, 1, 1), dim(2048, 1, 1), arguments, 0,
                             stream));
    REFUSED(cudaLaunchKernel_ptsz(FUNCTION(kernel_old), dim(0, 1, 1), dim(1, 1, 1), arguments, 0,
                                  stream));
    REFUSED(cudaLaunchKernelExC(NULL, FUNCTION(kernel_old), arguments));
}

static void graphs(void) {
    cudaGraph_t graph = NULL, own = NULL;
    cudaGraphExec_t exec = NULL;
    /* Never seen before the capture: nothing may be asked about it then. */
    unsigned char *fresh = (unsigned char *)mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *p = NULL;

    for (int twin = 0; twin < 2; twin++) {
        CHECK(twin ? cudaStreamBeginCapture_ptsz(stream, cudaStreamCaptureModeGlobal)
                   : cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        CHECK(cudaMemcpyAsync(device, pinned, 256, cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemcpyAsync(device, fresh + 100, 100, cudaMemcpyDefault, stream));
        CHECK(cudaMemsetAsync(other, 0, 64, stream));
        CHECK(cudaLaunchKernel(FUNCTION(kernel_old), dim(1, 1, 1), dim(1, 1, 1), (void *[]){&p}, 0,
                               stream));
        CHECK(twin ? cudaStreamEndCapture_ptsz(stream, &graph)
                   : cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        PTSZ(cudaGraphLaunch, exec, stream);
        CHECK(cudaStreamSynchronize(stream));
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
        CHECK(cudaGraphCreate(&own, 0));
        CHECK(twin ? cudaStreamBeginCaptureToGraph_ptsz(stream, own, NULL, NULL, 0,
                                                        cudaStreamCaptureModeGlobal)
                   : cudaStreamBeginCaptureToGraph(stream, own, NULL, NULL, 0,
                                                   cudaStreamCaptureModeGlobal));
        CHECK(cudaMemcpyAsync(other, device, 128, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphDestroy(own));
    }
    REFUSED(cudaStreamEndCapture(stream, &graph));
    REFUSED(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeGlobal));
    REFUSED(cudaGraphLaunch(NULL, stream));
}

int main(int argc, char **argv) {
    void *left = NULL;

    if (argc > 1 && strcmp(argv[1], "export") == 0)
        return export_handles();
    go_on = argc > 1 && strcmp(argv[1], "go-on") == 0;
    all_rows_with_zeros();
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc(&far, N));
    CHECK(cudaSetDevice(0));
    CHECK(cudaMalloc(&device, N));
    CHECK(cudaMalloc(&other, N));
    CHECK(cudaMallocHost((void **)&pinned, N));
    CHECK(cudaStreamCreateWithFlags(&stream, 1));
    CHECK(cudaEventCreateWithFlags(&event, 2));
    memory();
    pools();
    plain_copies();
    arrays();
    mipmaps();
    boxes();
    batches();
    streams_and_events();
    launches();
    graphs();
    graph_memory();
    driver_memory();
    other_process(argv[0]);
    if (device)
        blocks();
    library_handles();
    blas_calls();
    library_calls();
    driver_calls();
    CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(device));
    CHECK(cudaFree(other));
    CHECK(cudaMalloc(&left, 777)); /* ended by the reset, not by a free */
    CHECK(cudaDeviceReset());
    CHECK(cudaMalloc(&left, 778));
    driver_reset();
    CHECK(cudaSetDevice(1));
    CHECK(cudaFree(far));
    CHECK(cudaMalloc(&left, 888)); /* lost */
    printf("done\n");
    return 0;
}
