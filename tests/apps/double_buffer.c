/*
 * double_buffer.c - streams with pinned double buffering, done as it should be: nothing here is a
 * fault, so a report that names one is wrong.
 */
#include "cuda_app.h"

enum { CHUNKS = 24, BYTES = 256 << 10 };

static NOINLINE void scale(float *data, float by, int n) {
    void *arguments[] = {&data, &by, &n, NULL};
    STUB(scale, arguments);
}
MODULE(double_buffer, REGISTER_KERNEL(scale, "_Z5scalePffi"))

struct lane {
    cudaStream_t stream;
    cudaEvent_t done;
    unsigned char *in, *out;
    void *device;
};

static void lane_open(struct lane *l) {
    CHECK(cudaStreamCreateWithFlags(&l->stream, 1));
    CHECK(cudaEventCreateWithFlags(&l->done, 2));
    CHECK(cudaHostAlloc((void **)&l->in, BYTES, 0));
    CHECK(cudaMallocHost((void **)&l->out, BYTES));
    CHECK(cudaMalloc(&l->device, BYTES));
}

static void lane_close(struct lane *l) {
    CHECK(cudaFree(l->device));
    CHECK(cudaFreeHost(l->out));
    CHECK(cudaFreeHost(l->in));
    CHECK(cudaEventDestroy(l->done));
    CHECK(cudaStreamDestroy(l->stream));
}

int main(void) {
    struct lane lane[2];
    unsigned long sum = 0;

    for (int i = 0; i < 2; i++)
        lane_open(&lane[i]);
    for (int c = 0; c < CHUNKS; c++) {
        struct lane *l = &lane[c % 2];
        if (c >= 2) {
            CHECK(cudaEventSynchronize(l->done));
            sum += l->out[c];
        }
        memset(l->in, c, BYTES);
        /* From the middle of the pinned range too: an interior pointer is as pinned as its start.
         */
        CHECK(cudaMemcpyAsync(l->device, l->in, BYTES / 2, cudaMemcpyHostToDevice, l->stream));
        CHECK(cudaMemcpyAsync((char *)l->device + BYTES / 2, l->in + BYTES / 2, BYTES / 2,
                              cudaMemcpyDefault, l->stream));
        LAUNCH(dim(BYTES / 1024, 1, 1), dim(256, 1, 1), 0, l->stream,
               scale((float *)l->device, 2, BYTES / 4));
        CHECK(cudaMemcpyAsync(l->out, l->device, BYTES, cudaMemcpyDeviceToHost, l->stream));
        CHECK(cudaEventRecord(l->done, l->stream));
    }
    for (int i = 0; i < 2; i++) {
        CHECK(cudaStreamSynchronize(lane[i].stream));
        sum += lane[i].out[BYTES - 1];
        lane_close(&lane[i]);
    }
    printf("sum %lu\n", sum);
    return 0;
}
