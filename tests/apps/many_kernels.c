/*
 * many_kernels.c - 20,000 registered kernels, as `import torch` brings, of which a few are
 * launched, in both ways that host code launches. The host stubs are addresses only.
 */
#include "cuda_app.h"

enum { KERNELS = 20000, STEP = 777 };

static char stub[KERNELS];
static char name[KERNELS][40];

static void register_all(void **handle) {
    for (int i = 0; i < KERNELS; i++) {
        snprintf(name[i], sizeof name[i], "_Z12kernel_%05dPfi", i);
        __cudaRegisterFunction(handle, &stub[i], name[i], name[i], -1, NULL, NULL, NULL, NULL,
                               NULL);
    }
}
MODULE(many_kernels, register_all(handle);)

int main(void) {
    void *arguments[] = {NULL};
    int launched = 0;

    for (int i = 0; i < KERNELS; i += STEP, launched++) {
        if (i % 2) {
            cudaKernel_t kernel = NULL;
            CHECK(__cudaGetKernel(&kernel, &stub[i]));
            CHECK(__cudaLaunchKernel(kernel, dim((unsigned)i + 1, 2, 3), dim(32, 4, 1), arguments,
                                     0, NULL));
        } else {
            CHECK(cudaLaunchKernel(&stub[i], dim(1, (unsigned)i + 1, 1), dim(1, 1, 64), arguments,
                                   128, NULL));
        }
    }
    CHECK(cudaDeviceSynchronize());
    printf("launched %d of %d\n", launched, KERNELS);
    return 0;
}
