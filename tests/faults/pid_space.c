/*
 * pid_space.c - a recorded process's child that is process 1 of a pid namespace of its own. Ends
 * with 77 where that is not permitted.
 */
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda_app.h"

static NOINLINE int calls(void) {
    void *p = NULL;
    int status = 0;
    for (int i = 0; i < 3; i++)
        status = (int)cudaMalloc(&p, 16);
    return status;
}

static NOINLINE int calls_of_the_parent(void) {
    int status = calls();
    __asm__ volatile("# the parent");
    return status;
}

static NOINLINE int calls_of_the_child(void) {
    int status = calls();
    __asm__ volatile("# the child"); /* differs: two equal functions would become one */
    return status;
}

int main(void) {
    int status;

    alarm(20);
    CHECK(calls_of_the_parent());
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid < 0)
        return 77;
    if (pid == 0) {
        EXPECT(getpid() == 1);
        _exit(calls_of_the_child()); /* refused: CUDA does not survive a fork */
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
    printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    CHECK(calls_of_the_parent());
    return 0;
}
