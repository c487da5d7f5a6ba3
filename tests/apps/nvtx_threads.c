/*
 * nvtx_threads.c - NVTX where it is awkward: in threads that come and go, in a child forked inside
 * of a range, and from a signal handler that interrupts it. Prints how many levels were wrong.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nvtx3/nvToolsExt.h>

#include "cuda_app.h"

enum { THREADS = 4, RANGES = 500, ROUNDS = 5, LOOPS = 20000 };

static volatile sig_atomic_t handled;
static _Atomic int wrong;

static void on_signal(int signal) {
    (void)signal;
    nvtxRangePushA("signal");
    nvtxRangePop();
    handled++;
}

static void *work(void *unused) {
    for (int i = 0; i < RANGES; i++) {
        wrong += nvtxRangePushA("outer of thread") != 0;
        wrong += nvtxRangePushA("inner of thread") != 1;
        wrong += nvtxRangePop() != 1;
        wrong += nvtxRangePop() != 0;
    }
    return unused;
}

static void call_cuda(void) {
    void *device;
    CHECK(cudaMalloc(&device, 100));
    CHECK(cudaFree(device));
}

static void child(void) {
    call_cuda();
    nvtxRangePushA("child");
    nvtxRangePop();
    exit(nvtxRangePop() != 0);
}

int main(void) {
    struct sigaction action = {.sa_handler = on_signal};
    struct itimerval every = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    int status;
    nvtxRangePushA("program");
    pid_t pid = fork();
    if (pid == 0)
        child();
    waitpid(pid, &status, 0);
    call_cuda();
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread[THREADS];
        for (int i = 0; i < THREADS; i++)
            pthread_create(&thread[i], NULL, work, NULL);
        for (int i = 0; i < THREADS; i++)
            pthread_join(thread[i], NULL);
    }
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    for (int i = 0; i < LOOPS || handled < 3; i++) {
        wrong += nvtxRangePushA("loop") != 1;
        wrong += nvtxRangePop() != 1;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("child %d, wrong levels %d\n", status, wrong + (nvtxRangePop() != 0));
    return 0;
}
