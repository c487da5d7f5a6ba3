/*
 * ctl_target.c - makes ten copies of each size that a line of its input names, marks a step where
 * the line is "step", and repeats the line.
 */
#include <dlfcn.h>

#include "cuda_app.h"

int main(void) {
    char line[64], *host, *device;
    void (*step)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "layoutspy_step");
    setvbuf(stdout, NULL, _IOLBF, 0);
    CHECK(cudaMallocHost((void **)&host, 1 << 20));
    CHECK(cudaMalloc((void **)&device, 1 << 20));
    while (fgets(line, sizeof line, stdin)) {
        size_t bytes = strtoul(line, NULL, 10);
        for (int i = 0; i < 10 && bytes; i++)
            CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, NULL));
        CHECK(cudaStreamSynchronize(NULL));
        if (step && strcmp(line, "step\n") == 0)
            step();
        fputs(line, stdout);
    }
    CHECK(cudaFree(device));
    return 0;
}
