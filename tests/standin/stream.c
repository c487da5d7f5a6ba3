/*
 * stream.c - queues of work and the threads that do it. See stream.h.
 *
 * One thread per device, made with its context, with all signals blocked. It picks, among the
 * first items of all streams that may run, the one that ends first.
 */
#include "stream.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "capture.h"
#include "handles.h"
#include "ipc.h"
#include "tell.h"

#define QUEUE_MAX 1024 /* items of one stream; then the program waits, as on hardware */
#define NEAR_NS 30000  /* an end so near is not waited for: a sleep would last longer */

__thread bool sd_in_host_function;

static pthread_cond_t progress = PTHREAD_COND_INITIALIZER; /* something was completed */
static unsigned waiters;

uint64_t sd_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct timespec as_timespec(uint64_t ns) {
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

static void wait_for_progress(void) {
    waiters++;
    pthread_cond_wait(&progress, &sd_core);
    waiters--;
}

void sd_streams_forget_waiters(void) {
    waiters = 0;
}

/* ---- markers -------------------------------------------------------------------------------- */

struct marker *sd_marker_new(void) {
    struct marker *m = calloc(1, sizeof *m);
    if (!m)
        abort();
    m->references = 1;
    return m;
}

void sd_marker_hold(struct marker *m) {
    m->references++;
}

void sd_marker_drop(struct marker *m) {
    if (--m->references == 0)
        free(m);
}

void sd_marker_wait(struct marker *m) {
    sd_marker_hold(m);
    while (!m->done)
        wait_for_progress();
    sd_marker_drop(m);
}

/* ---- what may run --------------------------------------------------------------------------- */

static bool blocking(const struct stream *s) {
    return !(s->flags & 1);
}

/* The legacy stream and the blocking ones wait for each other's earlier work. */
static bool held_back(const struct stream *s, const struct op *op) {
    const struct stream *legacy = s->device->legacy;
    if (!blocking(s))
        return false;
    if (s != legacy)
        return legacy->first && legacy->first->sequence < op->sequence;
    for (const struct stream *t = s->device->busy; t; t = t->next_busy)
        if (t != s && blocking(t) && t->first->sequence < op->sequence)
            return true;
    return false;
}

static bool may_run(const struct stream *s, const struct op *op) {
    if (op != s->first || op->running)
        return false;
    if (op->work.kind == WORK_WAIT && !op->work.event.marker->done)
        return false;
    return !held_back(s, op);
}

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* When work that may run ends. */
static uint64_t end_of(const struct stream *s, const struct op *op) {
    uint64_t start = later(op->enqueued_ns, s->end_ns);
    if (op->work.kind == WORK_WAIT)
        start = later(start, op->work.event.marker->at_ns);
    const struct device *d = s->device;
    if (s == d->legacy) {
        for (const struct stream *t = d->legacy->next; t; t = t->next)
            if (blocking(t))
                start = later(start, t->end_ns);
    } else if (blocking(s)) {
        start = later(start, d->legacy->end_ns);
    }
    return start + op->work.duration_ns;
}

/* ---- queues --------------------------------------------------------------------------------- */

static void link_busy(struct stream *s) {
    s->previous_busy = NULL;
    s->next_busy = s->device->busy;
    if (s->next_busy)
        s->next_busy->previous_busy = s;
    s->device->busy = s;
}

static void unlink_busy(struct stream *s) {
    if (s->previous_busy)
        s->previous_busy->next_busy = s->next_busy;
    else
        s->device->busy = s->next_busy;
    if (s->next_busy)
        s->next_busy->previous_busy = s->previous_busy;
}

static void wake_workers(void) {
    for (int i = 0; i < standin_device_count(); i++)
        if (sd_device(i)->busy)
            pthread_cond_signal(&sd_device(i)->work);
}

static struct op *append(struct stream *s, struct work work, bool host_waits) {
    while (s->length >= QUEUE_MAX)
        wait_for_progress();
    struct op *op = calloc(1, sizeof *op);
    if (!op)
        abort();
    op->work = work;
    op->work.correlation = sd_tap_correlation();
    op->work.awaited = host_waits;
    op->host_waits = host_waits;
    op->sequence = ++s->device->sequence;
    op->enqueued_ns = sd_now_ns();
    s->last_sequence = op->sequence;
    if (!s->first)
        link_busy(s);
    *s->last = op;
    s->last = &op->next;
    s->length++;
    return op;
}

/* Takes the first item, which has run, off its stream. */
static void complete(struct stream *s, uint64_t end) {
    struct op *op = s->first;
    if (sd_told())
        sd_tell_work(s, &op->work, end);
    s->first = op->next;
    s->length--;
    s->end_ns = end;
    if (!s->first) {
        s->last = &s->first;
        unlink_busy(s);
    }
    if (op->work.kind == WORK_RECORD) {
        op->work.event.marker->at_ns = end;
        op->work.event.marker->done = true;
        sd_ipc_event_reach(op->work.event.marker);
    }
    if (op->done) {
        op->done->at_ns = end;
        op->done->done = true;
        sd_marker_drop(op->done);
    }
    sd_work_clear(&op->work);
    free(op);
    if (s->deleted && !s->first)
        sd_stream_release(s);
    if (waiters)
        pthread_cond_broadcast(&progress);
    wake_workers();
}

/* ---- the device's thread -------------------------------------------------------------------- */

static struct stream *pick(struct device *d, uint64_t *end) {
    struct stream *best = NULL;
    for (struct stream *s = d->busy; s; s = s->next_busy) {
        if (s->first->host_waits || !may_run(s, s->first))
            continue;
        uint64_t ends = end_of(s, s->first);
        if (!best || ends < *end) {
            best = s;
            *end = ends;
        }
    }
    return best;
}

static void run_first(struct stream *s, uint64_t end) {
    s->first->running = true;
    struct work *work = &s->first->work;
    if (work->kind <= WORK_CALLBACK && !(work->kind == WORK_KERNEL && !work->kernel.run)) {
        pthread_mutex_unlock(&sd_core);
        sd_work_run(work);
        pthread_mutex_lock(&sd_core);
    }
    complete(s, end);
}

static void *worker(void *data) {
    struct device *d = data;
    char name[16];
    snprintf(name, sizeof name, "sim-device-%d", d->ordinal);
    prctl(PR_SET_NAME, name);
    prctl(PR_SET_TIMERSLACK, 1000UL);
    pthread_mutex_lock(&sd_core);
    for (;;) {
        uint64_t end = 0;
        struct stream *s = pick(d, &end);
        if (!s) {
            pthread_cond_wait(&d->work, &sd_core);
        } else if (end > sd_now_ns() + NEAR_NS) {
            struct timespec until = as_timespec(end);
            pthread_cond_timedwait(&d->work, &sd_core, &until);
        } else {
            run_first(s, end);
        }
    }
    return NULL;
}

static void start_worker(struct device *d) {
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&d->work, &clock);
    pthread_condattr_destroy(&clock);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, worker, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        fprintf(stderr, "simulated device: no thread for device %d: %s\n", d->ordinal,
                strerror(failed));
        abort();
    }
    pthread_detach(thread);
    d->worker = true;
}

