/*
 * pools.c - memory in the order of streams: the device's default pool and one of its own, freed in
 * the order of another stream, by cudaFree, and some never.
 */
enum { ROUNDS = 30 };

static NOINLINE void rounds(cudaStream_t one, cudaStream_t two, cudaMemPool_t pool) {
    cudaEvent_t made;
    CHECK(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    for (size_t i = 1; i <= ROUNDS; i++) {
        void *a, *b, *c;
        CHECK(cudaMallocAsync(&a, i * 1000, one)); /* SITE: async */
        CHECK(cudaMallocFromPoolAsync(&b, i << 16, pool, one));
        CHECK(cudaMallocAsync(&c, 512, two));
        CHECK(cudaMemsetAsync(a, 1, i * 1000, one));
        CHECK(cudaMemcpyAsync(b, a, i * 1000, cudaMemcpyDeviceToDevice, one));
        CHECK(cudaEventRecord(made, one));
        CHECK(cudaStreamWaitEvent(two, made, 0));
        CHECK(cudaFreeAsync(a, two));
        CHECK(cudaFreeAsync(b, one));
        if (i % 10 == 0)
            CHECK(cudaFree(c));
        else
            CHECK(cudaFreeAsync(c, two));
    }
    CHECK(cudaStreamSynchronize(one));
    CHECK(cudaStreamSynchronize(two));
    CHECK(cudaEventDestroy(made));
}

int main(void) {
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {.type = cudaMemLocationTypeDevice}};
    cudaStream_t one, two;
    cudaMemPool_t pool, standard;
    void *kept;
    int supported = 0;

    CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, 0));
    if (!supported) {
        printf("unsupported: this device has no memory pools\n");
        return 0;
    }
    CHECK(cudaStreamCreate(&one));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    CHECK(cudaMemPoolCreate(&pool, &props));
    CHECK(cudaDeviceGetDefaultMemPool(&standard, 0));
    rounds(one, two, pool);
    CHECK(cudaMallocAsync(&kept, 12345, one));
    CHECK(cudaStreamSynchronize(one));
    CHECK(cudaMemPoolTrimTo(standard, 0));
    CHECK(cudaMemPoolDestroy(pool));
    CHECK(cudaStreamDestroy(two));
    CHECK(cudaStreamDestroy(one));
    printf("%d rounds\n", ROUNDS);
    return 0;
}
