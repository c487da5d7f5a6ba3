/*
 * loops.c MODE - programs that iterate. Each iteration begins with a question for the free memory,
 * which nothing else asks: what steps are compared with. Prints how many there were.
 *
 *   inference  50 batches after a warm-up with the same kernels, one log copy in 10
 *   layers     20 batches of 8 layers each
 *   epochs     6 epochs of 20 batches, an evaluation after each (its batches do not ask)
 *   marked     5 rounds of 7 batches, layoutspy_step() at each round (only those ask)
 *   early      the same, and nothing before the first round
 *   straight   no loop but the one that loads
 */
#include <dlfcn.h>

#include "cuda_app.h"

enum { BYTES = 8192 };

static void *input, *weights, *output;
static unsigned char host[BYTES];
static int iterations;

#define KERNEL(name)                                                                               \
    static NOINLINE void name(const void *in, void *out) {                                         \
        void *arguments[] = {&in, &out, NULL};                                                     \
        STUB(name, arguments);                                                                     \
    }
KERNEL(multiply)
KERNEL(activate)
KERNEL(normalize)
MODULE(loops,
       REGISTER_KERNEL(multiply, "_Z8multiplyPKvPv") REGISTER_KERNEL(activate, "_Z8activatePKvPv")
           REGISTER_KERNEL(normalize, "_Z9normalizePKvPv"))

static void begin(void) {
    size_t free_bytes, total;
    CHECK(cudaMemGetInfo(&free_bytes, &total));
    iterations++;
}

static NOINLINE void layer(void) {
    LAUNCH(dim(4, 1, 1), dim(64, 1, 1), 0, NULL, multiply(weights, output));
    LAUNCH(dim(4, 1, 1), dim(64, 1, 1), 0, NULL, activate(output, output));
    LAUNCH(dim(4, 1, 1), dim(64, 1, 1), 0, NULL, normalize(output, output));
}

static NOINLINE void read_back(void *to) {
    CHECK(cudaMemcpy(to, output, 64, cudaMemcpyDeviceToHost));
}

static void load(void) {
    CHECK(cudaMalloc(&input, BYTES));
    CHECK(cudaMalloc(&output, BYTES));
    CHECK(cudaMalloc(&weights, 40 * BYTES));
    for (int i = 0; i < 40; i++)
        CHECK(cudaMemcpy((char *)weights + i * BYTES, host, BYTES, cudaMemcpyHostToDevice));
}

static void inference(void) {
    for (int i = 0; i < 3; i++)
        layer();
    for (int i = 0; i < 50; i++) {
        begin();
        CHECK(cudaMemcpy(input, host, BYTES, cudaMemcpyHostToDevice));
        for (int k = 0; k < 3; k++)
            layer();
        if (i % 10 == 3)
            read_back(host + 64);
        read_back(host);
    }
}

static void layers(void) {
    for (int i = 0; i < 20; i++) {
        begin();
        CHECK(cudaMemcpy(input, host, BYTES, cudaMemcpyHostToDevice));
        for (int k = 0; k < 8; k++) {
            void *scratch;
            CHECK(cudaMalloc(&scratch, BYTES));
            layer();
            CHECK(cudaFree(scratch));
        }
    }
}

static void epochs(void) {
    for (int epoch = 0; epoch < 6; epoch++) {
        for (int i = 0; i < 20; i++) {
            begin();
            CHECK(cudaMemcpy(input, host, BYTES, cudaMemcpyHostToDevice));
            layer();
            layer();
        }
        for (int i = 0; i < 6; i++) {
            CHECK(cudaMemcpy(input, host, BYTES, cudaMemcpyHostToDevice));
            layer();
            read_back(host);
        }
    }
}

static void marked(void) {
    void (*step)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "layoutspy_step");
    for (int i = 0; i < 5; i++) {
        if (step)
            step();
        begin();
        if (!weights)
            load();
        for (int k = 0; k < 7; k++) {
            CHECK(cudaMemcpy(input, host, BYTES, cudaMemcpyHostToDevice));
            layer();
        }
    }
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "early") != 0)
        load();
    if (strcmp(mode, "inference") == 0)
        inference();
    else if (strcmp(mode, "layers") == 0)
        layers();
    else if (strcmp(mode, "epochs") == 0)
        epochs();
    else if (strcmp(mode, "marked") == 0 || strcmp(mode, "early") == 0)
        marked();
    else if (strcmp(mode, "straight") == 0)
        layer();
    else
        return 2;
    CHECK(cudaFree(input));
    CHECK(cudaFree(weights));
    CHECK(cudaFree(output));
    printf("%d iterations\n", iterations);
    return 0;
}
