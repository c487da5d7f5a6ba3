/*
 * profiled.c - a profiler's timer, a thousand times a second, whose handler calls CUDA, also where
 * it interrupts a call that is being recorded. Prints how many calls were made.
 */
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "own_runtime.h"

static volatile sig_atomic_t ticks;
static volatile long handled;

static void on_tick(int sig) {
    (void)sig;
    CHECK(cudaEventRecord(NULL, NULL));
    CHECK(cudaStreamSynchronize(NULL));
    handled += 2;
    ticks++;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
    struct itimerspec often = {{0, 1000000}, {0, 1000000}};
    timer_t timer;
    long calls = 0;
    int sum = 0;

    alarm(20);
    CHECK(sigaction(SIGPROF, &action, NULL));
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer));
    CHECK(timer_settime(timer, 0, &often, NULL));
    while (ticks < 300) {
        void *p = NULL;
        CHECK(cudaMalloc(&p, 16));
        CHECK(cudaStreamSynchronize(NULL));
        CHECK(cudaEventRecord(NULL, NULL));
        CHECK(cudaFree(p));
        calls += 4;
        for (int i = 0; i < 2000; i++) /* a program works between its calls */
            __asm__ volatile("" : "+r"(sum));
    }
    CHECK(timer_delete(timer));
    printf("calls %ld\n", calls + handled);
    return 0;
}
