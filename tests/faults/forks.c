/*
 * forks.c - child processes in every way. CUDA does not survive a fork: a child that calls it is
 * refused with error 3, and must be so under layoutspy. The argument names the way.
 */
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_app.h"

extern char **environ;

static NOINLINE void some_calls(int n) {
    void *p = NULL;
    for (int i = 0; i < n; i++) {
        CHECK(cudaMalloc(&p, 4096));
        CHECK(cudaFree(p));
    }
}

static int wait_for(pid_t pid) {
    int status = -1;
    EXPECT(pid > 0);
    EXPECT(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

/* No child of anybody's may be left for a program that waits for all of its own. */
static void no_other_child(void) {
    int status;
    EXPECT(waitpid(-1, &status, WNOHANG) == -1);
}

static volatile int stop;
static void *keep_calling(void *unused) {
    (void)unused;
    while (!stop)
        some_calls(1);
    return NULL;
}

/* A fork may come while another thread is anywhere inside a call. */
static void storm(void) {
    pthread_t thread[3];
    int sum = 0;
    some_calls(1); /* a child of a process without a context could make its own */
    for (int t = 0; t < 3; t++)
        CHECK(pthread_create(&thread[t], NULL, keep_calling, NULL));
    for (int i = 0; i < 60; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            void *p = NULL;
            alarm(20); /* a child that hangs on a lock is found by its signal */
            _exit(i % 3 == 0 ? (int)cudaMalloc(&p, 16) : 3);
        }
        sum += wait_for(pid);
    }
    stop = 1;
    for (int t = 0; t < 3; t++)
        CHECK(pthread_join(thread[t], NULL));
    printf("sum %d\n", sum);
}

static void child_calls(int calls) {
    some_calls(5);
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            void *p = NULL;
            int status = 0;
            for (int c = 0; c < calls; c++)
                status = (int)cudaMalloc(&p, 16);
            exit(status);
        }
        printf("child %d\n", wait_for(pid));
    }
    some_calls(5);
}

/* The usual server: nothing before the fork, everything after it. */
static void workers(void) {
    for (int i = 0; i < 3; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            some_calls(10 + i);
            exit(0);
        }
        printf("worker %d\n", wait_for(pid));
    }
}

static void vfork_exec(char **argv) {
    some_calls(5);
    for (int i = 0; i < 5; i++) {
        pid_t pid = vfork();
        if (pid == 0) {
            execl("/bin/sh", "sh", "-c", "exit 9", (char *)NULL);
            _exit(127);
        }
        printf("vfork %d\n", wait_for(pid));
    }
    pid_t pid = vfork();
    if (pid == 0) {
        execl(argv[0], argv[0], "calls", (char *)NULL);
        _exit(127);
    }
    printf("vfork %d\n", wait_for(pid));
    some_calls(5);
}

static void spawn(char **argv) {
    pid_t pid = 0;
    char *calls[] = {argv[0], (char *)"calls", NULL};
    char *plain[] = {(char *)"/bin/true", NULL};
    some_calls(5);
    CHECK(posix_spawn(&pid, calls[0], NULL, NULL, calls, environ));
    printf("spawned %d\n", wait_for(pid));
    CHECK(posix_spawn(&pid, plain[0], NULL, NULL, plain, environ));
    printf("spawned %d\n", wait_for(pid));
    some_calls(5);
}

static int run(const char *way, char **argv) {
    if (strcmp(way, "storm") == 0)
        storm();
    else if (strcmp(way, "child-calls") == 0)
        child_calls(3);
    else if (strcmp(way, "child-plain") == 0)
        child_calls(0);
    else if (strcmp(way, "workers") == 0)
        workers();
    else if (strcmp(way, "vfork") == 0)
        vfork_exec(argv);
    else if (strcmp(way, "spawn") == 0)
        spawn(argv);
    else if (strcmp(way, "calls") == 0)
        some_calls(7);
    else if (strcmp(way, "exec") == 0 || strcmp(way, "exec-bare") == 0) {
        char *bare[] = {NULL};
        some_calls(5);
        if (strcmp(way, "exec") == 0)
            execl(argv[0], argv[0], "calls", (char *)NULL);
        execle("/bin/sh", "sh", "-c", "echo bare; exit 11", (char *)NULL, bare);
        return 127;
    } else
        return 2;
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    setvbuf(stdout, NULL, _IONBF, 0);
    int status = run(argv[1], argv);
    no_other_child();
    return status;
}
