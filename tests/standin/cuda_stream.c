/*
 * cuda_stream.c - the driver's streams and events. See driver.h and stream.h.
 */
#include "driver.h"

#include "capture.h"
#include "handles.h"
#include "pool.h"
#include "stream.h"
#include "tell.h"

int sd_driver_begin_stream(const struct standin_call *call, CUstream handle, struct stream **out) {
    struct device *device;
    int status = sd_driver_begin(&device);
    if (status)
        return status;
    *out = sd_stream(device, handle, call->per_thread);
    return *out ? SD_OK : sd_end_with(SD_INVALID_HANDLE);
}

static int create(CUstream *out, unsigned flags, int priority) {
    struct device *device;
    if (!out || flags > 1)
        return SD_INVALID_VALUE;
    int status = sd_driver_begin(&device);
    if (status)
        return status;
    *out = (CUstream)sd_stream_new(device, flags, priority > 0 ? 0 : priority < -5 ? -5 : priority);
    return sd_end_with(SD_OK);
}

static int put_stream(struct standin_call *call, int status, const CUstream *out, unsigned flags) {
    PUT("stream", status ? 0 : (uintptr_t)*out);
    PUT("flags", flags);
    PUT_DEVICE();
    return status;
}

DRIVER_LOGGED(cuStreamCreate, (CUstream * phStream, unsigned int Flags), (phStream, Flags)) {
    return put_stream(call, ATTEMPT(create(phStream, Flags, 0)), phStream, Flags);
}

DRIVER_LOGGED(cuStreamCreateWithPriority, (CUstream * phStream, unsigned int flags, int priority),
              (phStream, flags, priority)) {
    int status = ATTEMPT(create(phStream, flags, priority));
    standin_put_signed(call, "priority", priority);
    return put_stream(call, status, phStream, flags);
}

static int destroy(CUstream handle) {
    int status = sd_begin();
    if (status)
        return status;
    struct stream *s = sd_handle(handle, HANDLE_STREAM);
    if (s)
        sd_stream_delete(s);
    return sd_end_with(s ? SD_OK : SD_INVALID_HANDLE);
}

DRIVER_LOGGED(cuStreamDestroy_v2, (CUstream hStream), (hStream)) {
    int status = ATTEMPT(destroy(hStream));
    PUT("stream", (uintptr_t)hStream);
    PUT_DEVICE();
    return status;
}

static int synchronize(struct standin_call *call, CUstream hStream) {
    struct stream *s;
    int status = sd_driver_begin_stream(call, hStream, &s);
    if (status)
        return status;
    status = sd_capture_refuses_wait(s);
    if (!status) {
        uint32_t number = s->number;
        uint64_t since = sd_wait_start();
        struct device *device = s->device;
        sd_stream_wait(s);
        sd_tell_wait(WAIT_STREAM, device->ordinal, number, since);
        sd_pools_settle(device);
    }
    return sd_end_with(status);
}

DRIVER_LOGGED_TWIN(cuStreamSynchronize, _ptsz, (CUstream hStream), (hStream)) {
    int status = ATTEMPT(synchronize(call, hStream));
    PUT("stream", (uintptr_t)hStream);
    PUT_DEVICE();
    return status;
}

DRIVER_TWIN(cuStreamQuery, _ptsz, (CUstream hStream), (hStream)) {
    struct stream *s;
    int status = sd_driver_begin_stream(call, hStream, &s);
    if (status)
        return status;
    status = sd_capture_refuses_wait(s);
    return sd_end_with(status ? status : sd_stream_idle(s) ? SD_OK : SD_NOT_READY);
}

static int wait_event(struct standin_call *call, CUstream stream, CUevent event, unsigned flags) {
    struct stream *s;
    int status = sd_driver_begin_stream(call, stream, &s);
    if (status)
        return status;
    struct event *e = sd_handle(event, HANDLE_EVENT);
    return sd_end_with(e ? sd_stream_wait_event(s, e, flags) : SD_INVALID_HANDLE);
}

