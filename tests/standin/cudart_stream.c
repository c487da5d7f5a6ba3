/*
 * cudart_stream.c - streams and events as the runtime's functions. See cudart.h and stream.h.
 * Capture: cudart_graph.c.
 */
#include "cudart.h"

#include <stdlib.h>

#include "capture.h"
#include "handles.h"
#include "pool.h"
#include "stream.h"
#include "tell.h"

/* The stream of a call, with the lock held on status 0. */
static int begin_stream(const struct standin_call *call, cudaStream_t handle, struct stream **out) {
    struct device *device;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    *out = sd_stream(device, handle, call->per_thread);
    return *out ? SD_OK : sd_end_with(SD_INVALID_HANDLE);
}

static int new_stream(cudaStream_t *out, unsigned flags, int priority) {
    struct device *device;
    if (!out || flags > 1)
        return SD_INVALID_VALUE;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    *out = (cudaStream_t)sd_stream_new(device, flags, priority);
    return sd_end_with(SD_OK);
}

CUDART(cudaStreamCreate, (cudaStream_t * pStream), (pStream)) {
    int status = ATTEMPT(new_stream(pStream, 0, 0));
    PUT_OUT("stream", pStream);
    PUT_DEVICE();
    return status;
}

CUDART(cudaStreamCreateWithFlags, (cudaStream_t * pStream, unsigned int flags), (pStream, flags)) {
    int status = ATTEMPT(new_stream(pStream, flags, 0));
    PUT_OUT("stream", pStream);
    PUT("flags", flags);
    PUT_DEVICE();
    return status;
}

CUDART(cudaStreamCreateWithPriority, (cudaStream_t * pStream, unsigned int flags, int priority),
       (pStream, flags, priority)) {
    int status = ATTEMPT(new_stream(pStream, flags, priority));
    PUT_OUT("stream", pStream);
    PUT("flags", flags);
    PUT_INT("priority", priority);
    PUT_DEVICE();
    return status;
}

static int destroy_stream(cudaStream_t handle) {
    int status = sd_begin();
    if (status)
        return status;
    struct stream *s = sd_handle(handle, HANDLE_STREAM);
    if (s)
        sd_stream_delete(s);
    return sd_end_with(s ? SD_OK : SD_INVALID_HANDLE);
}

CUDART(cudaStreamDestroy, (cudaStream_t stream), (stream)) {
    int status = ATTEMPT(destroy_stream(stream));
    PUT("stream", (uintptr_t)stream);
    PUT_DEVICE();
    return status;
}

static int synchronize(struct standin_call *call, cudaStream_t handle) {
    struct stream *s;
    int status = begin_stream(call, handle, &s);
    if (status)
        return status;
    status = sd_capture_refuses_wait(s);
    if (!status) {
        uint32_t number = s->number;
        uint64_t since = sd_wait_start();
        struct device *device = s->device; /* the stream may be gone after the wait */
        sd_stream_wait(s);
        sd_tell_wait(WAIT_STREAM, device->ordinal, number, since);
        sd_pools_settle(device);
    }
    return sd_end_with(status);
}

CUDART_TWIN(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), (stream)) {
    int status = ATTEMPT(synchronize(call, stream));
    PUT("stream", (uintptr_t)stream);
    PUT_DEVICE();
    return status;
}

static int query(struct standin_call *call, cudaStream_t handle) {
    struct stream *s;
    int status = begin_stream(call, handle, &s);
    if (status)
        return status;
    status = sd_capture_refuses_wait(s);
    if (!status)
        status = sd_stream_idle(s) ? SD_OK : SD_NOT_READY;
    return sd_end_with(status);
}

CUDART_TWIN(cudaStreamQuery, _ptsz, (cudaStream_t stream), (stream)) {
    int status = ATTEMPT(query(call, stream));
    PUT("stream", (uintptr_t)stream);
    PUT_DEVICE();
    return status;
}

static int host_work(struct standin_call *call, cudaStream_t handle, struct work work) {
    struct stream *s;
    int status = begin_stream(call, handle, &s);
    return status ? status : sd_end_with(sd_submit(s, work, false, false));
}

