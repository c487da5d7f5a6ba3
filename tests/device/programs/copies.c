/*
 * copies.c - every direction and kind of memory, the kind named and left to the runtime
 * (cudaMemcpyDefault), flat, in rows, and into arrays. The data must arrive.
 *
 * Each stranger is memory that no recorded call made: the driver's own functions, which pass beside
 * every recorder. What it is can only be asked of the runtime, and only of 2 MiB of addresses that
 * hold nothing else (docs/limits.md); of memory that a copy's kind puts on the device nothing is
 * asked.
 */
#include <dlfcn.h>

enum { BYTES = 96 << 10, HALF = BYTES / 2, WIDTH = 256, ROWS = 16, GRANULE = 2 << 20 };
#define UNIFIED cudaMemcpyDefault

struct driver {
    int (*alloc)(void **out, size_t size);
    int (*free)(void *ptr);
    int (*host_alloc)(void **out, size_t size, unsigned flags);
    int (*host_free)(void *ptr);
    int (*managed)(void **out, size_t size, unsigned flags);
};

static void *driver_function(const char *name) {
    static void *driver;
    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *function = driver ? dlsym(driver, name) : NULL;
    if (!function) {
        fprintf(stderr, "copies: no %s in libcuda.so.1\n", name);
        exit(1);
    }
    return function;
}

static struct driver driver_open(void) {
    struct driver driver;
    *(void **)&driver.alloc = driver_function("cuMemAlloc_v2");
    *(void **)&driver.free = driver_function("cuMemFree_v2");
    *(void **)&driver.host_alloc = driver_function("cuMemHostAlloc");
    *(void **)&driver.host_free = driver_function("cuMemFreeHost");
    *(void **)&driver.managed = driver_function("cuMemAllocManaged");
    return driver;
}

static void fill(unsigned char *data, unsigned seed) {
    for (unsigned i = 0; i < BYTES; i++)
        data[i] = (unsigned char)(i * 7 + seed);
}

/* host -> device -> elsewhere on the device -> back into other host memory: what came back. */
static NOINLINE void there_and_back(unsigned char *host, unsigned char *device, int named) {
    static unsigned char back[BYTES];
    static unsigned seed;
    enum cudaMemcpyKind in = named ? cudaMemcpyHostToDevice : UNIFIED,
                        on = named ? cudaMemcpyDeviceToDevice : UNIFIED,
                        out = named ? cudaMemcpyDeviceToHost : UNIFIED;
    fill(host, ++seed);
    CHECK(cudaMemcpy(device, host, HALF, in)); /* SITE: in */
    CHECK(cudaMemcpyAsync(device + HALF, device, HALF, on, NULL));
    CHECK(cudaMemcpy(back, device + HALF, HALF, out));
    EXPECT(memcmp(back, host, HALF) == 0);
    memset(host, 0, HALF);
    CHECK(cudaMemcpyAsync(host, device, HALF, out, NULL)); /* SITE: out */
    CHECK(cudaDeviceSynchronize());
    EXPECT(memcmp(back, host, HALF) == 0);
}

static NOINLINE void between(unsigned char *to, unsigned char *from, enum cudaMemcpyKind kind) {
    CHECK(cudaMemcpy(to, from, 1000, kind));
    CHECK(cudaMemcpy(to + 5, from + 7, 11, UNIFIED));
    CHECK(cudaDeviceSynchronize());
}

static NOINLINE void rows(unsigned char *host, unsigned char *device) {
    struct cudaChannelFormatDesc bytes = {8, 0, 0, 0, cudaChannelFormatKindUnsigned};
    unsigned char back[ROWS][WIDTH];
    cudaArray_t array;
    size_t pitch;
    void *pitched;

    CHECK(cudaMallocPitch(&pitched, &pitch, WIDTH, ROWS));
    CHECK(cudaMallocArray(&array, &bytes, WIDTH, ROWS, cudaArrayDefault));
    fill(host, 77);
    CHECK(cudaMemcpy2D(pitched, pitch, host, WIDTH, WIDTH, ROWS, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, pitched, pitch, WIDTH, ROWS, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy2DFromArray(device, WIDTH, array, 0, 0, WIDTH, ROWS, UNIFIED));
    CHECK(cudaMemcpy2DAsync(back, WIDTH, device, WIDTH, WIDTH, ROWS, UNIFIED, NULL));
    CHECK(cudaDeviceSynchronize());
    EXPECT(memcmp(back, host, sizeof back) == 0);
    CHECK(cudaFreeArray(array));
    CHECK(cudaFree(pitched));
}

/* The first address within that shares its 2 MiB with no other memory. */
static unsigned char *alone(void *memory) {
    uintptr_t at = (uintptr_t)memory + GRANULE - 1;
    return (unsigned char *)(at - at % GRANULE);
}

static void strangers(unsigned char *pageable, unsigned char *pinned, unsigned char *device) {
    struct driver driver = driver_open();
    void *memory, *host, *managed;
    CHECK(driver.alloc(&memory, 2 * GRANULE));
    CHECK(driver.host_alloc(&host, 2 * GRANULE, 0));
    CHECK(driver.managed(&managed, 2 * GRANULE, 1 /* CU_MEM_ATTACH_GLOBAL */));
    COUNT_UNSEEN(memory, 2 * GRANULE, COUNT_DEVICE);
    COUNT_UNSEEN(host, 2 * GRANULE, COUNT_PINNED);
    COUNT_UNSEEN(managed, 2 * GRANULE, COUNT_MANAGED);
    for (int named = 0; named < 2; named++) {
        there_and_back(pageable, alone(memory), named);
        there_and_back(pinned, alone(memory), named);
        there_and_back(alone(host), alone(memory), named);
        there_and_back(alone(host), device, named);
    }
    there_and_back(pageable, alone(managed), 0);
    between(alone(managed), alone(memory), UNIFIED);
    CHECK(driver.free(managed));
    CHECK(driver.host_free(host));
    CHECK(driver.free(memory));
    COUNT_UNSEEN_FREED(managed);
    COUNT_UNSEEN_FREED(host);
    COUNT_UNSEEN_FREED(memory);
}

int main(void) {
    static unsigned char global[BYTES] __attribute__((aligned(4096)));
    unsigned char *heap = malloc(BYTES), *registered = aligned_alloc(4096, BYTES);
    void *device, *other, *managed, *pinned;

    EXPECT(heap && registered);
    CHECK(cudaMalloc(&device, BYTES));
    CHECK(cudaMalloc(&other, BYTES));
    CHECK(cudaMallocManaged(&managed, BYTES, cudaMemAttachGlobal));
    CHECK(cudaMallocHost(&pinned, BYTES));
    CHECK(cudaHostRegister(registered, BYTES, cudaHostRegisterDefault));
    for (int named = 0; named < 2; named++) {
        there_and_back(heap, device, named);
        there_and_back(global, device, named);
        there_and_back(pinned, device, named);
        there_and_back(registered, other, named);
        there_and_back(heap, managed, named);
        there_and_back(pinned, managed, named);
    }
    between(heap, global, cudaMemcpyHostToHost);
    between(pinned, heap, cudaMemcpyHostToHost);
    between(other, device, cudaMemcpyDeviceToDevice);
    rows(heap, device);
    rows(pinned, other);
    strangers(heap, pinned, device);
    CHECK(cudaHostUnregister(registered));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(managed));
    CHECK(cudaFree(other));
    CHECK(cudaFree(device));
    printf("all arrived\n");
    return 0;
}
