/*
 * marked_steps.c N - N steps of about a millisecond, each marked by layoutspy_step(), with four
 * copies.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

#include "cuda_app.h"

enum { BYTES = 4096 };

int main(int argc, char **argv) {
    static unsigned char host[BYTES];
    void (*step)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "layoutspy_step");
    const struct timespec work = {.tv_nsec = 1000000};
    int steps = argc > 1 ? atoi(argv[1]) : 10;
    void *device;
    CHECK(cudaMalloc(&device, BYTES));
    for (int i = 0; i < steps; i++) {
        if (step)
            step();
        for (int k = 0; k < 4; k++)
            CHECK(cudaMemcpy(device, host, BYTES, cudaMemcpyHostToDevice));
        nanosleep(&work, NULL);
    }
    if (step)
        step();
    CHECK(cudaFree(device));
    printf("%d steps\n", steps);
    return 0;
}
