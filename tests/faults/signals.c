/*
 * signals.c - a timer signal in the midst of hooked calls, and hooked calls made in a handler on a
 * small alternate stack (between two calls, where CUDA itself allows them).
 */
#include <signal.h>
#include <sys/time.h>

#include "cuda_app.h"

static volatile sig_atomic_t ticks, handled;

static void on_timer(int sig) {
    (void)sig;
    ticks++;
}

static void on_user(int sig) {
    void *p = NULL;
    (void)sig;
    CHECK(cudaMalloc(&p, 32));
    CHECK(cudaFree(p));
    handled++;
}

int main(void) {
    static char stack_memory[16384];
    stack_t stack = {.ss_sp = stack_memory, .ss_size = sizeof stack_memory};
    struct sigaction timer = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    struct sigaction user = {.sa_handler = on_user, .sa_flags = SA_ONSTACK};
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    void *p = NULL;

    CHECK(sigaltstack(&stack, NULL));
    CHECK(sigaction(SIGALRM, &timer, NULL));
    CHECK(sigaction(SIGUSR1, &user, NULL));
    CHECK(setitimer(ITIMER_REAL, &often, NULL));
    for (int i = 0; i < 3000 || ticks < 20; i++) {
        CHECK(cudaMalloc(&p, 128));
        CHECK(cudaFree(p));
        if (i % 100 == 0 && i < 3000)
            raise(SIGUSR1);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL));
    printf("handled %d\n", (int)handled);
    return 0;
}
