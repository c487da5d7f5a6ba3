/*
 * kernels.c - kernels as nvcc makes them (kernels.cu), launched and captured.
 *
 * Usage: kernels [illegal]   illegal: one writes to no memory at all. From then on every call fails
 * with the same error until the process ends ("sticky"); which call says what must not depend on
 * who watches.
 */
void launch_set_all(int *data, int value, int count, cudaStream_t stream);
void launch_add_one(int *data, int count, cudaStream_t stream);
void launch_write_nowhere(void);

enum { COUNT = 100000, LAUNCHES = 25 };

static void launched(void) {
    count_one((int)cudaPeekAtLastError(), &counted.launches);
}

static void say(const char *what, cudaError_t status) {
    printf("%s: %s\n", what, cudaGetErrorName(status));
}

static int illegal(void) {
    void *memory = NULL;
    say("before", cudaDeviceSynchronize());
    launch_write_nowhere();
    launched();
    say("synchronize", cudaDeviceSynchronize());
    say("malloc", cudaMalloc(&memory, 4096));
    say("free", cudaFree(memory));
    say("last", cudaGetLastError());
    say("again", cudaGetLastError());
    say("synchronize", cudaDeviceSynchronize());
    return cudaPeekAtLastError() == cudaSuccess ? 0 : 3;
}

static void capture(int *device, cudaStream_t stream) {
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    size_t nodes = 0;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 5; i++) {
        launch_add_one(device, COUNT, stream);
        launched();
    }
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphGetNodes(graph, NULL, &nodes));
    EXPECT(nodes == 5);
    CHECK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(exec));
    CHECK(cudaGraphDestroy(graph));
}

int main(int argc, char **argv) {
    cudaStream_t stream;
    void *device;
    int last = 0;

    if (argc > 1 && strcmp(argv[1], "illegal") == 0)
        return illegal();
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&device, COUNT * sizeof(int)));
    CHECK(cudaMemset(device, 0, COUNT * sizeof(int)));
    launch_set_all(device, 100, COUNT, stream);
    launched();
    for (int i = 0; i < LAUNCHES; i++) {
        launch_add_one(device, COUNT, stream);
        launched();
    }
    capture(device, stream);
    CHECK(cudaMemcpy(&last, (int *)device + COUNT - 1, sizeof last, cudaMemcpyDeviceToHost));
    /* 0: this device only pretends to run kernels. */
    printf("the kernels %s\n", last == 100 + LAUNCHES + 15 ? "ran"
                               : last == 0                 ? "did nothing"
                                                           : "failed");
    CHECK(cudaFree(device));
    CHECK(cudaStreamDestroy(stream));
    return 0;
}
