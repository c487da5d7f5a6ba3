/*
 * exits.c - every way for a process to end, each with CUDA calls close to the end or after what
 * looks like it. The argument names the way; the calls made are the same with layoutspy and
 * without.
 */
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "cuda_app.h"

static NOINLINE void some_calls(int n) {
    void *p = NULL;
    for (int i = 0; i < n; i++) {
        CHECK(cudaMalloc(&p, 1024));
        CHECK(cudaMemset(p, i, 1024));
        CHECK(cudaFree(p));
    }
}

static int late_calls; /* what atexit handlers and destructors do */

static void at_exit(void) {
    if (late_calls)
        some_calls(3);
}

__attribute__((destructor)) static void destructor(void) {
    if (late_calls)
        some_calls(2);
}

/* Destructors of thread-specific data run again while they store new data: ours comes last. */
static pthread_key_t key;
static void late_destructor(void *value) {
    long round = (long)value;
    if (round < PTHREAD_DESTRUCTOR_ITERATIONS - 1)
        pthread_setspecific(key, (void *)(round + 1));
    else
        some_calls(4);
}

static void *with_late_destructor(void *unused) {
    (void)unused;
    some_calls(2);
    pthread_setspecific(key, (void *)1);
    return NULL;
}

static void *outlive_main(void *main_thread) {
    pthread_join(*(pthread_t *)main_thread, NULL);
    some_calls(20);
    printf("thread done\n");
    exit(7);
}

static void *call_for_ever(void *unused) {
    for (;;)
        (void)cudaStreamQuery(NULL); /* never fails the program: main is leaving */
    return unused;
}

static void start(void *(*routine)(void *), void *argument, int wait) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, routine, argument));
    CHECK(wait ? pthread_join(thread, NULL) : pthread_detach(thread));
}

static int leave(const char *way) {
    static pthread_t self;

    if (strcmp(way, "exit") == 0)
        exit(3);
    if (strcmp(way, "_exit") == 0)
        _exit(4);
    if (strcmp(way, "quick_exit") == 0)
        quick_exit(5);
    if (strcmp(way, "abort") == 0)
        abort();
    if (strcmp(way, "segv") == 0)
        raise(SIGSEGV);
    if (strcmp(way, "term") == 0)
        raise(SIGTERM);
    if (strcmp(way, "main-leaves") == 0) {
        self = pthread_self();
        start(outlive_main, &self, 0);
        pthread_exit(NULL);
    }
    if (strcmp(way, "detached") == 0) {
        for (int i = 0; i < 3; i++)
            start(call_for_ever, NULL, 0);
        usleep(20000);
        return 6;
    }
    if (strcmp(way, "late-tsd") == 0) {
        CHECK(pthread_key_create(&key, late_destructor));
        for (int i = 0; i < 4; i++)
            start(with_late_destructor, NULL, 1);
        return 0;
    }
    if (strcmp(way, "late") == 0) {
        late_calls = 1;
        return 8;
    }
    return strcmp(way, "return") == 0 ? 0 : 2;
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    atexit(at_exit);
    some_calls(10);
    setvbuf(stdout, NULL, _IONBF, 0);
    printf("leaving by %s\n", argv[1]);
    return leave(argv[1]);
}
