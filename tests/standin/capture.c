/*
 * capture.c - stream capture. See capture.h.
 */
#include "capture.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "handles.h"
#include "ipc.h"
#include "tell.h"

static struct capture *captures;
static uint64_t last_id;
static __thread int thread_mode = CAPTURE_GLOBAL;

static pid_t self(void) {
    return (pid_t)syscall(SYS_gettid);
}

static struct capture *by_id(uint64_t id) {
    struct capture *c = captures;
    while (c && c->id != id)
        c = c->next;
    return c;
}

enum capture_state sd_capture_state(const struct stream *s) {
    if (!s->capture)
        return CAPTURE_NONE;
    return s->capture->invalid ? CAPTURE_INVALIDATED : CAPTURE_ACTIVE;
}

bool standin_capturing(void) {
    return __atomic_load_n(&captures, __ATOMIC_RELAXED) != NULL;
}

int sd_capture_exchange_mode(int *mode) {
    if (*mode < CAPTURE_GLOBAL || *mode > CAPTURE_RELAXED)
        return SD_INVALID_VALUE;
    int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return SD_OK;
}

/* ---- what is refused ------------------------------------------------------------------------ */

/* As documented at cudaThreadExchangeStreamCaptureMode. */
static bool forbids(const struct capture *c) {
    bool local = c->tid == self();
    switch (thread_mode) {
    case CAPTURE_GLOBAL:
        return c->mode == CAPTURE_GLOBAL || (local && c->mode == CAPTURE_THREAD_LOCAL);
    case CAPTURE_THREAD_LOCAL:
        return local && c->mode != CAPTURE_RELAXED;
    default:
        return false;
    }
}

int sd_capture_refuses(void) {
    int status = SD_OK;
    for (struct capture *c = captures; c; c = c->next)
        if (forbids(c)) {
            c->invalid = true;
            status = SD_CAPTURE_UNSUPPORTED;
        }
    return status;
}

static int invalidate(struct capture *c, int status) {
    c->invalid = true;
    return status;
}

/* The legacy stream would wait for a capturing stream, which it cannot. */
static int refuses_legacy(struct device *device) {
    int status = SD_OK;
    for (struct stream *s = device->legacy->next; s; s = s->next)
        if (s->capture && !(s->flags & 1))
            status = invalidate(s->capture, SD_CAPTURE_IMPLICIT);
    return status;
}

int sd_capture_refuses_wait(struct stream *stream) {
    if (stream->capture)
        return stream->capture->invalid ? SD_CAPTURE_INVALIDATED
                                        : invalidate(stream->capture, SD_CAPTURE_UNSUPPORTED);
    if (stream == stream->device->legacy) {
        int status = refuses_legacy(stream->device);
        if (status)
            return status;
    }
    return sd_capture_refuses();
}

int sd_capture_refuses_device(struct device *device) {
    int status = sd_capture_refuses();
    for (struct stream *s = device->legacy->next; s; s = s->next)
        if (s->capture && !s->capture->invalid)
            status = invalidate(s->capture, SD_CAPTURE_UNSUPPORTED);
    return status;
}

/* ---- leaves: the nodes that the next one comes after ---------------------------------------- */

static void set_leaf(struct graph_node ***leaf, size_t *count, struct graph_node *const *nodes,
                     size_t n) {
    struct graph_node **copy = n ? malloc(n * sizeof *copy) : NULL;
    if (n && !copy)
        abort();
    if (n)
        memcpy(copy, nodes, n * sizeof *copy);
    free(*leaf);
    *leaf = copy;
    *count = n;
}

static void add_leaf(struct stream *s, struct graph_node *const *nodes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        while (at < s->leaf_count && s->leaf[at] != nodes[i])
            at++;
        if (at < s->leaf_count)
            continue;
        s->leaf = realloc(s->leaf, (s->leaf_count + 1) * sizeof *s->leaf);
        if (!s->leaf)
            abort();
        s->leaf[s->leaf_count++] = nodes[i];
    }
}

