/*
 * async_pools.c - stream-ordered memory: a pool of its own that keeps what is freed, two streams
 * that hand buffers to each other by an event, a reserve that is trimmed, and one result that is
 * never freed.
 */
#include "cuda_app.h"

enum { ROUNDS = 20, BYTES = 300000 };

static NOINLINE void fill(float *data, int n) {
    void *arguments[] = {&data, &n, NULL};
    STUB(fill, arguments);
}
MODULE(async_pools, REGISTER_KERNEL(fill, "_Z4fillPfi"))

static cudaMemPool_t make_pool(void) {
    struct cudaMemPoolProps props = {0};
    cudaMemPool_t pool = NULL;
    uint64_t keep_all = UINT64_MAX;
    props.allocType = (enum cudaMemAllocationType)1;
    props.location.type = cudaMemLocationTypeDevice;
    CHECK(cudaMemPoolCreate(&pool, &props));
    CHECK(
        cudaMemPoolSetAttribute(pool, (enum cudaMemPoolAttr)4, &keep_all)); /* release threshold */
    return pool;
}

static uint64_t pool_bytes(cudaMemPool_t pool, int attribute) {
    uint64_t bytes = 0;
    CHECK(cudaMemPoolGetAttribute(pool, (enum cudaMemPoolAttr)attribute, &bytes));
    return bytes;
}

/* Made on one stream, used and freed on the other. */
static NOINLINE void round_trip(cudaMemPool_t pool, cudaStream_t maker, cudaStream_t user,
                                cudaEvent_t made) {
    void *buffer = NULL, *scratch = NULL;
    CHECK(cudaMallocFromPoolAsync(&buffer, BYTES, pool, maker));
    CHECK(cudaMallocAsync(&scratch, BYTES / 3, maker)); /* of the device's own pool */
    LAUNCH(dim(8, 1, 1), dim(128, 1, 1), 0, maker, fill((float *)buffer, BYTES / 4));
    CHECK(cudaFreeAsync(scratch, maker));
    CHECK(cudaEventRecord(made, maker));
    CHECK(cudaStreamWaitEvent(user, made, 0));
    CHECK(cudaMemsetAsync(buffer, 0, BYTES, user));
    CHECK(cudaFreeAsync(buffer, user));
}

static NOINLINE void *keep_result(cudaStream_t stream) {
    void *result = NULL;
    CHECK(cudaMallocAsync(&result, 5000, stream)); /* SITE: result */
    return result;
}

int main(void) {
    cudaMemPool_t pool = make_pool(), usual = NULL;
    cudaStream_t maker, user;
    cudaEvent_t made;
    void *plain = NULL;

    CHECK(cudaStreamCreateWithFlags(&maker, 1));
    CHECK(cudaStreamCreateWithFlags(&user, 1));
    CHECK(cudaEventCreateWithFlags(&made, 2));
    for (int i = 0; i < ROUNDS; i++)
        round_trip(pool, maker, user, made);
    CHECK(cudaStreamSynchronize(maker));
    CHECK(cudaStreamSynchronize(user));
    EXPECT(pool_bytes(pool, 7) == 0 && pool_bytes(pool, 5) >= BYTES); /* used, reserved */
    CHECK(cudaMemPoolTrimTo(pool, 0));
    EXPECT(pool_bytes(pool, 5) == 0);

    /* What cudaMalloc gave, a stream may free; what a stream gave, cudaFree. */
    CHECK(cudaMalloc(&plain, 4096));
    CHECK(cudaFreeAsync(plain, maker));
    CHECK(cudaMallocAsync(&plain, 8192, user));
    CHECK(cudaStreamSynchronize(user));
    CHECK(cudaFree(plain));

    /* The pool takes the place of the device's for a while, and goes while something is left. */
    CHECK(cudaDeviceSetMemPool(0, pool));
    EXPECT(keep_result(user) != NULL);
    CHECK(cudaDeviceGetDefaultMemPool(&usual, 0));
    CHECK(cudaDeviceSetMemPool(0, usual));
    CHECK(cudaMemPoolDestroy(pool));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaEventDestroy(made));
    CHECK(cudaStreamDestroy(maker));
    CHECK(cudaStreamDestroy(user));
    printf("%d rounds\n", ROUNDS);
    return 0;
}
