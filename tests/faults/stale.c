/*
 * stale.c - library A, then B at the same address, many times: an unwinder that remembers A's
 * frames walks B wrongly. Prints, for each call, the depth that glibc's backtrace() saw.
 * Arguments: the two libraries, and how often (20).
 */
#include <dlfcn.h>

#include "cuda_app.h"

int main(int argc, char **argv) {
    void *kept[64];
    int n = 0;

    if (argc < 3)
        return 2;
    int times = argc > 3 ? atoi(argv[3]) : 20;
    for (int i = 0; i < times; i++) {
        void *library = dlopen(argv[1 + i % 2], RTLD_NOW | RTLD_LOCAL);
        EXPECT(library != NULL);
        int (*run)(void **) = (int (*)(void **))dlsym(library, "frames_run");
        EXPECT(run != NULL);
        printf("depth %d\n", run(&kept[n++]));
        CHECK(dlclose(library));
        if (n == 64)
            CHECK(cudaFree(kept[--n]));
    }
    while (n > 0)
        CHECK(cudaFree(kept[--n]));
    return 0;
}
