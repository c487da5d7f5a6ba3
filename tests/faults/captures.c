/*
 * captures.c - stream captures that end in every way, and what goes on beside them: does what each
 * line of its input says, and repeats the line with a status.
 *
 *   begin MODE, end     a capture on the stream that it has, made anew where that is gone
 *   destroy, reset      that stream goes in the middle of it, or the whole device is reset
 *   thread              a thread ends in the middle of a capture on its own default stream
 *   copies BYTES        ten from memory that is pinned; then one more from memory that nothing is
 *                       known of
 *   client              another client of CUPTI comes, records, and rests
 *   pass                a kernel is waited for by a function that is taken from the driver
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>

#include "cuda_app.h"

enum { COPY = 1, MIB = 1 << 20 };
static cudaStream_t stream;

static NOINLINE void k(float *data) {
    void *arguments[] = {&data, NULL};
    STUB_LEGACY(k, arguments);
}
MODULE(captures, REGISTER_KERNEL(k, "_Z1kPf"))

static int begin(int mode) {
    if (!stream)
        CHECK(cudaStreamCreate(&stream));
    return cudaStreamBeginCapture(stream, (enum cudaStreamCaptureMode)mode);
}

static int end(void) {
    cudaGraph_t graph = NULL;
    int status = cudaStreamEndCapture(stream, &graph);
    if (graph)
        CHECK(cudaGraphDestroy(graph));
    return status;
}

static int destroy(void) {
    int status = cudaStreamDestroy(stream);
    stream = NULL;
    return status;
}

static void *capture_own(void *status) {
    *(int *)status = cudaStreamBeginCapture((cudaStream_t)2, (enum cudaStreamCaptureMode)2);
    return NULL;
}

static int thread(void) {
    int status = -1;
    pthread_t other;
    pthread_create(&other, NULL, capture_own, &status);
    pthread_join(other, NULL);
    return status;
}

static int copies(size_t bytes) {
    cudaStream_t beside;
    char *host, *device;
    CHECK(cudaMallocHost((void **)&host, MIB));
    CHECK(cudaMalloc((void **)&device, MIB));
    CHECK(cudaStreamCreate(&beside));
    for (int i = 0; i < 10; i++)
        CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, beside));
    /* A place of its own: what lies within 2 MiB of recorded memory is not asked about. */
    char *plain = mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(cudaMemcpyAsync(device, plain + 4 * MIB, bytes + 1, cudaMemcpyHostToDevice, beside));
    CHECK(cudaStreamSynchronize(beside));
    CHECK(cudaStreamDestroy(beside));
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(host));
    return 0;
}

/* ---- another client ---- */

static void requested(uint8_t **buffer, size_t *size, size_t *records) {
    *buffer = aligned_alloc(8, *size = 64 << 10);
    *records = 0;
}

static void completed(void *context, uint32_t number, uint8_t *buffer, size_t size, size_t valid) {
    (void)context, (void)number, (void)size, (void)valid;
    free(buffer);
}

static void told(void *user, int domain, uint32_t id, const void *data) {
    (void)user, (void)domain, (void)id, (void)data;
}

static int client(void) {
    void *subscriber;
    CHECK((cudaError_t)cuptiSubscribe(&subscriber, (void *)told, NULL));
    CHECK((cudaError_t)cuptiActivityRegisterCallbacks((void *)requested, (void *)completed));
    CHECK((cudaError_t)cuptiActivityEnable(COPY));
    CHECK((cudaError_t)cuptiActivityDisable(COPY));
    CHECK((cudaError_t)cuptiActivityFlushAll(1));
    return cuptiUnsubscribe(subscriber);
}

/* ---- */

static int pass(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *symbol;
    int (*synchronize)(void *);
    symbol = dlsym(driver, "cuStreamSynchronize");
    memcpy(&synchronize, &symbol, sizeof symbol);
    LAUNCH(dim(1, 1, 1), dim(32, 1, 1), 0, NULL, k(NULL));
    return synchronize(NULL);
}

static int act(const char *word, int number) {
    return strcmp(word, "begin") == 0     ? begin(number)
           : strcmp(word, "end") == 0     ? end()
           : strcmp(word, "destroy") == 0 ? destroy()
           : strcmp(word, "reset") == 0   ? (stream = NULL, (int)cudaDeviceReset())
           : strcmp(word, "thread") == 0  ? thread()
           : strcmp(word, "copies") == 0  ? copies((size_t)number)
           : strcmp(word, "client") == 0  ? client()
           : strcmp(word, "pass") == 0    ? pass()
                                          : -1;
}

int main(void) {
    char line[64], word[32];
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        int number = 0;
        if (sscanf(line, "%31s %d", word, &number) >= 1)
            printf("%s %d\n", word, act(word, number));
    }
    return 0;
}
