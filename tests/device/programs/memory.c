/*
 * memory.c - every way to get memory, with some of it never given back.
 *
 * Usage: memory [ENDING]   exit7, _exit3, abort, kill: how it ends, after what it did was counted.
 */
#include <signal.h>
#include <unistd.h>

enum { ROUNDS = 20 };

/* What stays until the end is made here. */
static NOINLINE void keep(size_t size) {
    void *kept = NULL;
    CHECK(cudaMalloc(&kept, size)); /* SITE: kept */
}

static NOINLINE void one_of_each(size_t size) {
    void *device, *pitched, *managed, *pinned, *mapped, *own;
    cudaArray_t array;
    size_t pitch;
    struct cudaChannelFormatDesc floats = {32, 0, 0, 0, cudaChannelFormatKindFloat};

    CHECK(cudaMalloc(&device, size)); /* SITE: device */
    CHECK(cudaMallocPitch(&pitched, &pitch, 300, 7));
    CHECK(cudaMallocManaged(&managed, size + 1, cudaMemAttachGlobal));
    CHECK(cudaMallocHost(&pinned, size + 2));
    CHECK(cudaHostAlloc(&mapped, size + 3, cudaHostAllocMapped));
    CHECK(posix_memalign(&own, 4096, 8192));
    CHECK(cudaHostRegister(own, 8192, cudaHostRegisterDefault));
    CHECK(cudaMallocArray(&array, &floats, 32, 16, cudaArrayDefault));
    CHECK(cudaMemset2DAsync(pitched, pitch, 1, 300, 7, NULL));
    CHECK(cudaMemset(device, 0, size));
    CHECK(cudaDeviceSynchronize());

    CHECK(cudaFreeArray(array));
    CHECK(cudaHostUnregister(own));
    free(own);
    CHECK(cudaFreeHost(mapped));
    CHECK(cudaFreeHost(pinned));
    CHECK(cudaFree(managed));
    CHECK(cudaFree(pitched));
    CHECK(cudaFree(device));
}

static void end(const char *how) {
    if (strcmp(how, "exit7") == 0)
        exit(7);
    count_print();
    if (strcmp(how, "_exit3") == 0)
        _exit(3);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "kill") == 0)
        kill(getpid(), SIGKILL);
    EXPECT(!"an ending that is known");
}

int main(int argc, char **argv) {
    for (size_t i = 1; i <= ROUNDS; i++)
        one_of_each(i << 14);
    for (size_t i = 1; i <= 3; i++)
        keep(i << 20);
    CHECK(cudaFree(NULL));
    printf("%d rounds\n", ROUNDS);
    if (argc > 1)
        end(argv[1]);
    return 0;
}
