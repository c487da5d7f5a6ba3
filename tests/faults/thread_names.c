/*
 * thread_names.c - threads with names of every length that the kernel takes (1 to 15 letters).
 */
#include <pthread.h>

#include "cuda_app.h"

static void *call(void *name) {
    CHECK(pthread_setname_np(pthread_self(), (const char *)name));
    (void)cudaEventQuery(NULL);
    return NULL;
}

int main(void) {
    char name[16] = "";
    for (int length = 1; length <= 15; length++) {
        pthread_t thread;
        name[length - 1] = (char)('a' + length - 1);
        CHECK(pthread_create(&thread, NULL, call, name));
        CHECK(pthread_join(thread, NULL));
    }
    printf("%s\n", name);
    return 0;
}
