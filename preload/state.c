/*
 * state.c - starting and closing a recording. See state.h.
 *
 * Runs at the first CUDA call of a process (any thread) and in our destructor. Opens nothing
 * before that: a shell that inherits LD_PRELOAD makes no file, no thread, no mapping.
 */
#include "state.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ask.h"
#include "census.h"
#include "clock.h"
#include "collector.h"
#include "cupti/cupti.h"
#include "kernels.h"
#include "lock.h"
#include "measure.h"
#include "modules.h"
#include "on_call.h"
#include "spool.h"
#include "stack.h"
#include "thread.h"
#include "trace_name.h"

static struct ls_live no_session; /* until there is a page of our own, and if there can be none */
struct ls_live *_Atomic ls_live = &no_session;
struct ls_session ls_session;

static _Atomic uint64_t epochs = 1; /* differ between a parent's session and its child's */

/* Where the kernel cannot wipe the page (before 4.14), the atfork handler does it. */
static void wipe_in_child(void) {
    memset((void *)atomic_load(&ls_live), 0, sizeof(struct ls_live));
}

static struct ls_live *make_page(void) {
    struct ls_live *expected = &no_session;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return &no_session;
    bool wiped = madvise(page, 4096, MADV_WIPEONFORK) == 0;
    if (!atomic_compare_exchange_strong(&ls_live, &expected, (struct ls_live *)page)) {
        munmap(page, 4096);
        return expected;
    }
    if (!wiped)
        pthread_atfork(NULL, NULL, wipe_in_child);
    return page;
}

struct ls_live *ls_live_page(void) {
    struct ls_live *live = atomic_load_explicit(&ls_live, memory_order_acquire);
    return __builtin_expect(live != &no_session, 1) ? live : make_page();
}

static uint64_t epoch_now(void) {
    return atomic_load(&atomic_load(&ls_live)->epoch);
}

/* We are a forked child that has not recorded yet: everything of the parent's is forgotten. */
static void forget_parent(void) {
    ls_trace_name_fork(ls_session.trace);
    ls_thread_fork_reset();
    ls_spool_fork_reset();
    ls_stack_fork_reset();
    ls_modules_fork_reset();
    ls_kernels_fork_reset();
    ls_census_fork_reset();
    ls_ask_fork_reset();
    ls_measure_fork_reset();
    ls_capture_forget();
    ls_cupti_fork_reset();
    ls_session.header = NULL;
    atomic_store(&ls_session.threads, 0);
    atomic_store(&ls_session.state, LS_UNINIT);
}

/* From here on a call costs two loads and a compare. */
static void turn_off(void) {
    atomic_store(&ls_session.state, LS_OFF);
    atomic_store(&ls_live_page()->epoch, LS_EPOCH_OFF);
}

static void start(void) {
    ls_env_read(&ls_session.env);
    ls_session.pid = getpid();
    if (ls_session.env.disabled) {
        turn_off();
        return;
    }
    atomic_store(&ls_session.state, LS_READY);
    ls_clock_init();
    ls_roles_init();
    if (!ls_trace_name_claim(&ls_session)) {
        turn_off();
        return;
    }
    if (!ls_spool_create(&ls_session)) {
        unlink(ls_session.trace); /* the empty file that claimed the name */
        turn_off();
        return;
    }
    ls_collector_start(&ls_session);
    ls_stack_init(&ls_session.env);
    atomic_store(&ls_session.state, LS_ACTIVE);
    atomic_store(&ls_live_page()->epoch, atomic_fetch_add(&epochs, 1));
}

bool ls_session_ensure(bool *started) {
    *started = false;
    uint64_t epoch = epoch_now();
    if (epoch != 0)
        return epoch != LS_EPOCH_OFF;
    ls_lock(LS_LOCK_START);
    if (epoch_now() == 0) {
        /* Nobody is starting (we have the lock), and a session that had started is gone: the page
         * was wiped. We are a forked child, whatever our pid. */
        if (atomic_load(&ls_session.state) != LS_UNINIT)
            forget_parent();
        start();
        *started = epoch_now() != LS_EPOCH_OFF;
    }
    epoch = epoch_now();
    ls_unlock(LS_LOCK_START);
    return epoch != LS_EPOCH_OFF;
}

uint32_t ls_session_wake_collector(void) {
    struct ls_spool_header *header = ls_session.header;
    uint32_t ticket = atomic_fetch_add(&header->wake, 1) + 1;
    ls_futex(&header->wake, FUTEX_WAKE, INT_MAX, NULL);
    return ticket;
}

/*
 * Ask the collector to drain, and wait for it for a bounded time: a container's pid namespace may
 * die with us. What is committed survives us in any case.
 */
__attribute__((destructor)) static void closing(void) {
    struct ls_spool_header *header = ls_session.header;
    uint64_t epoch = epoch_now();
    bool paused = atomic_load(&ls_ask_stopped) || ls_measure_leaves_out();
    if (epoch == 0 || (epoch == LS_EPOCH_OFF && !paused) || !header || ls_session.pid != getpid())
        return;
    int saved = errno;
    ls_cupti_end();
    atomic_store(&ls_session.state, LS_CLOSING);
    atomic_store(&header->state, LS_RUN_CLOSING);
    pid_t collector = (pid_t)atomic_load(&header->collector_pid);
    if (collector > 0 && (kill(collector, 0) == 0 || errno == EPERM)) {
        uint32_t ticket = ls_session_wake_collector();
        uint64_t deadline = ls_ns(CLOCK_MONOTONIC) + 1000000000u;
        uint32_t drained;
        while ((int32_t)((drained = atomic_load(&header->drained)) - ticket) < 0 &&
               ls_ns(CLOCK_MONOTONIC) < deadline) {
            const struct timespec wait = {.tv_nsec = 100000000};
            ls_futex(&header->drained, FUTEX_WAIT, drained, &wait);
            if (kill(collector, 0) != 0 && errno == ESRCH)
                break;
        }
    }
    errno = saved;
}
