/*
 * graphs.c - a stream's work captured into a graph, and a graph made of explicit nodes: both must
 * have the nodes they should and do what they should, whoever watches. A recorder that made a call
 * of its own while the stream captures would end the capture or add to it.
 */
enum { BYTES = 64 << 10, LAUNCHES = 10 };

static size_t nodes_of(cudaGraph_t graph) {
    size_t count = 0;
    CHECK(cudaGraphGetNodes(graph, NULL, &count));
    return count;
}

static void launch(cudaGraph_t graph, cudaStream_t stream) {
    cudaGraphExec_t exec;
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < LAUNCHES; i++)
        CHECK(cudaGraphLaunch(exec, stream)); /* SITE: launch */
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

/* The same on the stream in every mode of capture; Relaxed allows allocations meanwhile. */
static NOINLINE void captured(cudaStream_t stream, enum cudaStreamCaptureMode mode,
                              unsigned char *in, unsigned char *out, unsigned char *device) {
    enum cudaStreamCaptureStatus status;
    cudaGraph_t graph;
    void *meanwhile = NULL;

    memset(in, 40 + (int)mode, BYTES);
    memset(out, 0, BYTES);
    CHECK(cudaStreamBeginCapture(stream, mode));
    CHECK(cudaMemsetAsync(device, 0, BYTES, stream));
    CHECK(cudaMemcpyAsync(device, in, BYTES, cudaMemcpyHostToDevice, stream)); /* SITE: captured */
    CHECK(cudaMemcpyAsync(device + BYTES, device, BYTES, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaMemcpyAsync(out, device + BYTES, BYTES, cudaMemcpyDeviceToHost, stream));
    if (mode == cudaStreamCaptureModeRelaxed)
        CHECK(cudaMalloc(&meanwhile, 4096));
    CHECK(cudaStreamIsCapturing(stream, &status));
    EXPECT(status == cudaStreamCaptureStatusActive);
    CHECK(cudaStreamEndCapture(stream, &graph));
    EXPECT(out[0] == 0);
    printf("captured %zu nodes\n", nodes_of(graph));
    EXPECT(nodes_of(graph) == 4);
    launch(graph, stream);
    EXPECT(out[0] == 40 + (int)mode && out[BYTES - 1] == out[0]);
    CHECK(cudaFree(meanwhile));
}

static NOINLINE void explicitly(cudaStream_t stream, unsigned char *out, unsigned char *device) {
    struct cudaMemsetParams set = {
        .dst = device, .value = 7, .elementSize = 1, .width = BYTES, .height = 1};
    cudaGraph_t graph;
    cudaGraphNode_t first, second;

    memset(out, 0, BYTES);
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphAddMemsetNode(&first, graph, NULL, 0, &set));
    CHECK(cudaGraphAddMemcpyNode1D(&second, graph, &first, 1, out, device, BYTES,
                                   cudaMemcpyDeviceToHost));
    printf("made %zu nodes\n", nodes_of(graph));
    launch(graph, stream);
    EXPECT(out[0] == 7 && out[BYTES - 1] == 7);
}

int main(void) {
    cudaStream_t stream;
    void *in, *out, *device;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMallocHost(&in, BYTES));
    CHECK(cudaMallocHost(&out, BYTES));
    CHECK(cudaMalloc(&device, 2 * BYTES));
    captured(stream, cudaStreamCaptureModeGlobal, in, out, device);
    captured(stream, cudaStreamCaptureModeThreadLocal, in, out, device);
    captured(stream, cudaStreamCaptureModeRelaxed, in, out, device);
    explicitly(stream, out, device);
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(out));
    CHECK(cudaFreeHost(in));
    CHECK(cudaStreamDestroy(stream));
    return 0;
}
