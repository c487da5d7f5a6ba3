/*
 * device_use.c - what a device is full of. Argument: what the program does, for some 3 s.
 *
 *   steady   allocates and frees, and nothing else
 *   hidden   in each turn takes 32 MiB beside all hooks: by the driver's function from a handle
 *   asks     the same, and asks cudaMemGetInfo itself
 *   managed  in each turn 32 MiB of managed memory, which counts for no device here
 *   early    takes all that at once, before its turns
 *   stray    works on device 1, while a thread of its own pins memory without setting a device
 *   loads    works on device 1 after it has put a buffer on device 0
 *   both     works on both devices
 * Prints the bytes that it took beside the hooks, as hidden=N.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include "cuda_app.h"

#define TURNS 30
#define PIECE ((size_t)32 << 20)

static int (*driver_alloc)(unsigned long long *address, size_t size);

static void find_driver(void) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    EXPECT(driver != NULL);
    *(void **)&driver_alloc = dlsym(driver, "cuMemAlloc_v2");
    EXPECT(driver_alloc != NULL);
}

static size_t hide(size_t size) {
    unsigned long long address;
    EXPECT(driver_alloc(&address, size) == 0);
    return size;
}

static void pause_a_while(void) {
    nanosleep(&(struct timespec){0, 100000000}, NULL);
}

static NOINLINE void fill(const void *memory) {
    void *arguments[] = {&memory, NULL};
    STUB(fill, arguments);
}
MODULE(device_use, REGISTER_KERNEL(fill, "_Z4fillPKv"))

static void work(int device) {
    void *memory;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&memory, PIECE));
    LAUNCH(dim(8, 1, 1), dim(64, 1, 1), 0, NULL, fill(memory));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(memory));
}

static void *pin(void *argument) {
    void *memory;
    (void)argument;
    CHECK(cudaHostAlloc(&memory, 4096, 0)); /* SITE: stray */
    CHECK(cudaFreeHost(memory));
    return NULL;
}

static void take_turns(const char *what, size_t *hidden) {
    size_t unused, total;
    void *managed;
    int device = strcmp(what, "stray") == 0 || strcmp(what, "loads") == 0;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMemGetInfo(&unused, &total)); /* the device's size is known */
    for (int i = 0; i < TURNS; i++) {
        work(device);
        if (strcmp(what, "both") == 0)
            work(1);
        if (strcmp(what, "hidden") == 0 || strcmp(what, "asks") == 0)
            *hidden += hide(PIECE);
        if (strcmp(what, "asks") == 0)
            CHECK(cudaMemGetInfo(&unused, &total));
        if (strcmp(what, "managed") == 0)
            CHECK(cudaMallocManaged(&managed, PIECE, 1));
        pause_a_while();
    }
}

int main(int argc, char **argv) {
    size_t hidden = 0;
    pthread_t thread;
    void *loaded;
    EXPECT(argc == 2);
    find_driver();
    if (strcmp(argv[1], "early") == 0) {
        CHECK(cudaFree(NULL));
        hidden = hide(TURNS * PIECE);
    }
    if (strcmp(argv[1], "loads") == 0) {
        CHECK(cudaMalloc(&loaded, PIECE)); /* SITE: loads */
        CHECK(cudaMemset(loaded, 0, PIECE));
    }
    if (strcmp(argv[1], "stray") == 0) {
        EXPECT(pthread_create(&thread, NULL, pin, NULL) == 0);
        EXPECT(pthread_join(thread, NULL) == 0);
    }
    take_turns(argv[1], &hidden);
    printf("hidden=%zu\n", hidden);
    return 0;
}
