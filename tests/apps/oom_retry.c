/*
 * oom_retry.c - programs that run out of device memory, each in its own way; the argument says
 * which. To be run with a capacity of 64 MiB.
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "cuda_app.h"

#define MIB ((size_t)1 << 20)
#define NO_MEMORY ((cudaError_t)2) /* cudaErrorMemoryAllocation */
enum { HELD = 6, THREADS = 4 };

static void *held[HELD];

/* 48 of 64 MiB. */
static void fill(void) {
    for (int i = 0; i < HELD; i++)
        CHECK(cudaMalloc(&held[i], 8 * MIB));
}

static void drop(int count) {
    for (int i = 0; i < count; i++)
        CHECK(cudaFree(held[i]));
}

static NOINLINE cudaError_t ask(void **memory, size_t size) {
    cudaError_t status = cudaMalloc(memory, size); /* SITE: oom asked */
    cudaGetLastError();
    return status;
}

/* Fails, asks what there is, waits, makes room bit by bit, and gets it at the third attempt. */
static void retry(void) {
    size_t unused, total;
    void *memory;
    fill();
    EXPECT(ask(&memory, 40 * MIB) == NO_MEMORY);
    CHECK(cudaMemGetInfo(&unused, &total));
    EXPECT(unused == 16 * MIB && total == 64 * MIB);
    CHECK(cudaDeviceSynchronize());
    drop(2);
    EXPECT(ask(&memory, 40 * MIB) == NO_MEMORY);
    CHECK(cudaFree(held[2]));
    CHECK(ask(&memory, 40 * MIB));
    CHECK(cudaFree(memory));
}

/* Takes what it gets. */
static void halve(void) {
    void *memory;
    size_t size = 64 * MIB;
    fill();
    while (ask(&memory, size) != cudaSuccess)
        size /= 2;
    EXPECT(size == 16 * MIB);
}

/* Does without, and gets as much later, when that is no retry any more. */
static void go_on(void) {
    void *memory;
    fill();
    EXPECT(ask(&memory, 24 * MIB) == NO_MEMORY);
    CHECK(cudaMemset(held[0], 0, 8 * MIB));
    drop(HELD);
    CHECK(ask(&memory, 24 * MIB));
}

/* Brings what it holds to the host, to make room. */
static void offload(void) {
    void *memory, *copy = malloc(8 * MIB);
    fill();
    EXPECT(ask(&memory, 20 * MIB) == NO_MEMORY);
    CHECK(cudaMemcpy(copy, held[0], 8 * MIB, cudaMemcpyDeviceToHost));
    drop(1);
    CHECK(ask(&memory, 20 * MIB));
    free(copy);
}

/* Of a pool, whose memory comes back when the stream has come so far. */
static void pool(void) {
    void *first, *memory;
    CHECK(cudaMallocAsync(&first, 40 * MIB, NULL));
    EXPECT(cudaMallocAsync(&memory, 32 * MIB, NULL) == NO_MEMORY);
    cudaGetLastError();
    CHECK(cudaFreeAsync(first, NULL));
    CHECK(cudaStreamSynchronize(NULL));
    CHECK(cudaMallocAsync(&memory, 32 * MIB, NULL));
}

/* Other kinds of memory of the device, each too large by itself. */
static void kinds(void) {
    struct cudaChannelFormatDesc desc = {32, 32, 32, 32, 2};
    void *memory;
    size_t pitch;
    cudaArray_t array;
    EXPECT(cudaMallocPitch(&memory, &pitch, MIB, 100) == NO_MEMORY);
    CHECK(cudaMemset(NULL, 0, 0));
    EXPECT(cudaMallocArray(&array, &desc, 4096, 4096, 0) == NO_MEMORY);
}

static void *worker(void *own) {
    void *memory, *mine = own;
    if (ask(&memory, 33 * MIB) != cudaSuccess) { /* nobody ever gets it */
        CHECK(cudaFree(mine));
        EXPECT(ask(&memory, 33 * MIB) == NO_MEMORY);
        CHECK(cudaMalloc(&mine, MIB));
    }
    return NULL;
}

static void threads(void) {
    pthread_t thread[THREADS];
    fill();
    for (int i = 0; i < THREADS; i++) {
        void *mine;
        CHECK(cudaMalloc(&mine, MIB));
        CHECK(pthread_create(&thread[i], NULL, worker, mine));
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL));
}

static void die(void) {
    void *memory;
    fill();
    EXPECT(ask(&memory, 40 * MIB) == NO_MEMORY);
    kill(getpid(), SIGKILL);
}

/* Waits between the parts of a retry until it is told to go on. */
static void stepwise(void) {
    void *memory;
    fill();
    EXPECT(ask(&memory, 40 * MIB) == NO_MEMORY);
    EXPECT(puts("failed") > 0 && fflush(stdout) == 0 && getchar() == '\n');
    drop(3);
    EXPECT(puts("dropped") > 0 && fflush(stdout) == 0 && getchar() == '\n');
    CHECK(ask(&memory, 40 * MIB));
    EXPECT(puts("got") > 0 && fflush(stdout) == 0 && getchar() == '\n');
    CHECK(cudaMemset(memory, 0, MIB));
    EXPECT(ask(&memory, 56 * MIB) == NO_MEMORY);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } ways[] = {{"retry", retry},     {"halve", halve}, {"go_on", go_on},
                {"offload", offload}, {"pool", pool},   {"kinds", kinds},
                {"threads", threads}, {"die", die},     {"stepwise", stepwise}};
    for (size_t i = 0; argc == 2 && i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(argv[1], ways[i].name) == 0) {
            ways[i].run();
            return 0;
        }
    return 2;
}