static void put_event(struct standin_call *call, CUevent event, CUstream stream) {
    PUT("event", (uintptr_t)event);
    PUT("stream", (uintptr_t)stream);
    PUT_DEVICE();
}

DRIVER_LOGGED_TWIN(cuStreamWaitEvent, _ptsz, (CUstream hStream, CUevent hEvent, unsigned int Flags),
                   (hStream, hEvent, Flags)) {
    int status = ATTEMPT(wait_event(call, hStream, hEvent, Flags));
    put_event(call, hEvent, hStream);
    PUT("flags", Flags);
    return status;
}

DRIVER_TWIN(cuStreamIsCapturing, _ptsz, (CUstream hStream, CUstreamCaptureStatus *captureStatus),
            (hStream, captureStatus)) {
    struct stream *s;
    if (!captureStatus)
        return SD_INVALID_VALUE;
    int status = sd_driver_begin_stream(call, hStream, &s);
    if (status)
        return status;
    *captureStatus = (CUstreamCaptureStatus)sd_capture_state(s);
    return sd_end_with(SD_OK);
}

static int capture_info(struct standin_call *call, CUstream stream, CUstreamCaptureStatus *state,
                        cuuint64_t *id, CUgraph *graph, const CUgraphNode **nodes, size_t *count) {
    struct stream *s;
    if (!state)
        return SD_INVALID_VALUE;
    int status = sd_driver_begin_stream(call, stream, &s);
    if (status)
        return status;
    *state = (CUstreamCaptureStatus)sd_capture_state(s);
    if (s->capture && !s->capture->invalid) {
        if (id)
            *id = s->capture->id;
        if (graph)
            *graph = (CUgraph)s->capture->graph;
        if (nodes)
            *nodes = (const CUgraphNode *)s->leaf;
        if (count)
            *count = s->leaf_count;
    }
    return sd_end_with(SD_OK);
}

DRIVER_TWIN(cuStreamGetCaptureInfo_v2, _ptsz,
            (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
             CUgraph *graph_out, const CUgraphNode **dependencies_out, size_t *numDependencies_out),
            (hStream, captureStatus_out, id_out, graph_out, dependencies_out,
             numDependencies_out)) {
    return capture_info(call, hStream, captureStatus_out, id_out, graph_out, dependencies_out,
                        numDependencies_out);
}

DRIVER_TWIN(cuStreamGetCaptureInfo_v3, _ptsz,
            (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
             CUgraph *graph_out, const CUgraphNode **dependencies_out,
             const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out),
            (hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
             numDependencies_out)) {
    if (edgeData_out)
        *edgeData_out = NULL;
    return capture_info(call, hStream, captureStatus_out, id_out, graph_out, dependencies_out,
                        numDependencies_out);
}

DRIVER_TWIN(cuStreamGetFlags, _ptsz, (CUstream hStream, unsigned int *flags), (hStream, flags)) {
    struct stream *s;
    int status = flags ? sd_driver_begin_stream(call, hStream, &s) : SD_INVALID_VALUE;
    if (status)
        return status;
    *flags = s->flags;
    return sd_end_with(SD_OK);
}

DRIVER_TWIN(cuStreamGetPriority, _ptsz, (CUstream hStream, int *priority), (hStream, priority)) {
    struct stream *s;
    int status = priority ? sd_driver_begin_stream(call, hStream, &s) : SD_INVALID_VALUE;
    if (status)
        return status;
    *priority = s->priority;
    return sd_end_with(SD_OK);
}

DRIVER_TWIN(cuLaunchHostFunc, _ptsz, (CUstream hStream, CUhostFn fn, void *userData),
            (hStream, fn, userData)) {
    struct stream *s;
    int status = fn ? sd_driver_begin_stream(call, hStream, &s) : SD_INVALID_VALUE;
    if (status)
        return status;
    struct work work = {.kind = WORK_HOST, .host = {fn, userData}};
    return sd_end_with(sd_submit(s, work, false, false));
}

