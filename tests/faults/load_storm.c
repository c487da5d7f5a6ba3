/*
 * load_storm.c - one thread loads and unloads libraries without a pause while others make hooked
 * calls, whose stacks are walked meanwhile. Arguments: the two libraries.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "cuda_app.h"

static volatile int stop;

static NOINLINE void deep(int levels) {
    volatile char padding[64];
    padding[0] = 0;
    if (levels > 0) {
        deep(levels - 1);
    } else {
        void *p = NULL;
        CHECK(cudaMalloc(&p, 256));
        CHECK(cudaFree(p));
    }
    padding[1] = padding[0];
}

static void *keep_calling(void *unused) {
    (void)unused;
    for (int i = 0; i < 1500; i++)
        deep(i % 20);
    return NULL;
}

static void *keep_loading(void *paths) {
    for (int i = 0; !stop; i++) {
        void *library = dlopen(((char **)paths)[i % 2], RTLD_NOW | RTLD_LOCAL);
        EXPECT(library != NULL);
        CHECK(dlclose(library));
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t caller[2], loader;

    if (argc != 3)
        return 2;
    CHECK(pthread_create(&loader, NULL, keep_loading, argv + 1));
    for (int t = 0; t < 2; t++)
        CHECK(pthread_create(&caller[t], NULL, keep_calling, NULL));
    for (int t = 0; t < 2; t++)
        CHECK(pthread_join(caller[t], NULL));
    stop = 1;
    CHECK(pthread_join(loader, NULL));
    printf("done\n");
    return 0;
}
