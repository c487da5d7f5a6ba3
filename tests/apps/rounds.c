/*
 * rounds.c MODE [ITERATIONS] - loops that are hard to tell the iterations of; prints how many there
 * were. Nothing marks them.
 *
 *   one       a copy and a kernel
 *   bare      a copy alone
 *   pair      two equal copies by one line, then a kernel
 *   waited    two equal copies by one line, then the program waits
 *   spread    two equal copies by one line, a kernel after each, and one for both
 *   lines     two copies by two lines, and a kernel
 *   kernels   a copy and one kernel seven times
 *   growing   a kernel; the program asks for more memory every tenth time
 *   pooled    a copy and a kernel; more memory every fifth time
 *   scratch   memory for one iteration, in which one kernel runs five times
 *   logged    a copy and a kernel; every fifth time a number is read
 *   polled    a copy, a kernel, and questions whether it is done, now more, now fewer
 *   accumulate  four batches and an update
 *   accumulate-logged  the same; every fifth time a number is read
 *   inner     an inner loop of five rounds that copies
 *   layers    an inner loop of thirty rounds that does not
 */
#include "cuda_app.h"

enum { BYTES = 8192 };

static void *input, *output, *one_more;
static unsigned char host[BYTES];

#define KERNEL(name)                                                                               \
    static NOINLINE void name(const void *in, void *out) {                                         \
        void *arguments[] = {&in, &out, NULL};                                                     \
        STUB(name, arguments);                                                                     \
    }
KERNEL(multiply)
KERNEL(add)
KERNEL(update)
MODULE(rounds, REGISTER_KERNEL(multiply, "_Z8multiplyPKvPv") REGISTER_KERNEL(add, "_Z3addPKvPv")
                   REGISTER_KERNEL(update, "_Z6updatePKvPv"))

#define RUN(kernel) LAUNCH(dim(4, 1, 1), dim(64, 1, 1), 0, NULL, kernel(input, output))

static void upload(void *to) {
    CHECK(cudaMemcpy(to, host, BYTES, cudaMemcpyHostToDevice));
}

static void read_number(void) {
    CHECK(cudaMemcpy(host, output, 4, cudaMemcpyDeviceToHost));
}

static void one(int i) {
    (void)i;
    upload(input);
    RUN(multiply);
}

static void bare(int i) {
    (void)i;
    upload(input);
}

static NOINLINE void two(void) {
    void *to[] = {input, one_more};
    for (int k = 0; k < 2; k++)
        upload(to[k]);
}

static void pair(int i) {
    (void)i;
    two();
    RUN(multiply);
}

static void waited(int i) {
    (void)i;
    two();
    CHECK(cudaDeviceSynchronize());
}

static void spread(int i) {
    (void)i;
    for (int k = 0; k < 2; k++) {
        upload(input);
        RUN(multiply);
    }
    RUN(add);
}

static void lines(int i) {
    (void)i;
    upload(input);
    upload(one_more);
    RUN(add);
}

static void kernels(int i) {
    (void)i;
    upload(input);
    for (int k = 0; k < 7; k++)
        RUN(multiply);
}

static void more_memory(void) {
    void *kept;
    CHECK(cudaMalloc(&kept, BYTES));
}

static void growing(int i) {
    RUN(multiply);
    RUN(add);
    if (i % 10 == 3)
        more_memory();
}

static void pooled(int i) {
    one(i);
    if (i % 5 == 3)
        more_memory();
}

static void scratch(int i) {
    void *memory;
    (void)i;
    CHECK(cudaMalloc(&memory, BYTES));
    for (int k = 0; k < 5; k++)
        RUN(multiply);
    CHECK(cudaFree(memory));
}

static void logged(int i) {
    one(i);
    RUN(add);
    if (i % 5 == 3)
        read_number();
}

static void polled(int i) {
    one(i);
    for (int k = 0; k < i * i % 13; k++)
        cudaStreamQuery(NULL); /* not ready: an answer */
    cudaGetLastError();
}

static void accumulate(int i) {
    (void)i;
    for (int k = 0; k < 4; k++) {
        upload(input);
        RUN(multiply);
        RUN(add);
    }
    RUN(update);
}

static void accumulate_logged(int i) {
    accumulate(i);
    if (i % 5 == 3)
        read_number();
}

static void inner(int i) {
    (void)i;
    upload(one_more);
    RUN(add);
    for (int k = 0; k < 5; k++) {
        upload(input);
        RUN(multiply);
    }
}

static void layers(int i) {
    (void)i;
    upload(input);
    for (int k = 0; k < 30; k++) {
        RUN(multiply);
        RUN(add);
    }
    RUN(update);
}

static const struct {
    const char *mode;
    void (*iterate)(int i);
} modes[] = {
    {"one", one},
    {"bare", bare},
    {"pair", pair},
    {"waited", waited},
    {"spread", spread},
    {"lines", lines},
    {"kernels", kernels},
    {"growing", growing},
    {"pooled", pooled},
    {"scratch", scratch},
    {"logged", logged},
    {"polled", polled},
    {"accumulate", accumulate},
    {"accumulate-logged", accumulate_logged},
    {"inner", inner},
    {"layers", layers},
};

int main(int argc, char **argv) {
    int iterations = argc > 2 ? atoi(argv[2]) : 60;
    CHECK(cudaMalloc(&input, BYTES));
    CHECK(cudaMalloc(&output, BYTES));
    CHECK(cudaMalloc(&one_more, BYTES));
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++)
        for (int i = 0; i < iterations && argc > 1 && strcmp(argv[1], modes[m].mode) == 0; i++)
            modes[m].iterate(i);
    printf("%d iterations\n", iterations);
    return 0;
}
