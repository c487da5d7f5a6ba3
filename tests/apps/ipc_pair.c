/*
 * ipc_pair.c - two processes and one buffer: the parent makes it and says when it is ready by an
 * interprocess event, the child (the same program, started anew) adds its part in place, and opens
 * a second buffer that it never closes.
 */
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_app.h"

enum { BYTES = 200000, SECOND = 70000 };

struct offer {
    cudaIpcMemHandle_t first, second;
    cudaIpcEventHandle_t ready;
};

static void must_write(int fd, const void *data, size_t size) {
    EXPECT(write(fd, data, size) == (ssize_t)size);
}

static void must_read(int fd, void *data, size_t size) {
    EXPECT(read(fd, data, size) == (ssize_t)size);
}

/* Offers on stdin, answers on stdout. */
static NOINLINE int child(void) {
    struct offer offer;
    cudaEvent_t ready = NULL;
    void *first = NULL, *again = NULL, *second = NULL;
    unsigned char got = 0;

    must_read(STDIN_FILENO, &offer, sizeof offer);
    CHECK(cudaIpcOpenEventHandle(&ready, offer.ready));
    CHECK(cudaIpcOpenMemHandle(&first, offer.first, 1)); /* SITE: open */
    CHECK(cudaIpcOpenMemHandle(&again, offer.first, 1));
    EXPECT(first == again);
    CHECK(cudaIpcOpenMemHandle(&second, offer.second, 1)); /* SITE: kept open */
    CHECK(cudaStreamWaitEvent(NULL, ready, 0));
    CHECK(cudaMemcpy(&got, first, 1, cudaMemcpyDeviceToHost));
    CHECK(cudaMemset((char *)first + BYTES / 2, 7, BYTES / 2));
    CHECK(cudaMemcpy(second, first, 1000, cudaMemcpyDefault));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaIpcCloseMemHandle(again));
    CHECK(cudaIpcCloseMemHandle(first));
    CHECK(cudaEventDestroy(ready));
    must_write(STDOUT_FILENO, &got, 1);
    return 0;
}

static pid_t start(char *self, int *to, int *from) {
    char *argv[] = {self, (char *)"child", NULL};
    int in[2], out[2];
    pid_t pid = -1;
    posix_spawn_file_actions_t actions;

    EXPECT(pipe(in) == 0 && pipe(out) == 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, in[1]);
    EXPECT(posix_spawn(&pid, self, &actions, NULL, argv, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    *to = in[1];
    *from = out[0];
    return pid;
}

int main(int argc, char **argv) {
    struct offer offer;
    cudaEvent_t ready = NULL;
    void *first = NULL, *second = NULL;
    unsigned char seen = 0, back[2] = {0};
    int to, from, status;

    if (argc > 1)
        return child();
    pid_t pid = start(argv[0], &to, &from);
    CHECK(cudaMalloc(&first, BYTES)); /* SITE: made */
    CHECK(cudaMalloc(&second, SECOND));
    CHECK(cudaEventCreateWithFlags(&ready, 2 | 4));
    CHECK(cudaMemset(first, 5, BYTES));
    CHECK(cudaEventRecord(ready, NULL));
    CHECK(cudaIpcGetMemHandle(&offer.first, first)); /* SITE: export */
    CHECK(cudaIpcGetMemHandle(&offer.second, second));
    CHECK(cudaIpcGetEventHandle(&offer.ready, ready));
    must_write(to, &offer, sizeof offer);
    must_read(from, &seen, 1);
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(cudaMemcpy(&back[0], first, 1, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&back[1], (char *)first + BYTES - 1, 1, cudaMemcpyDeviceToHost));
    CHECK(cudaEventDestroy(ready));
    CHECK(cudaFree(first));
    CHECK(cudaFree(second));
    printf("%d %d %d\n", seen, back[0], back[1]);
    return 0;
}
