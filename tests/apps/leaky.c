/*
 * leaky.c - a small training loop with three faults at known lines, the demonstration program:
 * batches go over from pageable memory, the loss comes back the same way, and 64 bytes of
 * scratch are never freed. The copies leave their direction to the runtime (cudaMemcpyDefault).
 */
#include "cuda_app.h"

enum { STEPS = 50, BATCH_BYTES = 1 << 20 };

static NOINLINE void sgd_step(float *weights, const float *batch, int n) {
    void *arguments[] = {&weights, &batch, &n, NULL};
    STUB(sgd_step, arguments);
}
MODULE(leaky, REGISTER_KERNEL(sgd_step, "_Z8sgd_stepPfPKfi"))

static NOINLINE void *make_scratch(void) {
    void *scratch = NULL;
    CHECK(cudaMalloc(&scratch, 64)); /* SITE: leak */
    return scratch;
}

static NOINLINE void load_batch(float *device, const float *host) {
    CHECK(cudaMemcpy(device, host, BATCH_BYTES, cudaMemcpyDefault)); /* SITE: batch */
}

static NOINLINE float read_loss(const float *device) {
    float loss = -1;
    CHECK(cudaMemcpy(&loss, device, sizeof loss, cudaMemcpyDefault)); /* SITE: loss */
    return loss;
}

int main(void) {
    float *host = (float *)malloc(BATCH_BYTES), *batch = NULL, *weights = NULL;
    float loss = 0;

    EXPECT(host != NULL);
    CHECK(cudaMalloc((void **)&batch, BATCH_BYTES));
    CHECK(cudaMalloc((void **)&weights, 4096));
    CHECK(cudaMemset(weights, 0, 4096));
    EXPECT(make_scratch() != NULL);
    for (int step = 0; step < STEPS; step++) {
        for (size_t i = 0; i < BATCH_BYTES / sizeof *host; i++)
            host[i] = (float)step;
        load_batch(batch, host);
        LAUNCH(dim(64, 1, 1), dim(256, 1, 1), 0, NULL, sgd_step(weights, batch, 1024));
        loss = read_loss(batch);
    }
    CHECK(cudaFree(batch));
    CHECK(cudaFree(weights));
    free(host);
    printf("%d steps, last loss %.1f\n", STEPS, loss);
    return 0;
}
