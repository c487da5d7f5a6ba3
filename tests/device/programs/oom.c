/*
 * oom.c - takes the device's memory in eighths until there is no more, gives it back, and goes on.
 *
 * A failed call leaves its error behind for cudaGetLastError(). What a recorder asks of the runtime
 * meanwhile must neither take that error away nor put another in its place.
 */
enum { PARTS = 8, FEW = 4096 };

static NOINLINE void *take(size_t size) {
    void *memory = NULL;
    cudaError_t status = cudaMalloc(&memory, size); /* SITE: oom */
    return status == cudaSuccess ? memory : NULL;
}

int main(void) {
    static unsigned char global[FEW];
    void *memory[PARTS + 1], *small;
    size_t available, total;
    int count = 0;

    CHECK(cudaMalloc(&small, FEW));
    CHECK(cudaMemGetInfo(&available, &total));
    while (count <= PARTS && (memory[count] = take(total / PARTS)) != NULL)
        count++;
    EXPECT(count < PARTS + 1);
    printf("%d of %d parts\n", count, PARTS);

    /* Host memory that was never used before: whoever asks now what it is takes the error away. */
    unsigned char *fresh = aligned_alloc(4 << 20, 4 << 20);
    EXPECT(fresh);
    memset(fresh, 3, FEW);
    counted.unasked = 1;
    CHECK(cudaMemcpy(small, fresh, FEW, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(global, small, FEW, cudaMemcpyDeviceToHost));
    EXPECT(global[FEW - 1] == 3);
    printf("last error: %s\n", cudaGetErrorName(cudaPeekAtLastError()));
    printf("last error: %s\n", cudaGetErrorName(cudaGetLastError()));
    counted.unasked = 0;
    printf("then: %s\n", cudaGetErrorName(cudaGetLastError()));

    printf("copy out of nowhere: %s\n",
           cudaGetErrorName(cudaMemcpy(small, NULL, FEW, cudaMemcpyHostToDevice)));
    printf("last error: %s\n", cudaGetErrorName(cudaGetLastError()));
    while (count-- > 0)
        CHECK(cudaFree(memory[count]));
    CHECK(cudaFree(small));
    return 0;
}
