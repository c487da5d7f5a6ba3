/*
 * many_modules.c - a framework's life in short: modules with kernels registered at its start, and
 * taken away one by one at its end. Arguments: modules, kernels in each.
 */
#include "own_runtime.h"

int main(int argc, char **argv) {
    static char stub[200000];
    static void **module[60000];
    int next = 0;

    if (argc != 3)
        return 2;
    int modules = atoi(argv[1]), kernels = atoi(argv[2]);
    EXPECT(modules <= 60000 && modules * kernels <= (int)sizeof stub);
    for (int m = 0; m < modules; m++) {
        module[m] = register_module();
        for (int k = 0; k < kernels; k++)
            register_kernel(module[m], &stub[next++], "a_kernel");
    }
    CHECK(cudaLaunchKernel(&stub[0], dim(1, 1, 1), dim(1, 1, 1), NULL, 0, NULL));
    for (int m = 0; m < modules; m++)
        __cudaUnregisterFatBinary(module[m]);
    own_runtime_say();
    return 0;
}