CUDART_TWIN(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t fn, void *userData),
            (stream, fn, userData)) {
    struct work work = {.kind = WORK_HOST, .host = {fn, userData}};
    int status = ATTEMPT(fn ? host_work(call, stream, work) : SD_INVALID_VALUE);
    PUT("stream", (uintptr_t)stream);
    PUT_DEVICE();
    return status;
}

static int add_callback(struct standin_call *call, cudaStream_t handle,
                        cudaStreamCallback_t callback, void *data) {
    struct stream *s;
    int status = begin_stream(call, handle, &s);
    if (status)
        return status;
    struct work work = {.kind = WORK_CALLBACK,
                        .callback = {(void (*)(void *, int, void *))callback, handle, data}};
    if (s->capture) { /* callbacks cannot be captured; host functions can */
        s->capture->invalid = true;
        return sd_end_with(SD_CAPTURE_UNSUPPORTED);
    }
    return sd_end_with(sd_submit(s, work, false, false));
}

CUDART_TWIN(cudaStreamAddCallback, _ptsz,
            (cudaStream_t stream, cudaStreamCallback_t callback, void *userData,
             unsigned int flags),
            (stream, callback, userData, flags)) {
    int status = ATTEMPT(callback && !flags ? add_callback(call, stream, callback, userData)
                                            : SD_INVALID_VALUE);
    PUT("stream", (uintptr_t)stream);
    PUT_DEVICE();
    return status;
}

/* ---- what a stream is ----------------------------------------------------------------------- */

enum trait { TRAIT_PRIORITY, TRAIT_FLAGS, TRAIT_DEVICE, TRAIT_ID };

static int trait(struct standin_call *call, cudaStream_t handle, enum trait which, int64_t *out) {
    struct stream *s;
    int status = begin_stream(call, handle, &s);
    if (status)
        return status;
    *out = which == TRAIT_PRIORITY ? s->priority
           : which == TRAIT_FLAGS  ? (int64_t)s->flags
           : which == TRAIT_DEVICE ? s->device->ordinal
                                   : (int64_t)s->id;
    return sd_end_with(SD_OK);
}

#define TRAIT(name, type, which)                                                                   \
    CUDART_TWIN(name, _ptsz, (cudaStream_t hStream, type * out), (hStream, out)) {                 \
        int64_t value = 0;                                                                         \
        int status = ATTEMPT(out ? trait(call, hStream, which, &value) : SD_INVALID_VALUE);        \
        if (!status)                                                                               \
            *out = (type)value;                                                                    \
        return status;                                                                             \
    }
TRAIT(cudaStreamGetPriority, int, TRAIT_PRIORITY)
TRAIT(cudaStreamGetFlags, unsigned int, TRAIT_FLAGS)
TRAIT(cudaStreamGetDevice, int, TRAIT_DEVICE)
TRAIT(cudaStreamGetId, unsigned long long, TRAIT_ID)

/* ---- events --------------------------------------------------------------------------------- */

static int new_event(cudaEvent_t *out, unsigned flags) {
    struct device *device;
    if (!out || flags > 7 || (flags & 6) == 4) /* interprocess events have no timing */
        return SD_INVALID_VALUE;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    *out = (cudaEvent_t)sd_event_new(device, flags);
    return sd_end_with(SD_OK);
}

CUDART(cudaEventCreate, (cudaEvent_t * event), (event)) {
    int status = ATTEMPT(new_event(event, 0));
    PUT_OUT("event", event);
    PUT_DEVICE();
    return status;
}

CUDART(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags), (event, flags)) {
    int status = ATTEMPT(new_event(event, flags));
    PUT_OUT("event", event);
    PUT("flags", flags);
    PUT_DEVICE();
    return status;
}

/* The event of a call, with the lock held on status 0. */
static int begin_event(cudaEvent_t handle, struct event **out) {
    int status = sd_begin();
    if (status)
        return status;
    *out = sd_handle(handle, HANDLE_EVENT);
    return *out ? SD_OK : sd_end_with(SD_INVALID_HANDLE);
}

static int destroy_event(cudaEvent_t handle) {
    struct event *e;
    int status = begin_event(handle, &e);
    if (status)
        return status;
    sd_event_delete(e);
    return sd_end_with(SD_OK);
}

CUDART(cudaEventDestroy, (cudaEvent_t event), (event)) {
    int status = ATTEMPT(destroy_event(event));
    PUT("event", (uintptr_t)event);
    PUT_DEVICE();
    return status;
}