/* ---- events --------------------------------------------------------------------------------- */

DRIVER(cuEventCreate, (CUevent * phEvent, unsigned int Flags), (phEvent, Flags)) {
    struct device *device;
    if (!phEvent || Flags > 7 || (Flags & 6) == 4)
        return SD_INVALID_VALUE;
    int status = sd_driver_begin(&device);
    if (status)
        return status;
    *phEvent = (CUevent)sd_event_new(device, Flags);
    PUT("event", (uintptr_t)*phEvent);
    return sd_end_with(SD_OK);
}

/* The event, with the lock held on status 0. */
static int begin_event(CUevent handle, struct event **out) {
    int status = sd_begin();
    if (status)
        return status;
    *out = sd_handle(handle, HANDLE_EVENT);
    return *out ? SD_OK : sd_end_with(SD_INVALID_HANDLE);
}

DRIVER(cuEventDestroy_v2, (CUevent hEvent), (hEvent)) {
    struct event *e;
    int status = begin_event(hEvent, &e);
    if (status)
        return status;
    sd_event_delete(e);
    return sd_end_with(SD_OK);
}

static int record(struct standin_call *call, CUevent event, CUstream stream) {
    struct stream *s;
    int status = sd_driver_begin_stream(call, stream, &s);
    if (status)
        return status;
    struct event *e = sd_handle(event, HANDLE_EVENT);
    return sd_end_with(e && e->device == s->device ? sd_event_record(e, s, 0) : SD_INVALID_HANDLE);
}

DRIVER_LOGGED_TWIN(cuEventRecord, _ptsz, (CUevent hEvent, CUstream hStream), (hEvent, hStream)) {
    int status = ATTEMPT(record(call, hEvent, hStream));
    put_event(call, hEvent, hStream);
    return status;
}

static int wait_for(CUevent event) {
    struct event *e;
    int status = begin_event(event, &e);
    if (status)
        return status;
    status = sd_capture_refuses_event(e);
    if (!status) {
        int device = e->device->ordinal;
        uint64_t since = sd_wait_start();
        sd_event_wait(e);
        sd_tell_wait(WAIT_EVENT, device, 0, since);
    }
    return sd_end_with(status);
}

DRIVER_LOGGED(cuEventSynchronize, (CUevent hEvent), (hEvent)) {
    int status = ATTEMPT(wait_for(hEvent));
    PUT("event", (uintptr_t)hEvent);
    PUT_DEVICE();
    return status;
}

DRIVER(cuEventQuery, (CUevent hEvent), (hEvent)) {
    struct event *e;
    int status = begin_event(hEvent, &e);
    if (status)
        return status;
    status = sd_capture_refuses_event(e);
    if (!status && !sd_event_done(e))
        status = SD_NOT_READY;
    return sd_end_with(status);
}

static int elapsed(float *ms, CUevent from, CUevent to) {
    struct event *a, *b;
    int status = ms ? begin_event(from, &a) : SD_INVALID_VALUE;
    if (status)
        return status;
    b = sd_handle(to, HANDLE_EVENT);
    if (!b || !a->marker || !b->marker || ((a->flags | b->flags) & 2))
        return sd_end_with(SD_INVALID_HANDLE);
    if (!a->marker->done || !b->marker->done)
        return sd_end_with(SD_NOT_READY);
    *ms = (float)((double)(int64_t)(b->marker->at_ns - a->marker->at_ns) * 1e-6);
    return sd_end_with(SD_OK);
}

DRIVER(cuEventElapsedTime, (float *pMilliseconds, CUevent hStart, CUevent hEnd),
       (pMilliseconds, hStart, hEnd)) {
    return elapsed(pMilliseconds, hStart, hEnd);
}

DRIVER(cuEventElapsedTime_v2, (float *pMilliseconds, CUevent hStart, CUevent hEnd),
       (pMilliseconds, hStart, hEnd)) {
    return elapsed(pMilliseconds, hStart, hEnd);
}
