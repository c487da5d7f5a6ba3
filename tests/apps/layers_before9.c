/*
 * layers_before9.c - recurrent nets as programs wrote them before cuDNN 9: one descriptor for each
 * step, sequences of equal and of unequal lengths, with and without padding (Ex), searches for
 * algorithms; then what is refused. Linked with the simulated device's cuDNN 8. Prints "done".
 */
#include "cuda_app.h"

enum { F32 = 0, LSTM = 2, STEPS = 4, BATCH = 3, INPUT = 8, HIDDEN = 16, BYTES = 65536 };

static cudnnHandle_t handle;
static char *memory; /* each operand has a piece of its own */
static size_t used;

static void *room(void) {
    used += BYTES;
    EXPECT(used <= 64u << 20);
    return memory + used - BYTES;
}

static cudnnTensorDescriptor_t tensor(int a, int b, int c) {
    const int dims[] = {a, b, c}, strides[] = {b * c, c, 1};
    cudnnTensorDescriptor_t made;
    CHECK(cudnnCreateTensorDescriptor(&made));
    CHECK(cudnnSetTensorNdDescriptor(made, F32, 3, dims, strides));
    return made;
}

struct net {
    cudnnRNNDescriptor_t rnn;
    cudnnTensorDescriptor_t x[STEPS], y[STEPS], h;
    cudnnRNNDataDescriptor_t xs, ys;
    cudnnFilterDescriptor_t w;
    void *in, *out, *weights, *space, *reserve, *hx, *hy, *cx, *cy;
};

static void make(struct net *net, const int batch[STEPS], int layout) {
    const int weights[] = {64 * (INPUT + HIDDEN + 2), 1, 1}, lengths[BATCH] = {4, 3, 1};
    float fill = 0;
    CHECK(cudnnCreateRNNDescriptor(&net->rnn));
    CHECK(cudnnSetRNNDescriptor_v6(handle, net->rnn, HIDDEN, 1, NULL, 0, 0, LSTM, 0, F32));
    for (int i = 0; i < STEPS; i++) {
        net->x[i] = tensor(batch[i], INPUT, 1);
        net->y[i] = tensor(batch[i], HIDDEN, 1);
    }
    net->h = tensor(1, BATCH, HIDDEN);
    CHECK(cudnnCreateRNNDataDescriptor(&net->xs));
    CHECK(cudnnCreateRNNDataDescriptor(&net->ys));
    CHECK(cudnnSetRNNDataDescriptor(net->xs, F32, layout, STEPS, BATCH, INPUT, lengths, &fill));
    CHECK(cudnnSetRNNDataDescriptor(net->ys, F32, layout, STEPS, BATCH, HIDDEN, lengths, &fill));
    CHECK(cudnnCreateFilterDescriptor(&net->w));
    CHECK(cudnnSetFilterNdDescriptor(net->w, F32, 0, 3, weights));
    void **rooms[] = {&net->in, &net->out, &net->weights, &net->space, &net->reserve,
                      &net->hx, &net->hy,  &net->cx,      &net->cy};
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++)
        *rooms[i] = room();
}

static void destroy(struct net *net) {
    for (int i = 0; i < STEPS; i++) {
        CHECK(cudnnDestroyTensorDescriptor(net->x[i]));
        CHECK(cudnnDestroyTensorDescriptor(net->y[i]));
    }
    CHECK(cudnnDestroyTensorDescriptor(net->h));
    CHECK(cudnnDestroyRNNDataDescriptor(net->xs));
    CHECK(cudnnDestroyRNNDataDescriptor(net->ys));
    CHECK(cudnnDestroyFilterDescriptor(net->w));
    CHECK(cudnnDestroyRNNDescriptor(net->rnn));
}

static void by_steps(const struct net *n) {
    cudnnTensorDescriptor_t h = n->h;
    int found = 0;
    CHECK(cudnnFindRNNForwardInferenceAlgorithmEx(handle, n->rnn, STEPS, n->x, n->in, h, n->hx, h,
                                                  n->cx, n->w, n->weights, n->y, n->out, h, n->hy,
                                                  h, n->cy, 1, 0, &found, NULL, n->space, BYTES));
    CHECK(cudnnFindRNNForwardTrainingAlgorithmEx(
        handle, n->rnn, STEPS, n->x, n->in, h, n->hx, h, n->cx, n->w, n->weights, n->y, n->out, h,
        n->hy, h, n->cy, 1, 0, &found, NULL, n->space, BYTES, n->reserve, BYTES));
    CHECK(cudnnRNNForwardInference(handle, n->rnn, STEPS, n->x, n->in, h, n->hx, h, n->cx, n->w,
                                   n->weights, n->y, n->out, h, n->hy, h, n->cy, n->space, BYTES));
    CHECK(cudnnRNNForwardTraining(handle, n->rnn, STEPS, n->x, n->in, h, NULL, h, NULL, n->w,
                                  n->weights, n->y, n->out, h, NULL, h, NULL, n->space, BYTES,
                                  n->reserve, BYTES));
    void *dy = room(), *dx = room(), *dhx = room(), *dw = room();
    CHECK(cudnnFindRNNBackwardDataAlgorithmEx(handle, n->rnn, STEPS, n->y, n->out, n->y, dy, h,
                                              n->hy, h, n->cy, n->w, n->weights, h, n->hx, h, n->cx,
                                              n->x, dx, h, dhx, h, NULL, 1, 0, &found, NULL,
                                              n->space, BYTES, n->reserve, BYTES));
    CHECK(cudnnRNNBackwardData(handle, n->rnn, STEPS, n->y, n->out, n->y, dy, h, n->hy, h, n->cy,
                               n->w, n->weights, h, n->hx, h, n->cx, n->x, dx, h, dhx, h, NULL,
                               n->space, BYTES, n->reserve, BYTES));
    CHECK(cudnnFindRNNBackwardWeightsAlgorithmEx(handle, n->rnn, STEPS, n->x, n->in, h, n->hx, n->y,
                                                 n->out, 1, 0, &found, NULL, n->space, BYTES, n->w,
                                                 dw, n->reserve, BYTES));
    CHECK(cudnnRNNBackwardWeights(handle, n->rnn, STEPS, n->x, n->in, h, n->hx, n->y, n->out,
                                  n->space, BYTES, n->w, dw, n->reserve, BYTES));
}