static int record(struct standin_call *call, cudaEvent_t event, cudaStream_t stream,
                  unsigned flags) {
    struct stream *s;
    int status = begin_stream(call, stream, &s);
    if (status)
        return status;
    struct event *e = sd_handle(event, HANDLE_EVENT);
    if (!e || e->device != s->device)
        return sd_end_with(SD_INVALID_HANDLE);
    return sd_end_with(flags > 1 ? SD_INVALID_VALUE : sd_event_record(e, s, flags));
}

static void put_event(struct standin_call *call, cudaEvent_t event, cudaStream_t stream) {
    PUT("event", (uintptr_t)event);
    PUT("stream", (uintptr_t)stream);
    PUT_DEVICE();
}

CUDART_TWIN(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream), (event, stream)) {
    int status = ATTEMPT(record(call, event, stream, 0));
    put_event(call, event, stream);
    return status;
}

CUDART_TWIN(cudaEventRecordWithFlags, _ptsz,
            (cudaEvent_t event, cudaStream_t stream, unsigned int flags), (event, stream, flags)) {
    int status = ATTEMPT(record(call, event, stream, flags));
    put_event(call, event, stream);
    PUT("flags", flags);
    return status;
}

static int wait_event(struct standin_call *call, cudaStream_t stream, cudaEvent_t event,
                      unsigned flags) {
    struct stream *s;
    int status = begin_stream(call, stream, &s);
    if (status)
        return status;
    struct event *e = sd_handle(event, HANDLE_EVENT);
    if (!e)
        return sd_end_with(SD_INVALID_HANDLE);
    return sd_end_with(flags > 1 ? SD_INVALID_VALUE : sd_stream_wait_event(s, e, flags));
}

CUDART_TWIN(cudaStreamWaitEvent, _ptsz,
            (cudaStream_t stream, cudaEvent_t event, unsigned int flags), (stream, event, flags)) {
    int status = ATTEMPT(wait_event(call, stream, event, flags));
    put_event(call, event, stream);
    PUT("flags", flags);
    return status;
}

static int synchronize_event(cudaEvent_t handle) {
    struct event *e;
    int status = begin_event(handle, &e);
    if (status)
        return status;
    status = sd_capture_refuses_event(e);
    if (!status && (e->marker || e->shared)) {
        struct device *device = e->device;
        uint64_t since = sd_wait_start();
        sd_event_wait(e);
        sd_tell_wait(WAIT_EVENT, device->ordinal, 0, since);
        sd_pools_settle(device);
    }
    return sd_end_with(status);
}

CUDART(cudaEventSynchronize, (cudaEvent_t event), (event)) {
    int status = ATTEMPT(synchronize_event(event));
    PUT("event", (uintptr_t)event);
    PUT_DEVICE();
    return status;
}

static int query_event(cudaEvent_t handle) {
    struct event *e;
    int status = begin_event(handle, &e);
    if (status)
        return status;
    status = sd_capture_refuses_event(e);
    if (!status && !sd_event_done(e))
        status = SD_NOT_READY;
    return sd_end_with(status);
}

CUDART(cudaEventQuery, (cudaEvent_t event), (event)) {
    int status = ATTEMPT(query_event(event));
    PUT("event", (uintptr_t)event);
    PUT_DEVICE();
    return status;
}

static int elapsed(float *out, cudaEvent_t from, cudaEvent_t to) {
    if (!out)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    const struct event *a = sd_handle(from, HANDLE_EVENT), *b = sd_handle(to, HANDLE_EVENT);
    if (!a || !b || ((a->flags | b->flags) & 2) || !a->marker || !b->marker ||
        a->device != b->device)
        return sd_end_with(SD_INVALID_HANDLE);
    if (!a->marker->done || !b->marker->done)
        return sd_end_with(SD_NOT_READY);
    *out = (float)((double)(int64_t)(b->marker->at_ns - a->marker->at_ns) * 1e-6);
    return sd_end_with(SD_OK);
}

CUDART(cudaEventElapsedTime, (float *ms, cudaEvent_t start, cudaEvent_t end), (ms, start, end)) {
    return ATTEMPT(elapsed(ms, start, end));
}
