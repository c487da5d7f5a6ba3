/*
 * reformats.c - an inference engine of which nothing is seen but its kernels: many small copies
 * from one format to another, as many slices make them. Usage: reformats COPIES OTHERS. Prints
 * both.
 */
#include "cuda_app.h"

static void reformat(void) {
}
static void slice(void) {
}
static void compute(void) {
}
MODULE(reformats,
       REGISTER_KERNEL(reformat,
                       "_ZN15genericReformat16copyPackedKernelIffLb1ELb1E9ArrayIntNLi1EEEvv")
           REGISTER_KERNEL(slice, "_ZN6custom11sliceKernelIfEEvPKfPfi")
               REGISTER_KERNEL(compute, "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x64x16"))

static void enqueue(void (*kernel)(void), int count) {
    float *from = NULL, *to = NULL;
    int count_of_all = 0;
    void *arguments[] = {&from, &to, &count_of_all};
    dim3 one = dim(1, 1, 1), many = dim(128, 1, 1);
    const void *function = (const void *)kernel;
    for (int i = 0; i < count; i++)
        CHECK(cudaLaunchKernel(function, one, many, arguments, 0, NULL)); /* SITE: enqueue */
}

int main(int argc, char **argv) {
    EXPECT(argc == 3);
    int copies = atoi(argv[1]), others = atoi(argv[2]);
    enqueue(slice, 3);
    enqueue(reformat, copies);
    enqueue(compute, others);
    CHECK(cudaDeviceSynchronize());
    printf("copies=%d others=%d\n", copies, others);
    return 0;
}