/* What is NULL here is reserved for attention, which never came. */
static void whole(const struct net *n) {
    cudnnTensorDescriptor_t h = n->h;
    CHECK(cudnnSetRNNProjectionLayers(handle, n->rnn, HIDDEN / 2, 0));
    CHECK(cudnnRNNForwardInferenceEx(handle, n->rnn, n->xs, n->in, h, n->hx, h, n->cx, n->w,
                                     n->weights, n->ys, n->out, h, n->hy, h, n->cy, NULL, NULL,
                                     NULL, NULL, NULL, NULL, NULL, NULL, n->space, BYTES));
    CHECK(cudnnRNNForwardTrainingEx(handle, n->rnn, n->xs, n->in, h, n->hx, h, n->cx, n->w,
                                    n->weights, n->ys, n->out, h, n->hy, h, n->cy, NULL, NULL, NULL,
                                    NULL, NULL, NULL, NULL, NULL, n->space, BYTES, n->reserve,
                                    BYTES));
    CHECK(cudnnRNNBackwardDataEx(handle, n->rnn, n->ys, n->out, n->ys, room(), NULL, NULL, h, n->hy,
                                 h, n->cy, n->w, n->weights, h, n->hx, h, n->cx, n->xs, room(), h,
                                 room(), h, room(), NULL, NULL, n->space, BYTES, n->reserve,
                                 BYTES));
    CHECK(cudnnRNNBackwardWeightsEx(handle, n->rnn, n->xs, n->in, h, n->hx, n->ys, n->out, n->space,
                                    BYTES, n->w, room(), n->reserve, BYTES));
}

/* Told as they are: no descriptors, one that was never set, one that grows. */
static void wrong(struct net *n) {
    cudnnTensorDescriptor_t h = n->h, unset, grown[STEPS] = {n->x[0], n->x[1], n->x[2], n->x[3]};
#define FORWARD(steps, x)                                                                          \
    cudnnRNNForwardInference(handle, n->rnn, steps, x, n->in, h, n->hx, h, n->cx, n->w,            \
                             n->weights, n->y, n->out, h, n->hy, h, n->cy, n->space, BYTES)
    CHECK(cudnnCreateTensorDescriptor(&unset));
    EXPECT(FORWARD(STEPS, NULL) != 0);
    EXPECT(FORWARD(0, n->x) != 0);
    EXPECT(FORWARD(-1, n->x) != 0);
    grown[2] = unset;
    EXPECT(FORWARD(STEPS, grown) != 0);
    grown[2] = n->x[2];
    grown[3] = tensor(BATCH + 1, INPUT, 1);
    EXPECT(FORWARD(STEPS, grown) != 0);
    EXPECT(cudnnSetRNNProjectionLayers(handle, n->rnn, -1, 0) != 0);
    EXPECT(cudnnSetRNNDescriptor_v6(handle, NULL, HIDDEN, 1, NULL, 0, 0, LSTM, 0, F32) != 0);
    CHECK(FORWARD(STEPS, n->x));
    CHECK(cudnnDestroyTensorDescriptor(grown[3]));
    CHECK(cudnnDestroyTensorDescriptor(unset));
}

int main(void) {
    static const int alike[STEPS] = {BATCH, BATCH, BATCH, BATCH}, shorter[STEPS] = {3, 2, 2, 1};
    void *all;
    struct net net;
    CHECK(cudaMalloc(&all, 64u << 20));
    memory = all;
    CHECK(cudnnCreate(&handle));
    for (int layout = 0; layout < 3; layout++) {
        make(&net, layout == 1 ? shorter : alike, layout);
        by_steps(&net);
        whole(&net);
        wrong(&net);
        destroy(&net);
    }
    CHECK(cudnnDestroy(handle));
    CHECK(cudaFree(all));
    puts("done");
    return 0;
}