int sd_capture_set_leaf(struct stream *s, struct graph_node *const *leaf, size_t count, bool add) {
    if (!s->capture)
        return SD_INVALID_VALUE;
    if (s->capture->invalid)
        return SD_CAPTURE_INVALIDATED;
    for (size_t i = 0; i < count; i++) {
        struct graph_node *n = sd_handle(leaf[i], HANDLE_GRAPH_NODE);
        if (!n || n->graph != s->capture->graph)
            return SD_INVALID_VALUE;
    }
    if (add)
        add_leaf(s, leaf, count);
    else
        set_leaf(&s->leaf, &s->leaf_count, leaf, count);
    return SD_OK;
}

/* ---- work ----------------------------------------------------------------------------------- */

static int type_of(const struct work *work) {
    switch (work->kind) {
    case WORK_KERNEL:
        return NODE_KERNEL;
    case WORK_COPY:
        return NODE_COPY;
    case WORK_SET:
        return NODE_SET;
    case WORK_HOST:
    case WORK_CALLBACK:
        return NODE_HOST;
    case WORK_RECORD:
        return NODE_EVENT_RECORD;
    case WORK_WAIT:
        return NODE_EVENT_WAIT;
    case WORK_EMPTY:
        break;
    }
    return NODE_EMPTY;
}

static int capture_work(struct stream *s, struct work work, int type, struct graph_node **node) {
    if (s->capture->invalid)
        return SD_CAPTURE_INVALIDATED;
    *node = sd_graph_add(s->capture->graph, work, type, s->leaf, s->leaf_count);
    set_leaf(&s->leaf, &s->leaf_count, node, 1);
    return SD_OK;
}

int sd_submit_node(struct stream *s, struct work work, int type, struct graph_node **node) {
    *node = NULL;
    int status = SD_OK;
    if (s->capture)
        status = capture_work(s, work, type, node);
    else if (s == s->device->legacy && (status = refuses_legacy(s->device)) == SD_OK)
        sd_stream_push(s, work);
    else if (s != s->device->legacy)
        sd_stream_push(s, work);
    if (status)
        sd_work_clear(&work);
    return status;
}

int sd_submit(struct stream *s, struct work work, bool wait, bool synchronous) {
    struct graph_node *node;
    if (synchronous) {
        int status = sd_capture_refuses_wait(s);
        if (status) {
            sd_work_clear(&work);
            return status;
        }
    }
    if (!wait || s->capture) {
        /* A graph runs later, when pageable memory may be gone. */
        if (s->capture && work.kind == WORK_COPY && wait)
            work.copy.foreign_dst = work.copy.foreign_src = true;
        return sd_submit_node(s, work, type_of(&work), &node);
    }
    if (s == s->device->legacy) {
        int status = refuses_legacy(s->device);
        if (status) {
            sd_work_clear(&work);
            return status;
        }
    }
    sd_stream_push_and_wait(s, work);
    return SD_OK;
}

/* ---- begin and end -------------------------------------------------------------------------- */

int sd_capture_begin(struct stream *s, int mode, struct graph *graph,
                     struct graph_node *const *leaf, size_t leaf_count) {
    if (mode < CAPTURE_GLOBAL || mode > CAPTURE_RELAXED)
        return SD_INVALID_VALUE;
    if (s == s->device->legacy)
        return SD_CAPTURE_UNSUPPORTED;
    if (s->capture)
        return invalidate(s->capture, SD_ILLEGAL_STATE);
    struct capture *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->id = ++last_id;
    c->graph = graph ? graph : sd_graph_new();
    c->own_graph = !graph;
    c->origin = s;
    c->mode = mode;
    c->tid = self();
    c->next = captures;
    captures = c;
    s->capture = c;
    set_leaf(&s->leaf, &s->leaf_count, leaf, leaf_count);
    return SD_OK;
}

/* Whether all that the other streams captured comes before the origin's next work. */
static bool all_joined(const struct capture *c) {
    const struct stream *origin = c->origin;
    for (int i = 0; i < standin_device_count(); i++) {
        struct device *d = sd_device(i);
        for (struct stream *s = d->legacy ? d->legacy->next : NULL; s; s = s->next)
            if (s != origin && s->capture == c &&
                !sd_graph_reaches(c->graph, s->leaf, s->leaf_count, origin->leaf,
                                  origin->leaf_count))
                return false;
    }
    return true;
}

