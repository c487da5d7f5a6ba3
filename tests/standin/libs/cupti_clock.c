/*
 * cupti_clock.c - the time that records carry: CLOCK_REALTIME, with the offset and the drift that
 * the environment asks for, or what a client's function says, in its own units. The device's times
 * are converted along the line through two points at which both clocks were read. Any thread; not
 * in signal handlers.
 */
#include <time.h>

#include "../device.h"
#include "cupti_standin.h"

#define READINGS 3

struct point {
    uint64_t device, client;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the two below */
static struct point first, last;
static _Atomic(CUpti_TimestampCallbackFunc) clock_of_client;

static uint64_t own_now(void) {
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    static int64_t start;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    pthread_mutex_lock(&once);
    if (!start)
        start = now;
    int64_t passed = now - start;
    pthread_mutex_unlock(&once);
    return (uint64_t)(now + cp_options()->offset + passed * cp_options()->drift / 1000000);
}

uint64_t cp_now(void) {
    CUpti_TimestampCallbackFunc clock = atomic_load(&clock_of_client);
    return clock ? clock() : own_now();
}

/* The tightest of some: a thread may be stopped between two readings. */
static struct point now(void) {
    struct point best = {0, 0};
    uint64_t width = UINT64_MAX;
    for (int i = 0; i < READINGS; i++) {
        uint64_t before = sd_now_ns(), client = cp_now(), after = sd_now_ns();
        if (after - before >= width)
            continue;
        width = after - before;
        best = (struct point){before + width / 2, client};
    }
    return best;
}

void cp_set_clock(CUpti_TimestampCallbackFunc clock) {
    atomic_store(&clock_of_client, clock);
    struct point p = now();
    pthread_mutex_lock(&lock);
    first = last = p;
    pthread_mutex_unlock(&lock);
}

/* The two points, at least a millisecond apart once that much has passed. */
static void points(struct point *a, struct point *b) {
    struct point p = now();
    pthread_mutex_lock(&lock);
    if (!first.device)
        first = last = p;
    if (p.device > first.device + 1000000)
        last = p;
    *a = first;
    *b = last;
    pthread_mutex_unlock(&lock);
    if (a->device == b->device)
        *b = p;
}

static uint64_t scaled(uint64_t difference, double rate) {
    double ns = (double)(int64_t)difference * rate;
    return (uint64_t)(int64_t)(ns < 0 ? ns - 0.5 : ns + 0.5);
}

void cp_times(uint64_t start_ns, uint64_t end_ns, uint64_t out[2]) {
    struct point a, b;
    points(&a, &b);
    double rate = b.device > a.device + 50000
                      ? (double)(int64_t)(b.client - a.client) / (double)(b.device - a.device)
                      : 1.0;
    uint64_t lasted = scaled(end_ns - start_ns, rate);
    uint64_t end = b.client + scaled(end_ns - b.device, rate);
    out[0] = start_ns ? end - lasted : 0;
    out[1] = end_ns ? end : 0;
}

uint64_t cp_time(uint64_t device_ns) {
    uint64_t times[2];
    cp_times(device_ns, device_ns, times);
    return times[1];
}

CP_EXPORT cuptiGetTimestamp(uint64_t *timestamp) {
    CP_ENTER(call, CP_EVERYWHERE);
    int status = lib_status(&call, timestamp ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (status == 0)
        *timestamp = cp_now();
    return cp_leave(&call, status);
}

CP_EXPORT cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc timestamp) {
    CP_ENTER(call, 0);
    int status = lib_status(&call, timestamp ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (!status)
        status = cp_mode_status(CP_SINGLE);
    if (!status) {
        cp_set_clock(timestamp);
        cp_note("clock module=%s", cp_module((const void *)(uintptr_t)timestamp));
    }
    return cp_leave(&call, status);
}