/* A kernel that takes no time (STANDIN_DELAY_US=0) on a stream with nothing before it is over when
 * it is launched: to wake the device's thread for it would be the only cost in a measurement. */
static bool over_at_once(const struct stream *s, const struct op *op) {
    return op->work.kind == WORK_KERNEL && op->work.duration_ns == 0 && !op->work.kernel.run &&
           may_run(s, op) && end_of(s, op) <= sd_now_ns();
}

void sd_stream_push(struct stream *s, struct work work) {
    if (!s->device->worker)
        start_worker(s->device);
    struct op *op = append(s, work, false);
    if (over_at_once(s, op))
        run_first(s, end_of(s, op));
    else if (op == s->first)
        pthread_cond_signal(&s->device->work);
}

/* Sleeps until the model's end of work that this thread will run, without the lock. */
static void sleep_until(uint64_t end) {
    if (end <= sd_now_ns() + NEAR_NS)
        return;
    struct timespec until = as_timespec(end);
    pthread_mutex_unlock(&sd_core);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
    pthread_mutex_lock(&sd_core);
}

void sd_stream_push_and_wait(struct stream *s, struct work work) {
    if (!s->device->worker)
        start_worker(s->device);
    struct op *op = append(s, work, true);
    while (!may_run(s, op))
        wait_for_progress();
    uint64_t end = end_of(s, op);
    op->running = true;
    sleep_until(end);
    run_first(s, end);
}

/* ---- waiting -------------------------------------------------------------------------------- */

static bool done_up_to(const struct stream *s, uint64_t sequence) {
    return !s->first || s->first->sequence > sequence;
}

static bool all_done_up_to(const struct device *d, uint64_t sequence, bool only_blocking) {
    for (const struct stream *s = d->busy; s; s = s->next_busy)
        if (!(only_blocking && !blocking(s)) && !done_up_to(s, sequence))
            return false;
    return true;
}

bool sd_stream_idle(struct stream *s) {
    if (s == s->device->legacy)
        return all_done_up_to(s->device, UINT64_MAX, true);
    return !s->first;
}

void sd_stream_wait(struct stream *s) {
    struct device *d = s->device;
    if (s == d->legacy) {
        uint64_t sequence = d->sequence;
        while (!all_done_up_to(d, sequence, true))
            wait_for_progress();
        return;
    }
    /* Another thread may destroy the stream meanwhile: wait for a mark of our own. */
    if (!s->first)
        return;
    struct op *op = s->first;
    while (op->next)
        op = op->next;
    if (!op->done)
        op->done = sd_marker_new();
    sd_marker_wait(op->done);
}

bool sd_device_idle(struct device *d) {
    return !d->busy;
}

void sd_device_wait(struct device *d) {
    uint64_t sequence = d->sequence;
    while (!all_done_up_to(d, sequence, false))
        wait_for_progress();
}
