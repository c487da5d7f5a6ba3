/*
 * closes.c - a daemon's habit: close every descriptor from 3 on, open files of one's own on the
 * numbers, go on. The files must hold what was written to them and nothing else.
 * Argument: a folder for the files.
 */
#include <fcntl.h>
#include <unistd.h>

#include "cuda_app.h"

enum { FILES = 8 };

static NOINLINE void calls(int n) {
    void *p = NULL;
    for (int i = 0; i < n; i++) {
        CHECK(cudaMalloc(&p, 64));
        CHECK(cudaFree(p));
    }
}

int main(int argc, char **argv) {
    int fd[FILES];
    char path[4096], text[64];

    if (argc != 2)
        return 2;
    calls(10);
    CHECK(close_range(3, ~0u, 0));
    for (int f = 0; f < FILES; f++) {
        snprintf(path, sizeof path, "%s/file%d", argv[1], f);
        fd[f] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        EXPECT(fd[f] == 3 + f);
    }
    for (int round = 0; round < 50; round++) {
        calls(200);
        for (int f = 0; f < FILES; f++) {
            int n = snprintf(text, sizeof text, "file %d round %d\n", f, round);
            EXPECT(write(fd[f], text, (size_t)n) == n);
        }
    }
    for (int f = 0; f < FILES; f++)
        CHECK(close(fd[f]));
    printf("done\n");
    return 0;
}
