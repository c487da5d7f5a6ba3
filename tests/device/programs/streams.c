/*
 * streams.c - threads with streams of their own, pinned double buffering and an event chain between
 * them. What comes back must be what was sent.
 */
enum { THREADS = 4, ROUNDS = 50, BYTES = 256 << 10 };

static NOINLINE void lane(int number, cudaStream_t stream, unsigned char **pinned, void *device) {
    unsigned char *back;
    CHECK(cudaHostAlloc((void **)&back, BYTES, cudaHostAllocDefault));
    for (int r = 0; r < ROUNDS; r++) {
        unsigned char *buffer = pinned[r % 2];
        memset(buffer, number * 60 + r, BYTES);
        CHECK(cudaMemcpyAsync(device, buffer, BYTES, cudaMemcpyHostToDevice, stream));
        CHECK(cudaMemsetAsync(device, r, 16, stream));
        CHECK(cudaMemcpyAsync(back, device, BYTES, cudaMemcpyDeviceToHost, stream));
        CHECK(cudaStreamSynchronize(stream));
        EXPECT(back[0] == (unsigned char)r && back[16] == buffer[16]);
    }
    CHECK(cudaFreeHost(back));
}

static void *work(void *argument) {
    int number = (int)(intptr_t)argument;
    unsigned char *pinned[2];
    cudaStream_t stream;
    void *device;

    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&device, BYTES));
    for (int i = 0; i < 2; i++)
        CHECK(cudaMallocHost((void **)&pinned[i], BYTES));
    lane(number, stream, pinned, device);
    for (int i = 0; i < 2; i++)
        CHECK(cudaFreeHost(pinned[i]));
    CHECK(cudaFree(device));
    CHECK(cudaStreamDestroy(stream));
    return NULL;
}

int main(void) {
    pthread_t thread[THREADS];
    for (intptr_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&thread[t], NULL, work, (void *)t));
    for (int t = 0; t < THREADS; t++)
        CHECK(pthread_join(thread[t], NULL));
    printf("%d threads, %d rounds\n", THREADS, ROUNDS);
    return 0;
}
