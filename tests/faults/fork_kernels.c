/*
 * fork_kernels.c - forks while other threads register kernels and take them away again. A child
 * that registers or calls must not find a lock that a thread of its parent held: a signal ends it
 * then.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "own_runtime.h"

static atomic_int stop;
static char stub[4][64];

static void register_and_unregister(int n) {
    void **module = register_module();
    for (int k = 0; k < 64; k++)
        register_kernel(module, &stub[n][k], "a_kernel");
    __cudaUnregisterFatBinary(module);
}

static void *keep_registering(void *number) {
    while (!stop)
        register_and_unregister((int)(long)number);
    return NULL;
}

int main(void) {
    pthread_t thread[2];
    int status;

    CHECK(cudaEventQuery(NULL));
    for (long t = 0; t < 2; t++)
        CHECK(pthread_create(&thread[t], NULL, keep_registering, (void *)t));
    for (int round = 0; round < 100; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(5);
            if (round % 4 == 0)
                CHECK(cudaLaunchKernel(&stub[3], dim(1, 1, 1), dim(1, 1, 1), NULL, 0, NULL));
            register_and_unregister(2);
            _exit(0);
        }
        EXPECT(waitpid(pid, &status, 0) == pid);
        if (status != 0) {
            printf("round %d: status 0x%x\n", round, status);
            _exit(1);
        }
    }
    stop = 1;
    for (int t = 0; t < 2; t++)
        CHECK(pthread_join(thread[t], NULL));
    printf("done\n");
    return 0;
}
