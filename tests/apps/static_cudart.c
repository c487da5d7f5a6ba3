/*
 * static_cudart.c - a program with the runtime inside it, as nvcc links by default: no preload sees
 * its calls. Memory of every kind, copies in all directions from pageable and pinned memory,
 * kernels, a graph. One allocation is never freed.
 */
#include "cuda_app.h"

enum { BYTES = 1 << 20, ROUNDS = 3, LEAKED = 4096 + 123 };

static NOINLINE void scale(float *data, int n) {
    void *arguments[] = {&data, &n, NULL};
    STUB_LEGACY(scale, arguments);
}
static NOINLINE void sum(float *data, int n) {
    void *arguments[] = {&data, &n, NULL};
    STUB(sum, arguments);
}
MODULE(static_cudart, REGISTER_KERNEL(scale, "_Z5scalePfi") REGISTER_KERNEL(sum, "_Z3sumPfi"))

static NOINLINE void leak(void) {
    void *p;
    CHECK(cudaMalloc(&p, LEAKED)); /* SITE: leak */
}

/* Each way once: blocking and not, from and to pageable and pinned memory, within the device. */
static NOINLINE void copy_all(char *device, char *other, char *pageable, char *pinned,
                              cudaStream_t stream) {
    CHECK(cudaMemcpy(device, pageable, BYTES, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(pageable, device, BYTES, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(device, pinned, BYTES, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(pinned, device, BYTES, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(other, device, BYTES, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy(pageable, pinned, BYTES, cudaMemcpyHostToHost));
    CHECK(cudaMemcpy(other, pinned, BYTES, cudaMemcpyDefault));
    CHECK(cudaMemcpyAsync(device, pageable, BYTES, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(device, pinned, BYTES, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(other, device, BYTES, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaMemcpyAsync(pinned, device, BYTES, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpyAsync(pageable, device, BYTES, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaMemcpy2DAsync(device, 1024, pinned, 512, 512, 100, cudaMemcpyHostToDevice, stream));
    CHECK(cudaStreamSynchronize(stream));
}

static NOINLINE cudaGraphExec_t capture(float *device, char *pinned, cudaStream_t stream) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemcpyAsync(device, pinned, BYTES, cudaMemcpyHostToDevice, stream));
    LAUNCH(dim(8, 1, 1), dim(128, 1, 1), 0, stream, scale(device, BYTES / 4));
    CHECK(cudaMemcpyAsync(pinned, device, BYTES, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    CHECK(cudaGraphDestroy(graph));
    return exec;
}

static NOINLINE void pooled(cudaStream_t stream) {
    struct cudaMemPoolProps props = {.allocType = (enum cudaMemAllocationType)1,
                                     .location = {cudaMemLocationTypeDevice, 0}};
    cudaMemPool_t pool = NULL;
    void *own, *shared;
    CHECK(cudaMemPoolCreate(&pool, &props));
    CHECK(cudaMallocFromPoolAsync(&own, BYTES, pool, stream));
    CHECK(cudaMallocAsync(&shared, BYTES, stream));
    CHECK(cudaMemsetAsync(own, 1, BYTES, stream));
    CHECK(cudaFreeAsync(own, stream));
    CHECK(cudaFreeAsync(shared, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemPoolTrimTo(pool, 0));
    CHECK(cudaMemPoolDestroy(pool));
}

int main(void) {
    cudaStream_t stream;
    cudaEvent_t event;
    char *device, *other, *managed, *pinned, *pageable = malloc(BYTES);
    EXPECT(pageable != NULL);
    memset(pageable, 7, BYTES);
    CHECK(cudaMalloc((void **)&device, BYTES));
    CHECK(cudaMalloc((void **)&other, BYTES));
    CHECK(cudaMallocManaged((void **)&managed, BYTES, 1));
    CHECK(cudaHostAlloc((void **)&pinned, BYTES, 0));
    memset(pinned, 7, BYTES);
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    leak();
    for (int round = 0; round < ROUNDS; round++) {
        copy_all(device, other, pageable, pinned, stream);
        LAUNCH(dim(4, 2, 1), dim(64, 1, 1), 256, stream, sum((float *)device, BYTES / 4));
        LAUNCH(dim(1, 1, 1), dim(32, 1, 1), 0, NULL, scale((float *)managed, BYTES / 4));
        CHECK(cudaMemset(device, round, BYTES));
        CHECK(cudaEventRecord(event, stream));
        CHECK(cudaStreamWaitEvent(stream, event, 0));
        CHECK(cudaEventSynchronize(event));
    }
    cudaGraphExec_t exec = capture((float *)device, pinned, stream);
    for (int round = 0; round < ROUNDS; round++)
        CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    pooled(stream);
    EXPECT(pinned[1] == 7);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventDestroy(event));
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(device));
    CHECK(cudaFree(other));
    CHECK(cudaFree(managed));
    CHECK(cudaFreeHost(pinned));
    free(pageable);
    puts("done");
    return 0;
}
