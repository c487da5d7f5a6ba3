/*
 * workspaces.c MODE - programs that give cuBLAS memory to work in. Prints how many workspaces, how
 * many bytes, how many streams and handles there were.
 *
 *   one          one handle, one stream, one workspace, until the end
 *   fixed        four streams with a workspace each, all made before the work begins
 *   per_stream   each of 16 rounds works on a new stream, with a workspace of its own
 *   shared       each of 16 rounds works on a new stream, all with the same workspace
 *   handles      each of 16 rounds makes a handle with a workspace, and ends both
 *   handles_kept each of 16 rounds makes a handle, and none is ever ended
 */
#include "cuda_app.h"

enum { ROUNDS = 16, STREAMS = 4, BYTES = 8519680 };

static long long workspaces, streams, handles;

static NOINLINE void multiply(const void *in) {
    void *arguments[] = {&in, NULL};
    STUB(multiply, arguments);
}
MODULE(workspaces, REGISTER_KERNEL(multiply, "_Z8multiplyPKv"))

static void *operand;

static NOINLINE void work(cudaStream_t stream) {
    for (int i = 0; i < 4; i++)
        LAUNCH(dim(8, 1, 1), dim(64, 1, 1), 0, stream, multiply(operand));
    CHECK(cudaStreamSynchronize(stream));
}

static NOINLINE void *make_workspace(void) {
    void *memory;
    CHECK(cudaMalloc(&memory, BYTES)); /* SITE: made */
    workspaces++;
    return memory;
}

static NOINLINE void prepare(cublasHandle_t handle, cudaStream_t stream, void *memory) {
    CHECK(cublasSetStream_v2(handle, stream));
    CHECK(cublasSetWorkspace_v2(handle, memory, BYTES)); /* SITE: given */
}

static cublasHandle_t make_handle(void) {
    cublasHandle_t handle;
    CHECK(cublasCreate_v2(&handle)); /* SITE: created */
    handles++;
    return handle;
}

static cudaStream_t make_stream(void) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    streams++;
    return stream;
}

static void one(void) {
    cublasHandle_t handle = make_handle();
    prepare(handle, NULL, make_workspace());
    for (int i = 0; i < ROUNDS; i++)
        work(NULL);
}

static void fixed(void) {
    cublasHandle_t handle = make_handle();
    cudaStream_t stream[STREAMS];
    void *memory[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        stream[i] = make_stream();
        memory[i] = make_workspace();
        prepare(handle, stream[i], memory[i]);
    }
    for (int i = 0; i < 10 * ROUNDS; i++) {
        prepare(handle, stream[i % STREAMS], memory[i % STREAMS]);
        work(stream[i % STREAMS]);
    }
}

static void per_stream(void) {
    cublasHandle_t handle = make_handle();
    for (int i = 0; i < ROUNDS; i++) {
        cudaStream_t stream = make_stream();
        prepare(handle, stream, make_workspace());
        work(stream);
    }
}

static void shared(void) {
    cublasHandle_t handle = make_handle();
    void *memory = make_workspace();
    for (int i = 0; i < ROUNDS; i++) {
        cudaStream_t stream = make_stream();
        prepare(handle, stream, memory);
        work(stream);
    }
}

static void per_handle(void) {
    for (int i = 0; i < ROUNDS; i++) {
        cublasHandle_t handle = make_handle();
        void *memory = make_workspace();
        prepare(handle, NULL, memory);
        work(NULL);
        CHECK(cublasDestroy_v2(handle));
        CHECK(cudaFree(memory));
    }
}

static void handles_kept(void) {
    for (int i = 0; i < ROUNDS; i++) {
        make_handle();
        work(NULL);
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"one", one},       {"fixed", fixed},        {"per_stream", per_stream},
                 {"shared", shared}, {"handles", per_handle}, {"handles_kept", handles_kept}};
    CHECK(cudaMalloc(&operand, 1 << 20));
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (argc > 1 && strcmp(argv[1], modes[i].name) == 0) {
            modes[i].run();
            CHECK(cudaFree(operand));
            printf("workspaces=%lld bytes=%lld streams=%lld handles=%lld\n", workspaces,
                   workspaces * BYTES, streams, handles);
            return 0;
        }
    }
    return 2;
}
