/*
 * kernel_errno.c - errno around the first launches of many kernels, each of which has a long name
 * to be told, while the file they are told to is gone and cannot grow. Argument: that file.
 */
#include <errno.h>
#include <unistd.h>

#include "own_runtime.h"

enum { KERNELS = 2000, NAME = 1000 };

int main(int argc, char **argv) {
    static char stub[KERNELS], name[NAME];
    void **module = register_module();
    int changed = 0;

    if (argc != 2)
        return 2;
    memset(name, 'k', NAME - 1);
    for (int i = 0; i < KERNELS; i++)
        register_kernel(module, &stub[i], strdup(name));
    for (int i = 0; i < KERNELS; i++) {
        if (i == 5)
            (void)unlink(argv[1]);
        errno = 4711;
        CHECK(cudaLaunchKernel(&stub[i], dim(1, 1, 1), dim(1, 1, 1), NULL, 0, NULL));
        changed += errno != 4711;
    }
    printf("changed %d\n", changed);
    return 0;
}
