/*
 * bench_exec.c - the tax on a program without CUDA: `bench-exec LIBRARY [ROUNDS]` starts /bin/true
 * with and without LD_PRELOAD=LIBRARY in turn and prints the medians and their difference in ms.
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

static double now_ms(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double start_true(char **environment) {
    char *argv[] = {"/bin/true", NULL};
    pid_t pid;
    int status;
    double start = now_ms();
    if (posix_spawn(&pid, argv[0], NULL, NULL, argv, environment) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0) {
        perror("bench-exec: /bin/true");
        exit(1);
    }
    return now_ms() - start;
}

int main(int argc, char **argv) {
    int rounds = argc > 2 ? atoi(argv[2]) : 400;
    if (argc < 2 || rounds < 1) {
        fprintf(stderr, "usage: bench-exec LIBRARY [ROUNDS]\n");
        return 2;
    }
    char preload[4096];
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argv[1]);
    char *with[] = {"PATH=/usr/bin:/bin", preload, NULL};
    char *without[] = {"PATH=/usr/bin:/bin", NULL};
    double *ms[2] = {calloc((size_t)rounds, sizeof(double)),
                     calloc((size_t)rounds, sizeof(double))};
    for (int i = 0; i < rounds; i++) {
        ms[0][i] = start_true(without);
        ms[1][i] = start_true(with);
    }
    for (int k = 0; k < 2; k++)
        qsort(ms[k], (size_t)rounds, sizeof(double), by_value);
    double bare = ms[0][rounds / 2], preloaded = ms[1][rounds / 2];
    printf("exec of /bin/true  %.3f ms bare, %.3f ms preloaded: tax %.3f ms  (goal 0.1)\n", bare,
           preloaded, preloaded - bare);
    return 0;
}
