/*
 * errnos.c - errno around hooked calls: a wrapper must leave it as the real function did. Prints
 * what each call left, first calls and calls that grow the spool included.
 */
#include <errno.h>

#include "cuda_app.h"

static void say(const char *what) {
    printf("%s errno %d\n", what, errno);
    errno = 4711;
}

int main(void) {
    void *p = NULL;
    int changed = 0;
    char host[64] = {0};

    errno = 4711;
    CHECK(cudaMalloc(&p, 4096));
    say("malloc");
    CHECK(cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice));
    say("memcpy");
    EXPECT(cudaMalloc(NULL, 1) != cudaSuccess);
    say("refused");
    for (int i = 0; i < 20000; i++) {
        errno = 4711;
        CHECK(cudaMemset(p, i, 64));
        changed += errno != 4711;
    }
    printf("changed %d\n", changed);
    CHECK(cudaFree(p));
    say("free");
    return 0;
}
