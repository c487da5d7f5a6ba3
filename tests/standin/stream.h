/*
 * stream.h - streams and events: work that completes late, in order, on a thread of the device.
 *
 * Time is a model: a piece of work starts when it was put on the stream, when what it waits for
 * has ended, or when the stream's previous work has ended, whichever is last, and lasts
 * `duration_ns`. The device's thread does it at its end, never before. Events tell model times.
 *
 * Callers hold the core lock; functions that wait let it go meanwhile.
 */
#ifndef STANDIN_STREAM_H
#define STANDIN_STREAM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "work.h"

struct capture;

/* A point in a stream's work: done, or not yet. Counted references. */
struct marker {
    unsigned references;
    bool done;
    uint64_t at_ns;           /* once done */
    struct ipc_event *shared; /* of an interprocess event's record: where it is told, too */
    uint64_t ticket;
};
struct marker *sd_marker_new(void);
void sd_marker_hold(struct marker *marker);
void sd_marker_drop(struct marker *marker);
/* Waits until it is done. */
void sd_marker_wait(struct marker *marker);

struct op {
    struct op *next;
    struct work work;
    uint64_t sequence; /* order of issue within the device */
    uint64_t enqueued_ns;
    bool running;
    bool host_waits;     /* the thread that put it there will run it or wait for it */
    struct marker *done; /* owned reference, or NULL */
};

struct stream {
    struct device *device;
    unsigned flags; /* 1: not synchronised with the legacy stream */
    int priority;
    uint64_t id;
    uint32_t number; /* in its context, as CUPTI tells it */
    bool deleted;    /* destroyed, but its work still runs */
    struct op *first, **last;
    unsigned length;
    uint64_t end_ns;        /* of the latest completed work, in the model's time */
    uint64_t last_sequence; /* of the latest work put here */
    struct stream *next_busy, *previous_busy;
    struct stream *next; /* of all the device's streams */
    /* Capture: see capture.c. */
    struct capture *capture;
    struct graph_node **leaf; /* owned: what the next captured work comes after */
    size_t leaf_count;
};

#define STREAM_LEGACY ((struct stream *)0x1)
#define STREAM_PER_THREAD ((struct stream *)0x2)

/* The stream behind a handle as passed to a call, or NULL (400) for a handle that is none.
 * 0 is the legacy stream, or the thread's own for the _ptds and _ptsz entry points. */
struct stream *sd_stream(struct device *device, const void *handle, bool per_thread);

struct stream *sd_stream_new(struct device *device, unsigned flags, int priority);
/* Waits for nothing: what is queued still runs. */
void sd_stream_delete(struct stream *stream);

/* Puts work on the stream; takes over its owned parts. May wait for room. */
void sd_stream_push(struct stream *stream, struct work work);
/* The same, and waits for its completion; the calling thread does it itself if its turn is now. */
void sd_stream_push_and_wait(struct stream *stream, struct work work);

/* Whether everything put on the stream so far is done; for the legacy stream, on all streams that
 * synchronise with it too. */
bool sd_stream_idle(struct stream *stream);
void sd_stream_wait(struct stream *stream);
bool sd_device_idle(struct device *device);
void sd_device_wait(struct device *device);
/* For contexts: makes the legacy stream; destroys all the others, and all events. */
void sd_streams_open(struct device *device);
void sd_streams_reset(struct device *device);
/* Internal: the last work of a destroyed stream is done. */
void sd_stream_release(struct stream *stream);
/* After a fork, in the child. */
void sd_streams_forget_waiters(void);

struct event {
    struct device *device;
    unsigned flags;        /* 1 blocking sync, 2 no timing, 4 interprocess */
    struct marker *marker; /* of the latest record, or NULL */
    /* Where its latest record lies in a capture: that capture's id, else 0. */
    uint64_t capture_id;
    struct graph_node **leaf; /* owned */
    size_t leaf_count;
    struct ipc_event *shared; /* of an interprocess event, else NULL */
    bool imported;            /* `shared` is another process's */
};

struct event *sd_event_new(struct device *device, unsigned flags);
/* Whether its latest record is reached; an event that was never recorded is. */
bool sd_event_done(const struct event *event);
/* Waits for that. */
void sd_event_wait(struct event *event);
void sd_event_delete(struct event *event);
/* The latest record becomes this one. */
void sd_event_set_marker(struct event *event, struct marker *marker);

#endif
