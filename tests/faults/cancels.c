/*
 * cancels.c - threads are cancelled in the midst of recorded calls. Cancellation is deferred: it
 * may act where the thread itself asks for it, never inside a call, where it would take locks
 * along. Prints how many calls were made; a signal ends it if it hangs.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "cuda_app.h"

static atomic_long calls;

static void call(void) {
    CHECK(cudaEventQuery(NULL));
    atomic_fetch_add(&calls, 1);
}

static void *until_cancelled(void *unused) {
    for (;;) {
        call();
        pthread_testcancel();
    }
    return unused;
}

static void *steady(void *unused) {
    for (int i = 0; i < 200000; i++)
        call();
    return unused;
}

int main(void) {
    pthread_t worker, other;
    void *result;

    alarm(15);
    call();
    CHECK(pthread_create(&other, NULL, steady, NULL));
    for (int round = 0; round < 40; round++) {
        CHECK(pthread_create(&worker, NULL, until_cancelled, NULL));
        usleep((useconds_t)(30 * round));
        CHECK(pthread_cancel(worker));
        CHECK(pthread_join(worker, &result));
        EXPECT(result == PTHREAD_CANCELED);
    }
    CHECK(pthread_join(other, NULL));
    printf("calls %ld\n", (long)calls);
    return 0;
}
