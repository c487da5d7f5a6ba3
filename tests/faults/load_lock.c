/*
 * load_lock.c - one thread loads a library whose constructor calls CUDA while another makes the
 * process's first CUDA call: whoever takes the loader's lock under a lock of its own deadlocks.
 * Each round is a child process that a signal ends if it hangs. Arguments: the library; "fresh" for
 * children of a process that made no call, at many points of the start, or "child" for children of
 * one that did, with the constructor lingering; how many.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <dlfcn.h>

#include "cuda_app.h"

extern atomic_int load_lock_inside, load_lock_linger;
atomic_int load_lock_inside, load_lock_linger;

static atomic_int *start; /* what both threads wait for */
static long delay_us;     /* of the load */

static void wait_for_start(void) {
    while (!atomic_load(start))
        sched_yield();
}

static void *load(void *path) {
    struct timespec t = {.tv_nsec = delay_us * 1000};
    if (start != &load_lock_inside)
        wait_for_start();
    nanosleep(&t, NULL);
    EXPECT(dlopen((const char *)path, RTLD_NOW) != NULL);
    return NULL;
}

static void *call(void *unused) {
    wait_for_start();
    CHECK(cudaEventQuery(NULL));
    return unused;
}

static void one_round(char *library) {
    pthread_t loader, caller;
    alarm(5);
    CHECK(pthread_create(&loader, NULL, load, library));
    CHECK(pthread_create(&caller, NULL, call, NULL));
    if (start != &load_lock_inside)
        atomic_store(start, 1);
    CHECK(pthread_join(loader, NULL));
    CHECK(pthread_join(caller, NULL));
    _exit(0);
}

int main(int argc, char **argv) {
    static atomic_int go;
    int status;

    if (argc != 4)
        return 2;
    start = &go;
    if (strcmp(argv[2], "child") == 0) {
        CHECK(cudaEventQuery(NULL));
        load_lock_linger = 20000;
        start = &load_lock_inside;
    }
    for (int round = 0; round < atoi(argv[3]); round++) {
        delay_us = start == &go ? 100 * round : 0;
        pid_t pid = fork();
        if (pid == 0)
            one_round(argv[1]);
        EXPECT(waitpid(pid, &status, 0) == pid);
        if (status != 0) {
            printf("round %d: status 0x%x\n", round, status);
            return 1;
        }
    }
    printf("done\n");
    return 0;
}
