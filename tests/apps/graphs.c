/*
 * graphs.c - graphs that own memory: one captured from two streams with an allocation that it frees
 * itself, one built by hand whose result the program frees after each launch, and one of which
 * only every other launch's result is wanted, so that it frees by itself. Replayed many times.
 */
#include "cuda_app.h"

enum { REPLAYS = 10, BYTES = 100000, AUTO_FREE = 1 };

static NOINLINE void stage(float *data, int n) {
    void *arguments[] = {&data, &n, NULL};
    STUB_LEGACY(stage, arguments);
}
MODULE(graphs, REGISTER_KERNEL(stage, "_Z5stagePfi"))

static cudaGraphExec_t ready(cudaGraph_t graph, unsigned long long flags) {
    cudaGraphExec_t exec = NULL;
    CHECK(cudaGraphInstantiate(&exec, graph, flags));
    CHECK(cudaGraphDestroy(graph));
    return exec;
}

/* Copies in on one stream while the other works on what came before. */
static NOINLINE cudaGraphExec_t captured(cudaStream_t main_stream, cudaStream_t side,
                                         cudaEvent_t fork_, cudaEvent_t join, float *in,
                                         const float *host) {
    cudaGraph_t graph = NULL;
    void *scratch = NULL;
    CHECK(cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaEventRecord(fork_, main_stream));
    CHECK(cudaStreamWaitEvent(side, fork_, 0));
    CHECK(cudaMemcpyAsync(in, host, BYTES, cudaMemcpyHostToDevice, side));
    CHECK(cudaMallocAsync(&scratch, BYTES, main_stream)); /* SITE: captured */
    CHECK(cudaMemsetAsync(scratch, 0, BYTES, main_stream));
    CHECK(cudaEventRecord(join, side));
    CHECK(cudaStreamWaitEvent(main_stream, join, 0));
    LAUNCH(dim(4, 1, 1), dim(64, 1, 1), 0, main_stream, stage((float *)scratch, BYTES / 4));
    CHECK(cudaFreeAsync(scratch, main_stream));
    CHECK(cudaStreamEndCapture(main_stream, &graph));
    return ready(graph, 0);
}

static NOINLINE cudaGraphExec_t built(void **result) {
    struct cudaMemAllocNodeParams alloc = {
        .poolProps = {.allocType = (enum cudaMemAllocationType)1,
                      .location = {cudaMemLocationTypeDevice, 0}},
        .bytesize = 2 * BYTES};
    cudaGraph_t graph = NULL;
    cudaGraphNode_t node = NULL;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc)); /* SITE: built */
    *result = alloc.dptr;
    return ready(graph, 0);
}

static NOINLINE cudaGraphExec_t self_freeing(cudaStream_t stream, void **result) {
    cudaGraph_t graph = NULL;
    CHECK(cudaStreamBeginCapture(stream, (enum cudaStreamCaptureMode)1));
    CHECK(cudaMallocAsync(result, 3 * BYTES, stream)); /* SITE: self-freeing */
    CHECK(cudaMemsetAsync(*result, 1, 3 * BYTES, stream));
    CHECK(cudaStreamEndCapture(stream, &graph));
    return ready(graph, AUTO_FREE);
}

int main(void) {
    cudaStream_t stream, side;
    cudaEvent_t fork_, join;
    float *host = NULL, *in = NULL, *out = NULL;
    void *of_built = NULL, *of_third = NULL;

    CHECK(cudaStreamCreateWithFlags(&stream, 1));
    CHECK(cudaStreamCreateWithFlags(&side, 1));
    CHECK(cudaEventCreateWithFlags(&fork_, 2));
    CHECK(cudaEventCreateWithFlags(&join, 2));
    CHECK(cudaMallocHost((void **)&host, BYTES));
    CHECK(cudaMallocHost((void **)&out, sizeof *out));
    CHECK(cudaMalloc((void **)&in, BYTES));
    cudaGraphExec_t first = captured(stream, side, fork_, join, in, host);
    cudaGraphExec_t second = built(&of_built);
    cudaGraphExec_t third = self_freeing(stream, &of_third);
    for (int i = 0; i < REPLAYS; i++) {
        host[0] = (float)i;
        CHECK(cudaGraphLaunch(first, stream));
        CHECK(cudaGraphLaunch(second, stream));
        CHECK(cudaGraphLaunch(third, stream));
        CHECK(cudaMemcpyAsync(of_built, in, BYTES, cudaMemcpyDeviceToDevice, stream));
        CHECK(cudaMemcpyAsync(out, of_built, sizeof *out, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(of_built, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT(*out == (float)i);
    }
    CHECK(cudaFreeAsync(of_third, stream));
    CHECK(cudaGraphExecDestroy(first));
    CHECK(cudaGraphExecDestroy(second));
    CHECK(cudaGraphExecDestroy(third));
    CHECK(cudaDeviceGraphMemTrim(0));
    CHECK(cudaFree(in));
    printf("%d replays, last %.0f\n", REPLAYS, *out);
    CHECK(cudaFreeHost(host));
    CHECK(cudaFreeHost(out));
    return 0;
}
