/*
 * filesize.c - hooked calls under a file size limit that the program sets itself, after a call past
 * every hook has made the simulated device's own files. Arguments: the limit in bytes, "first" to
 * set it before the first hooked call or "later" to set it after, libcudart's name.
 */
#include <dlfcn.h>
#include <sys/resource.h>

#include "cuda_app.h"

static void calls(int n) {
    void *p = NULL;
    for (int i = 0; i < n; i++) {
        CHECK(cudaMalloc(&p, 64));
        CHECK(cudaFree(p));
    }
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    rlim_t bytes = (rlim_t)atoll(argv[1]);
    struct rlimit limit = {bytes, bytes};
    void *library = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL), *p = NULL;
    EXPECT(library != NULL);
    cudaError_t (*unhooked)(void **, size_t) =
        (cudaError_t(*)(void **, size_t))dlsym(library, "cudaMalloc");
    EXPECT(unhooked != NULL);
    CHECK(unhooked(&p, 64));
    if (strcmp(argv[2], "later") == 0)
        calls(50);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit));
    calls(strcmp(argv[2], "later") == 0 ? 8950 : 9000);
    printf("done\n");
    return 0;
}
