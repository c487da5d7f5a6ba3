/*
 * test_capture.c - stream capture and graphs of the simulated device: what a capture records, what
 * ends it, what a launch does.
 */
#include "test_standin.h"

#include <pthread.h>

#define KIND(kind) ((enum cudaMemcpyKind)(kind))
enum { H2D = 1, D2H = 2 };
enum { GLOBAL, THREAD_LOCAL, RELAXED };
#define MODE(mode) ((enum cudaStreamCaptureMode)(mode))

static cudaStream_t s;

static int make(void **state) {
    (void)state;
    return (int)cudaStreamCreateWithFlags(&s, 1);
}

static int drop(void **state) {
    (void)state;
    cudaGetLastError();
    return (int)cudaStreamDestroy(s);
}

/* Ends a capture that something has spoilt. */
static void ends_with(int status) {
    cudaGraph_t graph = (cudaGraph_t)&status;
    int capturing;
    REFUSED(cudaStreamEndCapture(s, &graph), status);
    assert_null(graph);
    OK(cudaStreamIsCapturing(s, &capturing));
    assert_int_equal(capturing, 0);
}

static void records_and_replays(void **state) {
    (void)state;
    char *pinned, *device, host[4];
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t nodes[8];
    int capturing, type;
    size_t count = 8;
    OK(cudaMallocHost((void **)&pinned, 4));
    OK(cudaMalloc((void **)&device, 4));
    OK(cudaMemset(device, 0, 4));
    memcpy(pinned, "one", 4);
    OK(cudaStreamBeginCapture(s, MODE(GLOBAL)));
    OK(cudaStreamIsCapturing(s, &capturing));
    assert_int_equal(capturing, 1);
    OK(launch(s));
    OK(cudaMemcpyAsync(device, pinned, 4, KIND(H2D), s));
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaMemcpy(host, device, 4, KIND(D2H)));
    assert_int_equal(host[0], 0); /* nothing ran */
    OK(cudaGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 2);
    OK(cudaGraphNodeGetType(nodes[1], &type));
    assert_int_equal(type, 1); /* a copy */
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    memcpy(pinned, "two", 4);
    OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaMemcpy(host, device, 4, KIND(D2H)));
    assert_string_equal(host, "two");
    OK(cudaGraphExecDestroy(exec));
    REFUSED(cudaGraphLaunch(exec, s), 1);
    REFUSED(cudaGraphDestroy(graph), 1);
    OK(cudaFree(device));
    OK(cudaFreeHost(pinned));
}

static void unsafe_calls_end_it(void **state) {
    (void)state;
    void *p, *device;
    cudaEvent_t e;
    char host[4] = {0};
    OK(cudaMalloc(&device, 4));
    OK(cudaEventCreate(&e));
#define SPOILT_BY(call, status)                                                                    \
    OK(cudaStreamBeginCapture(s, MODE(GLOBAL)));                                                   \
    REFUSED(call, status);                                                                         \
    REFUSED(launch(s), 901);                                                                       \
    ends_with(901)
    SPOILT_BY(cudaMalloc(&p, 16), 900);
    SPOILT_BY(cudaFree(device), 900);
    SPOILT_BY(cudaMallocHost(&p, 16), 900);
    SPOILT_BY(cudaMemcpy(host, device, 4, KIND(D2H)), 900);
    SPOILT_BY(cudaStreamSynchronize(s), 900);
    SPOILT_BY(cudaStreamQuery(s), 900);
    SPOILT_BY(cudaDeviceSynchronize(), 900);
    SPOILT_BY(cudaEventQuery(e), 900);
    OK(cudaStreamBeginCapture(s, MODE(GLOBAL)));
    OK(cudaEventRecord(e, s));
    REFUSED(cudaEventSynchronize(e), 907);
    ends_with(901);
    OK(cudaFree(device)); /* was not freed above */
    OK(cudaEventDestroy(e));
}

static void modes_differ(void **state) {
    (void)state;
    void *p;
    cudaGraph_t graph;
    int mode = RELAXED;
    OK(cudaStreamBeginCapture(s, MODE(RELAXED)));
    OK(cudaMalloc(&p, 16));
    OK(cudaFree(p));
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamBeginCapture(s, MODE(GLOBAL)));
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, GLOBAL);
    OK(cudaMalloc(&p, 16));
    OK(cudaFree(p));
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamBeginCapture(s, MODE(THREAD_LOCAL)));
    REFUSED(cudaMalloc(&p, 16), 900);
    ends_with(901);
}

static void *malloc_in_thread(void *data) {
    void *p = NULL;
    *(int *)data = (int)cudaMalloc(&p, 16);
    cudaFree(p);
    return NULL;
}

static void *end_in_thread(void *data) {
    cudaGraph_t graph;
    *(int *)data = (int)cudaStreamEndCapture(s, &graph);
    return NULL;
}

