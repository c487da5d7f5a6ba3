/*
 * on_capture.c - which streams of this process capture? See on_call.h.
 *
 * A table of a few, without a lock. A capture takes its place before the call that begins it, under
 * the thread's number since the stream is not known there yet, and gives it back when it ends: by
 * its own call, with its stream, with its device's reset, or, of a thread's own default stream,
 * with the thread. One that finds no place among 64 others is not known of.
 *
 * An end that no hook saw leaves its capture here until its stream is used for another or goes. So
 * what merely waits for the end of captures does so for a while only (ls_capture_awaited()).
 */
#include <string.h>

#include "clock.h"
#include "on_call.h"

#define PLACES 64
#define AWAITED_NS UINT64_C(10000000000)
#define STREAM_PER_THREAD 2 /* cudaStreamPerThread, CU_STREAM_PER_THREAD */

_Atomic int ls_capturing;

/* What captures: 0 nothing, or one of these, from where its kind's bit is on */
#define STREAM (UINT64_C(1) << 62)     /* with its handle and its device, */
#define OWN_STREAM (UINT64_C(2) << 62) /* a thread's own default stream, */
#define BEGINNING (UINT64_C(3) << 62)  /* what a thread is about to begin with */
#define DEVICE_AT 48
#define DEVICE_BITS (UINT64_C(0xff) << DEVICE_AT)

static struct {
    _Atomic uint64_t what;
    _Atomic uint64_t since; /* CLOCK_MONOTONIC, written before the capture begins */
} places[PLACES];

static bool same(uint64_t a, uint64_t b) {
    return ((a ^ b) & ~DEVICE_BITS) == 0;
}

static void remove_if(bool (*is_it)(uint64_t what, uint64_t of), uint64_t of) {
    for (int i = 0; i < PLACES && atomic_load(&ls_capturing) > 0; i++) {
        uint64_t what = atomic_load(&places[i].what);
        if (what && is_it(what, of) &&
            atomic_compare_exchange_strong(&places[i].what, &what, UINT64_C(0)))
            atomic_fetch_sub(&ls_capturing, 1);
    }
}

/* Not where it is already. */
static void add(uint64_t what) {
    for (int i = 0; i < PLACES; i++) {
        if (same(atomic_load(&places[i].what), what)) {
            atomic_store(&places[i].since, ls_ns(CLOCK_MONOTONIC));
            return;
        }
    }
    atomic_fetch_add(&ls_capturing, 1);
    for (int i = 0; i < PLACES; i++) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&places[i].what, &none, what)) {
            atomic_store(&places[i].since, ls_ns(CLOCK_MONOTONIC));
            return;
        }
    }
    atomic_fetch_sub(&ls_capturing, 1);
}

/* What was about to begin is now known. */
static void rename_to(uint64_t now, uint64_t before) {
    remove_if(same, now); /* of a capture whose end was not seen */
    for (int i = 0; i < PLACES; i++) {
        uint64_t expected = before;
        if (atomic_compare_exchange_strong(&places[i].what, &expected, now))
            return;
    }
    add(now);
}

/* ---- calls ---- */

static bool is_per_thread(enum ls_api api) {
    const char *name = ls_api_info[api].name;
    size_t length = strlen(name), end = strlen("_ptsz");
    return length > end && strcmp(name + length - end, "_ptsz") == 0;
}

static uint64_t stream_of(const struct ls_thread *self, enum ls_api api, const uint64_t *field) {
    uint64_t handle = field[ls_roles[api].stream];
    if (handle == STREAM_PER_THREAD || (handle == 0 && is_per_thread(api)))
        return OWN_STREAM | self->tid;
    return STREAM | (uint64_t)self->device << DEVICE_AT | (handle & ~(DEVICE_BITS | BEGINNING));
}

/* cudaErrorStreamCaptureUnsupported (900) to cudaErrorCapturedEvent (907): the capture was there,
 * was broken, and is over after the call; but for Unmatched (903), which is another capture's
 * thread asking. Other errors left whatever there was. */
static bool ends_capture(int status) {
    return status == 0 || (status >= 900 && status <= 907 && status != 903);
}

void ls_before_capture(const struct ls_thread *self) {
    add(BEGINNING | self->tid);
}

void ls_on_capture(const struct ls_thread *self, enum ls_api api, enum ls_class cls, int status,
                   const uint64_t *field) {
    uint64_t stream = stream_of(self, api, field);
    if (cls == LS_CLASS_CAPTURE_END) {
        if (ends_capture(status))
            remove_if(same, stream);
    } else if (status == 0) {
        rename_to(stream, BEGINNING | self->tid);
    } else {
        remove_if(same, BEGINNING | self->tid);
    }
}

/* CUDA lets a stream go in the middle of its capture, and nothing can end that any more. */
void ls_on_stream_end(const struct ls_thread *self, enum ls_api api, int status,
                      const uint64_t *field) {
    if (status == 0)
        remove_if(same, stream_of(self, api, field));
}

/* A thread's own streams are one for each device, and their devices are not kept: they go, too. */
static bool is_of_device(uint64_t what, uint64_t device) {
    uint64_t kind = what & BEGINNING;
    return kind == OWN_STREAM || (kind == STREAM && (what & DEVICE_BITS) >> DEVICE_AT == device);
}

void ls_capture_device_gone(uint64_t device) {
    remove_if(is_of_device, device);
}

static bool is_of_thread(uint64_t what, uint64_t tid) {
    return what == (OWN_STREAM | tid) || what == (BEGINNING | tid);
}

void ls_capture_thread_gone(uint32_t tid) {
    remove_if(is_of_thread, tid);
}

static bool is_any(uint64_t what, uint64_t of) {
    (void)what, (void)of;
    return true;
}

void ls_capture_forget(void) {
    remove_if(is_any, 0);
}

bool ls_capture_awaited(void) {
    if (atomic_load(&ls_capturing) <= 0)
        return false;
    uint64_t now = ls_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < PLACES; i++)
        if (atomic_load(&places[i].what) && now - atomic_load(&places[i].since) < AWAITED_NS)
            return true;
    return false;
}
