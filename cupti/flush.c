/*
 * flush.c - see flush.h.
 */
#include "flush.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi.h"
#include "ask.h"
#include "client.h"
#include "clock.h"
#include "cupti.h"
#include "load.h"
#include "lock.h"
#include "on_call.h"
#include "own_cost.h"
#include "state.h"

#define STACK_SIZE (512u << 10) /* CUPTI works on it; taken as it is used */
#define PERIOD_MS 1000          /* between hand-overs */
#define SOON_MS 100             /* between looks while something is awaited */

static _Atomic uint32_t word;    /* changes when there is something to do */
static _Atomic uint32_t wished;  /* hand-overs, counted, */
static _Atomic uint32_t done;    /* and those of them that are over */
static _Atomic bool forced_wish; /* of the next */
static _Atomic bool made;        /* there is a thread, */
static _Atomic uint32_t tid;     /* with this id, from its begin on */
static _Atomic bool over;        /* it is to end */
static _Atomic int result;       /* of the last hand-over */
static _Atomic bool hangs;       /* it was waited for in vain, and has not come back since */
static uint64_t next_ns;         /* CLOCK_MONOTONIC: when the next regular hand-over is due */

static void wake(_Atomic uint32_t *at) {
    ls_futex(at, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL);
}

static void wait(_Atomic uint32_t *at, uint32_t value, uint64_t ns) {
    struct timespec timeout = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    ls_futex(at, FUTEX_WAIT_PRIVATE, value, &timeout);
}

/* ---- in the thread ---- */

static void flush(bool forced) {
    uint64_t before = ls_ticks();
    atomic_store(&result, ls_cupti.cuptiActivityFlushAll(forced));
    atomic_store(&hangs, false);
    ls_cost_add(LS_COST_FLUSHES, 1);
    ls_cost_add(LS_COST_FLUSH_TICKS, ls_ticks() - before);
}

/* What was wished; then, once in a while, what is due. Not while a stream captures: nothing of ours
 * is to come between. Not for ever, either: to hand over is no work on a stream, CUPTI's own thread
 * does it with full buffers at any time. */
static void flush_as_wished(void) {
    uint32_t wish = atomic_load(&wished);
    uint64_t now = ls_ns(CLOCK_MONOTONIC);
    if (wish != atomic_load(&done)) {
        flush(atomic_exchange(&forced_wish, false));
        atomic_store(&done, wish);
        wake(&done);
    } else if (now >= next_ns && !atomic_load(&over)) {
        if (ls_client_state() == LS_CLIENT_ON && ls_client_has_buffers_out() &&
            !ls_capture_awaited())
            flush(false);
        next_ns = ls_ns(CLOCK_MONOTONIC) + PERIOD_MS * UINT64_C(1000000);
    }
}

static void *tend(void *none) {
    (void)none;
    /* For those who look at the program's threads. By itself: it may be over at any time. */
    pthread_setname_np(pthread_self(), "layoutspy");
    atomic_store(&tid, (uint32_t)syscall(SYS_gettid));
    next_ns = ls_ns(CLOCK_MONOTONIC) + PERIOD_MS * UINT64_C(1000000);
    while (!atomic_load(&over) || atomic_load(&wished) != atomic_load(&done)) {
        uint32_t seen = atomic_load(&word);
        flush_as_wished();
        if (atomic_load(&over))
            continue;
        bool soon = !ls_ask_answer();
        soon |= ls_client_tend();
        soon |= atomic_load(&ls_ask_stopped) != 0; /* somebody is about to say: go on */
        if (atomic_load(&wished) == atomic_load(&done))
            wait(&word, seen, (soon ? SOON_MS : PERIOD_MS) * UINT64_C(1000000));
    }
    return NULL;
}

/* ---- for the others ---- */

bool ls_flush_is_own_thread(void) {
    return atomic_load(&tid) && (uint32_t)syscall(SYS_gettid) == atomic_load(&tid);
}

static bool make_thread(void) {
    sigset_t every, before;
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    bool ready = pthread_create(&thread, &attributes, tend, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return ready;
}

bool ls_flush_start(void) {
    int saved = errno;
    if (!atomic_load(&made))
        atomic_store(&made, make_thread());
    errno = saved;
    return atomic_load(&made);
}

bool ls_flush_wake(void) {
    if (!atomic_load(&made))
        return false;
    atomic_fetch_add(&word, 1);
    wake(&word);
    return true;
}

bool ls_flush_now(bool forced, unsigned ms) {
    int saved = errno;
    if (ls_flush_is_own_thread()) {
        flush(forced);
        return atomic_load(&result) == LS_CUPTI_OK;
    }
    if (forced)
        atomic_store(&forced_wish, true);
    uint32_t wish = atomic_fetch_add(&wished, 1) + 1;
    uint64_t now = ls_ns(CLOCK_MONOTONIC), end = now + ms * UINT64_C(1000000);
    bool given_up = atomic_load(&hangs) || !ls_flush_wake();
    for (uint32_t seen; (int32_t)((seen = atomic_load(&done)) - wish) < 0 && !given_up;) {
        wait(&done, seen, end - now);
        now = ls_ns(CLOCK_MONOTONIC);
        given_up = now >= end;
    }
    bool is_done = (int32_t)(atomic_load(&done) - wish) >= 0;
    if (!is_done)
        atomic_store(&hangs, true); /* until it comes back */
    errno = saved;
    return is_done && atomic_load(&result) == LS_CUPTI_OK;
}

static void at_exit(void) {
    if (ls_session.pid == getpid())
        ls_cupti_end();
}

void ls_flush_before_exit(void) {
    static _Atomic uint32_t times;
    /* Once when the recording starts, and once more when the driver runs for sure. */
    if (atomic_load(&times) < 2 && atomic_load(&made) && atomic_fetch_add(&times, 1) < 2)
        atexit(at_exit);
}

void ls_flush_end(void) {
    atomic_store(&over, true);
    ls_flush_wake();
    atomic_store(&made, false);
}

void ls_flush_fork_reset(void) {
    atomic_store(&made, false);
    atomic_store(&tid, 0);
    atomic_store(&over, false);
    atomic_store(&hangs, false);
    atomic_store(&done, atomic_load(&wished));
}