static int in_thread(void *(*run)(void *)) {
    pthread_t thread;
    int status = -1;
    assert_int_equal(pthread_create(&thread, NULL, run, &status), 0);
    pthread_join(thread, NULL);
    return status;
}

static void other_threads(void **state) {
    (void)state;
    cudaGraph_t graph;
    OK(cudaStreamBeginCapture(s, MODE(THREAD_LOCAL)));
    OK(in_thread(malloc_in_thread));
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamBeginCapture(s, MODE(GLOBAL)));
    REFUSED(in_thread(malloc_in_thread), 900);
    ends_with(901);
    OK(cudaStreamBeginCapture(s, MODE(GLOBAL)));
    REFUSED(in_thread(end_in_thread), 908);
    ends_with(901);
}

static void streams_join(void **state) {
    (void)state;
    cudaStream_t other;
    cudaEvent_t fork, join, outside;
    cudaGraph_t graph;
    size_t count = 0;
    int capturing;
    OK(cudaStreamCreateWithFlags(&other, 1));
    OK(cudaEventCreate(&fork));
    OK(cudaEventCreate(&join));
    OK(cudaEventCreate(&outside));
    OK(cudaEventRecord(outside, other));
    OK(cudaStreamBeginCapture(s, MODE(RELAXED)));
    OK(launch(s));
    OK(cudaEventRecord(fork, s));
    OK(cudaStreamWaitEvent(other, fork, 0));
    OK(cudaStreamIsCapturing(other, &capturing));
    assert_int_equal(capturing, 1);
    OK(launch(other));
    OK(cudaEventRecord(join, other));
    REFUSED(cudaStreamEndCapture(other, &graph), 903); /* not where it began; spoils it */
    ends_with(901);

    OK(cudaStreamBeginCapture(s, MODE(RELAXED)));
    OK(launch(s));
    OK(cudaEventRecord(fork, s));
    OK(cudaStreamWaitEvent(other, fork, 0));
    OK(launch(other));
    ends_with(904); /* the other stream's work was not joined */

    OK(cudaStreamBeginCapture(s, MODE(RELAXED)));
    OK(launch(s));
    OK(cudaEventRecord(fork, s));
    OK(cudaStreamWaitEvent(other, fork, 0));
    OK(launch(other));
    OK(cudaEventRecord(join, other));
    OK(cudaStreamWaitEvent(s, join, 0));
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 2);
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamIsCapturing(other, &capturing));
    assert_int_equal(capturing, 0);

    OK(cudaStreamBeginCapture(s, MODE(RELAXED)));
    REFUSED(cudaStreamWaitEvent(s, outside, 0), 905);
    ends_with(901);
    OK(cudaStreamDestroy(other));
    OK(cudaEventDestroy(fork));
    OK(cudaEventDestroy(join));
    OK(cudaEventDestroy(outside));
}

static void the_legacy_stream_stays_out(void **state) {
    (void)state;
    cudaStream_t blocking;
    cudaGraph_t graph;
    REFUSED(cudaStreamBeginCapture(NULL, MODE(RELAXED)), 900);
    REFUSED(cudaStreamEndCapture(s, &graph), 401);
    OK(cudaStreamCreate(&blocking));
    OK(cudaStreamBeginCapture(blocking, MODE(RELAXED)));
    REFUSED(launch(NULL), 906);
    REFUSED(cudaStreamEndCapture(blocking, &graph), 901);
    OK(cudaStreamDestroy(blocking));
    OK(cudaStreamBeginCapture(s, MODE(RELAXED)));
    OK(launch(NULL)); /* a stream apart does not mind */
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphDestroy(graph));
    OK(cudaDeviceSynchronize());
}

static void graphs_own_memory(void **state) {
    (void)state;
    void *p;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamBeginCapture(s, MODE(GLOBAL)));
    OK(cudaMallocAsync(&p, 1 << 20, s));
    OK(cudaMemsetAsync(p, 1, 1 << 20, s));
    OK(cudaFreeAsync(p, s));
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaGraphExecDestroy(exec));
    REFUSED(cudaFree(p), 1); /* went with the graph, which had freed it */

    OK(cudaStreamBeginCapture(s, MODE(GLOBAL)));
    OK(cudaMallocAsync(&p, 1 << 20, s));
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaFree(p)); /* launched and not freed: the program's */
}

int test_capture(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)
    const struct CMUnitTest tests[] = {
        TEST(records_and_replays), TEST(unsafe_calls_end_it), TEST(modes_differ),
        TEST(other_threads),       TEST(streams_join),        TEST(the_legacy_stream_stays_out),
        TEST(graphs_own_memory),
    };
    return cmocka_run_group_tests_name("capture", tests, NULL, NULL);
}
