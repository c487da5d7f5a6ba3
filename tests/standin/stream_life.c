/*
 * stream_life.c - streams and events come and go; handles are looked up. See stream.h.
 */
#include <stdlib.h>

#include "capture.h"
#include "handles.h"
#include "ipc.h"
#include "stream.h"

static uint64_t last_stream_id;

/* Each thread's default streams. A reset of the device makes them stale: `id` tells. */
struct own_stream {
    struct stream *stream;
    uint64_t generation;
};
static __thread struct own_stream own_streams[STANDIN_DEVICES_MAX];
static uint64_t generation[STANDIN_DEVICES_MAX] = {0};
static pthread_key_t thread_end;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;

static void drop_own_streams(void *data) {
    struct own_stream *own = data;
    if (!sd_begin_registration())
        return;
    for (int i = 0; i < STANDIN_DEVICES_MAX; i++)
        if (own[i].stream && own[i].generation == generation[i]) {
            sd_stream_delete(own[i].stream);
            own[i].stream = NULL;
        }
    sd_end();
}

static void make_thread_end(void) {
    pthread_key_create(&thread_end, drop_own_streams);
}

static struct stream *own_stream(struct device *device) {
    struct own_stream *own = &own_streams[device->ordinal];
    if (!own->stream || own->generation != generation[device->ordinal]) {
        pthread_once(&thread_end_once, make_thread_end);
        pthread_setspecific(thread_end, own_streams);
        own->stream = sd_stream_new(device, 0, 0);
        own->generation = generation[device->ordinal];
    }
    return own->stream;
}

struct stream *sd_stream(struct device *device, const void *handle, bool per_thread) {
    if (!handle)
        handle = per_thread ? STREAM_PER_THREAD : STREAM_LEGACY;
    if (handle == STREAM_LEGACY)
        return device->legacy;
    if (handle == STREAM_PER_THREAD)
        return own_stream(device);
    return sd_handle(handle, HANDLE_STREAM);
}

/* CUPTI's number of the legacy stream is 7; the next ones are the driver's own. */
static uint32_t next_number(struct device *device) {
    if (!device->stream_number) {
        device->stream_number = 12;
        return 7;
    }
    return ++device->stream_number;
}

struct stream *sd_stream_new(struct device *device, unsigned flags, int priority) {
    struct stream *s = sd_handle_new(HANDLE_STREAM, sizeof *s);
    if (!s)
        abort();
    s->device = device;
    s->flags = flags;
    s->priority = priority;
    s->id = ++last_stream_id;
    s->number = next_number(device);
    s->last = &s->first;
    if (device->legacy) {
        s->next = device->legacy->next;
        device->legacy->next = s;
    }
    return s;
}

static void unlink_stream(struct stream *s) {
    struct stream **link = &s->device->legacy->next;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
}

void sd_stream_release(struct stream *s) {
    unlink_stream(s);
    free(s->leaf);
    sd_handle_free(s);
}

void sd_stream_delete(struct stream *s) {
    sd_capture_lost_stream(s);
    sd_handle_retire(s);
    s->deleted = true;
    if (!s->first)
        sd_stream_release(s);
}

void sd_streams_open(struct device *device) {
    if (device->legacy)
        return;
    device->legacy = sd_stream_new(device, 0, 0);
    sd_handle_retire(device->legacy); /* programs know it by 0 and 1 only */
}

static void delete_event_of(void *object, void *data) {
    struct event *e = object;
    if (e->device == data)
        sd_event_delete(e);
}

void sd_streams_reset(struct device *device) {
    while (device->legacy->next)
        sd_stream_delete(device->legacy->next);
    sd_handle_each(HANDLE_EVENT, delete_event_of, device);
    generation[device->ordinal]++;
}

struct event *sd_event_new(struct device *device, unsigned flags) {
    struct event *e = sd_handle_new(HANDLE_EVENT, sizeof *e);
    if (!e)
        abort();
    e->device = device;
    e->flags = flags;
    if (flags & 4) {
        e->shared = sd_ipc_event_new(device);
        if (!e->shared)
            abort();
    }
    return e;
}

bool sd_event_done(const struct event *e) {
    return e->shared ? sd_ipc_event_done(e->shared) : !e->marker || e->marker->done;
}

void sd_event_wait(struct event *e) {
    if (e->shared)
        sd_ipc_event_wait(e->shared);
    else if (e->marker)
        sd_marker_wait(e->marker);
}

void sd_event_set_marker(struct event *e, struct marker *marker) {
    if (e->marker)
        sd_marker_drop(e->marker);
    e->marker = marker;
    if (marker)
        sd_marker_hold(marker);
    e->capture_id = 0;
    free(e->leaf);
    e->leaf = NULL;
    e->leaf_count = 0;
}

void sd_event_delete(struct event *e) {
    sd_event_set_marker(e, NULL);
    if (e->shared && !e->imported)
        sd_ipc_event_delete(e->shared);
    sd_handle_delete(e);
}
