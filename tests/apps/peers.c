/*
 * peers.c - two devices: halves of a field on each, edges exchanged by peer copies in every form, a
 * thread per device; the second device loses its copy of the edges.
 */
#include <pthread.h>

#include "cuda_app.h"

enum { STEPS = 15, HALF = 1 << 16, EDGE = 4096 };

static NOINLINE void relax(float *half, int n) {
    void *arguments[] = {&half, &n, NULL};
    STUB(relax, arguments);
}
MODULE(peers, REGISTER_KERNEL(relax, "_Z5relaxPfi"))

struct side {
    int device;
    float *half;
    void *edges;
    cudaStream_t stream;
};
static struct side sides[2];

static NOINLINE void open_side(struct side *s, int device) {
    s->device = device;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc((void **)&s->half, HALF));
    CHECK(cudaMalloc(&s->edges, EDGE)); /* SITE: edges */
    CHECK(cudaStreamCreateWithFlags(&s->stream, 1));
    CHECK(cudaMemset(s->half, device, HALF));
}

static void *run(void *argument) {
    struct side *s = (struct side *)argument;
    const struct side *other = &sides[1 - s->device];
    struct cudaMemcpy3DPeerParms box = {0};

    CHECK(cudaSetDevice(s->device));
    box.srcPtr = (struct cudaPitchedPtr){other->half, 64, 64, 8};
    box.srcDevice = other->device;
    box.dstPtr = (struct cudaPitchedPtr){s->edges, 64, 64, 8};
    box.dstDevice = s->device;
    box.extent = (struct cudaExtent){64, 8, 2};
    for (int step = 0; step < STEPS; step++) {
        LAUNCH(dim(16, 1, 1), dim(256, 1, 1), 0, s->stream, relax(s->half, HALF / 4));
        CHECK(
            cudaMemcpyPeerAsync(s->edges, s->device, other->half, other->device, EDGE, s->stream));
        CHECK(cudaMemcpy3DPeerAsync(&box, s->stream));
        CHECK(cudaMemcpyAsync(s->half, s->edges, EDGE, cudaMemcpyDefault, s->stream));
        CHECK(cudaStreamSynchronize(s->stream));
    }
    return NULL;
}

int main(void) {
    pthread_t thread[2];
    float sum[2] = {0};

    for (int d = 0; d < 2; d++)
        open_side(&sides[d], d);
    CHECK(cudaMemcpyPeer(sides[0].edges, 0, sides[1].half, 1, EDGE));
    CHECK(cudaMemcpy(sides[1].edges, sides[0].half, EDGE,
                     cudaMemcpyDefault)); /* as unified addressing has it */
    for (int d = 0; d < 2; d++)
        CHECK(pthread_create(&thread[d], NULL, run, &sides[d]));
    for (int d = 0; d < 2; d++)
        CHECK(pthread_join(thread[d], NULL));
    for (int d = 0; d < 2; d++) {
        CHECK(cudaSetDevice(d));
        CHECK(cudaMemcpy(&sum[d], sides[d].half, sizeof sum[d], cudaMemcpyDeviceToHost));
        CHECK(cudaFree(sides[d].half));
        if (d == 0)
            CHECK(cudaFree(sides[d].edges));
        CHECK(cudaStreamDestroy(sides[d].stream));
    }
    printf("%d steps on 2 devices\n", STEPS);
    return 0;
}
