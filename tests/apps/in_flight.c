/*
 * in_flight.c other|none - a call that only CUPTI can see, and that runs while it is stepped aside.
 *
 * A thread has the driver's functions by dlsym(), as Triton does, and waits in
 * cuStreamSynchronize() for a kernel (STANDIN_DELAY_US says how long). Meanwhile, with `other`, a
 * profiler subscribes to CUPTI and leaves, and "aside" is printed; "over" when the call has
 * returned. After a line of input the same thread makes SETS memsets by the driver, of 1, 2, ...
 * bytes, and as many by the runtime.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "cuda_app.h"

enum { SETS = 100, BYTES = 1 << 20, KERNELS = 10, PIECE = 64 << 10, ENTER_US = 200000 };

static NOINLINE void spin(float *data) {
    void *arguments[] = {&data, NULL};
    STUB(spin, arguments);
}
MODULE(in_flight, REGISTER_KERNEL(spin, "_Z4spinPf"))

static cudaStream_t stream;
static void *device;

static void *look(const char *name) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    EXPECT(driver != NULL);
    void *found = dlsym(driver, name);
    EXPECT(found != NULL);
    return found;
}

static void *work(void *none) {
    void *symbol = look("cuStreamSynchronize");
    int (*synchronize)(cudaStream_t), (*set)(void *, unsigned char, size_t, cudaStream_t);
    char line[8];
    memcpy(&synchronize, &symbol, sizeof symbol);
    symbol = look("cuMemsetD8Async");
    memcpy(&set, &symbol, sizeof symbol);
    EXPECT(synchronize(stream) == 0);
    puts("over");
    EXPECT(fgets(line, sizeof line, stdin) != NULL);
    for (int bytes = 1; bytes <= SETS; bytes++)
        EXPECT(set(device, 1, (size_t)bytes, stream) == 0);
    for (int bytes = 1; bytes <= SETS; bytes++)
        CHECK(cudaMemsetAsync(device, 2, (size_t)(1000 + bytes), stream));
    CHECK(cudaStreamSynchronize(stream));
    return none;
}

/* ---- a profiler that only comes and goes ---- */

static void called(void *user, int domain, uint32_t id, const void *data) {
    (void)user, (void)domain, (void)id, (void)data;
}

static void request(uint8_t **buffer, size_t *size, size_t *records) {
    *buffer = aligned_alloc(8, PIECE);
    *size = PIECE;
    *records = 0;
}

static void complete(void *context, uint32_t number, uint8_t *buffer, size_t size, size_t valid) {
    (void)context, (void)number, (void)size, (void)valid;
    free(buffer);
}

static void come_and_go(void) {
    void *subscriber;
    CHECK(cuptiSubscribe(&subscriber, (void *)called, NULL));
    CHECK(cuptiActivityRegisterCallbacks((void *)request, (void *)complete));
    CHECK(cuptiActivityEnable(KERNELS));
    CHECK(cuptiActivityDisable(KERNELS));
    CHECK(cuptiActivityFlushAll(1));
    CHECK(cuptiUnsubscribe(subscriber));
}

int main(int argc, char **argv) {
    pthread_t thread;
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(cudaMalloc(&device, BYTES));
    CHECK(cudaStreamCreate(&stream));
    LAUNCH(dim(1, 1, 1), dim(32, 1, 1), 0, stream, spin((float *)device));
    EXPECT(pthread_create(&thread, NULL, work, NULL) == 0);
    usleep(ENTER_US);
    if (argc > 1 && strcmp(argv[1], "other") == 0)
        come_and_go();
    puts("aside");
    EXPECT(pthread_join(thread, NULL) == 0);
    CHECK(cudaFree(device));
    return 0;
}