static void forget(struct capture *c) {
    for (int i = 0; i < standin_device_count(); i++) {
        struct device *d = sd_device(i);
        for (struct stream *s = d->legacy ? d->legacy->next : NULL; s; s = s->next)
            if (s->capture == c) {
                s->capture = NULL;
                set_leaf(&s->leaf, &s->leaf_count, NULL, 0);
            }
    }
    struct capture **link = &captures;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    free(c);
}

int sd_capture_end(struct stream *s, struct graph **graph) {
    struct capture *c = s->capture;
    *graph = NULL;
    if (!c)
        return SD_ILLEGAL_STATE;
    if (c->mode != CAPTURE_RELAXED && c->tid != self())
        return invalidate(c, SD_CAPTURE_WRONG_THREAD);
    if (c->origin != s)
        return invalidate(c, SD_CAPTURE_UNMATCHED);
    int status = c->invalid ? SD_CAPTURE_INVALIDATED : SD_OK;
    if (!status && !all_joined(c))
        status = SD_CAPTURE_UNJOINED;
    if (!status)
        *graph = c->graph;
    else if (c->own_graph)
        sd_graph_delete(c->graph);
    forget(c);
    return status;
}

void sd_capture_lost_stream(struct stream *s) {
    struct capture *c = s->capture;
    if (!c)
        return;
    c->invalid = true;
    if (c->origin == s) { /* nothing can end it any more */
        if (c->own_graph)
            sd_graph_delete(c->graph);
        forget(c);
    }
}

/* ---- events --------------------------------------------------------------------------------- */

int sd_capture_refuses_event(const struct event *e) {
    struct capture *c = e->capture_id ? by_id(e->capture_id) : NULL;
    return c ? invalidate(c, SD_CAPTURED_EVENT) : sd_capture_refuses();
}

int sd_event_record(struct event *e, struct stream *s, unsigned flags) {
    if (s->capture && !(flags & 1)) {
        if (s->capture->invalid)
            return SD_CAPTURE_INVALIDATED;
        sd_event_set_marker(e, NULL);
        e->capture_id = s->capture->id;
        set_leaf(&e->leaf, &e->leaf_count, s->leaf, s->leaf_count);
        return SD_OK;
    }
    struct marker *m = s->capture ? NULL : sd_marker_new();
    struct work work = {.kind = WORK_RECORD, .event = {s->capture ? e : NULL, m}};
    if (m)
        sd_marker_hold(m); /* the work's own */
    int status = sd_submit(s, work, false, false);
    if (!status && m) {
        sd_event_set_marker(e, m);
        if (e->shared)
            sd_ipc_event_record(e->shared, m);
    }
    if (m)
        sd_marker_drop(m);
    return status;
}

static int wait_captured(struct stream *s, struct event *e) {
    struct capture *c = by_id(e->capture_id);
    if (c->invalid)
        return SD_CAPTURE_INVALIDATED;
    if (s->capture && s->capture != c) {
        s->capture->invalid = true;
        return invalidate(c, SD_CAPTURE_MERGE);
    }
    if (s == s->device->legacy)
        return invalidate(c, SD_CAPTURE_IMPLICIT);
    s->capture = c;
    add_leaf(s, e->leaf, e->leaf_count);
    return SD_OK;
}

int sd_stream_wait_event(struct stream *s, struct event *e, unsigned flags) {
    if (e->capture_id && by_id(e->capture_id))
        return wait_captured(s, e);
    if (s->capture) {
        if (s->capture->invalid)
            return SD_CAPTURE_INVALIDATED;
        if (!(flags & 1))
            return invalidate(s->capture, SD_CAPTURE_ISOLATION);
        return sd_submit(s, (struct work){.kind = WORK_WAIT, .event = {e, NULL}}, false, false);
    }
    if (e->shared && !sd_event_done(e) &&
        !(e->marker && e->marker->ticket == e->shared->recorded)) {
        /* Another process recorded it: the host waits in the stream's place. */
        sd_event_wait(e);
        return SD_OK;
    }
    if (!e->marker) /* never recorded: nothing to wait for */
        return SD_OK;
    sd_marker_hold(e->marker);
    sd_tell_wait(WAIT_STREAM_EVENT, s->device->ordinal, s->number, sd_wait_start());
    return sd_submit(s, (struct work){.kind = WORK_WAIT, .event = {NULL, e->marker}}, false, false);
}
