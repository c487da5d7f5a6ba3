/*
 * capture.h - stream capture: what it refuses, and how it turns calls into graph nodes.
 *
 * Callers hold the core lock. Modes and states are numbered as cudaStreamCaptureMode and
 * cudaStreamCaptureStatus.
 */
#ifndef STANDIN_CAPTURE_H
#define STANDIN_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "graph.h"
#include "stream.h"

enum capture_mode { CAPTURE_GLOBAL, CAPTURE_THREAD_LOCAL, CAPTURE_RELAXED };
enum capture_state { CAPTURE_NONE, CAPTURE_ACTIVE, CAPTURE_INVALIDATED };

struct capture {
    struct capture *next; /* of all that are under way */
    uint64_t id;
    struct graph *graph;
    bool own_graph;        /* made by the capture, not given to it */
    struct stream *origin; /* NULL once that stream is destroyed */
    int mode;
    pid_t tid; /* the thread that began it */
    bool invalid;
};

/*
 * Puts work on a stream, or into its capture. `wait`: do not return before it is done.
 * `synchronous`: the call is one that no stream may capture (cudaMemcpy).
 * Takes over the work's owned parts. Statuses 0, 900, 901, 906.
 */
int sd_submit(struct stream *stream, struct work work, bool wait, bool synchronous);
/* The same for work that the caller describes as a node; *node is the new node or NULL. */
int sd_submit_node(struct stream *stream, struct work work, int type, struct graph_node **node);

/* At the start of a call that is unsafe while a capture runs (cudaMalloc, for example): 0, or 900
 * after making the captures that forbid it invalid. */
int sd_capture_refuses(void);
/* For a synchronisation or query of one stream: 0, or 900 or 901. */
int sd_capture_refuses_wait(struct stream *stream);
/* For the whole device. */
int sd_capture_refuses_device(struct device *device);

int sd_capture_begin(struct stream *stream, int mode, struct graph *graph,
                     struct graph_node *const *leaf, size_t leaf_count);
int sd_capture_end(struct stream *stream, struct graph **graph);
enum capture_state sd_capture_state(const struct stream *stream);
/* The thread's mode, exchanged. 1 for a mode that is none. */
int sd_capture_exchange_mode(int *mode);

/* cudaEventRecord and cudaStreamWaitEvent, captured or not. */
int sd_event_record(struct event *event, struct stream *stream, unsigned flags);
int sd_stream_wait_event(struct stream *stream, struct event *event, unsigned flags);
/* For a synchronisation or query of an event: 0, 900, or 907 for a captured event, whose capture
 * becomes invalid. */
int sd_capture_refuses_event(const struct event *event);

/* cudaStreamUpdateCaptureDependencies. */
int sd_capture_set_leaf(struct stream *stream, struct graph_node *const *leaf, size_t count,
                        bool add);
/* The stream is being destroyed. */
void sd_capture_lost_stream(struct stream *stream);

#endif
