/*
 * ipc.c - memory of one process, used by another: the parent makes and fills it, the child (this
 * program again, so that it is a process of its own in every respect) opens, reads and changes it.
 * Where the system has no such thing it says "unsupported".
 */
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 2 << 20 };
#define COUNT_IPC_SIZE BYTES

static int child(void) {
    cudaIpcMemHandle_t handle;
    unsigned char *host = malloc(BYTES);
    void *memory;

    ssize_t got = read(0, &handle, sizeof handle);
    if (got == 0) /* the parent has nothing to share */
        return 0;
    EXPECT(host && got == sizeof handle);
    CHECK(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
    CHECK(cudaMemcpy(host, memory, BYTES, cudaMemcpyDeviceToHost));
    EXPECT(host[0] == 5 && host[BYTES - 1] == 5);
    CHECK(cudaMemset(memory, 6, BYTES));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaIpcCloseMemHandle(memory));
    free(host);
    return 0;
}

static pid_t start_child(int pipe_in, int pipe_out) {
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        EXPECT(dup2(pipe_in, 0) == 0);
        close(pipe_in);
        close(pipe_out);
        execl("/proc/self/exe", "ipc", "child", (char *)NULL);
        _exit(127);
    }
    return pid;
}

int main(int argc, char **argv) {
    (void)argv;
    cudaIpcMemHandle_t handle;
    int ends[2], status;
    void *memory, *host;

    if (argc > 1)
        return child();
    EXPECT(pipe(ends) == 0);
    pid_t pid = start_child(ends[0], ends[1]); /* before any call of CUDA */
    close(ends[0]);
    CHECK(cudaMalloc(&memory, BYTES));
    CHECK(cudaMemset(memory, 5, BYTES));
    CHECK(cudaDeviceSynchronize());
    cudaError_t shared = cudaIpcGetMemHandle(&handle, memory);
    if (shared != cudaSuccess) {
        printf("unsupported: cudaIpcGetMemHandle: %s\n", cudaGetErrorName(shared));
        close(ends[1]);
        waitpid(pid, &status, 0);
        return 0;
    }
    EXPECT(write(ends[1], &handle, sizeof handle) == sizeof handle);
    close(ends[1]);
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(status == 0);
    CHECK(cudaMallocHost(&host, BYTES));
    CHECK(cudaMemcpy(host, memory, BYTES, cudaMemcpyDeviceToHost));
    EXPECT(((unsigned char *)host)[BYTES / 2] == 6);
    CHECK(cudaFreeHost(host));
    CHECK(cudaFree(memory));
    printf("6 came back\n");
    return 0;
}
