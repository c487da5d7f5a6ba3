/*
 * work.h - one piece of a device's work: what a stream holds in its queue and a graph in its nodes.
 *
 * A work item carries everything it needs (host views, sizes, copies of arguments), so that it
 * can run without the core lock.
 */
#ifndef STANDIN_WORK_H
#define STANDIN_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct marker;
struct event;
struct graph_run;

enum work_kind {
    WORK_KERNEL,
    WORK_COPY,
    WORK_SET,
    WORK_HOST,     /* a host function */
    WORK_CALLBACK, /* cudaStreamAddCallback */
    WORK_RECORD,   /* an event's record: completes a marker */
    WORK_WAIT,     /* waits for a marker */
    WORK_EMPTY,
};

/* A box of bytes: rows of `width` bytes, `height` rows `pitch` apart, `depth` slices `slice`
 * apart. One row has height and depth 1. */
struct box {
    char *at;
    uint64_t pitch, slice;
};

struct work {
    enum work_kind kind;
    uint64_t duration_ns;
    /* For who listens, see tell.h. A graph's nodes have these from their launch. */
    uint32_t correlation; /* of the call that put it on its stream */
    uint32_t graph;       /* number of the executable graph; 0: none */
    uint64_t node;
    struct graph_run *run; /* owned reference, or NULL */
    bool awaited;          /* the call waits for it */
    union {
        struct {
            struct box dst, src;
            uint64_t width, height, depth;
            bool foreign_dst, foreign_src; /* memory that the program may unmap meanwhile */
            /* Kinds as in tap.h; devices -1 for pageable memory. */
            uint8_t number, src_kind, dst_kind;
            int8_t src_device, dst_device;
        } copy;
        struct {
            struct box dst;
            uint64_t width, height, depth; /* width in bytes */
            uint32_t value;
            unsigned element; /* 1, 2 or 4 bytes */
            uint8_t dst_kind; /* as in tap.h */
        } set;
        struct {
            void (*run)(void *data); /* or NULL */
            void *data;              /* owned */
            size_t size;
            const char *name; /* lives as long as the process; NULL: none */
            unsigned grid[3], block[3], shared;
        } kernel;
        struct {
            void (*fn)(void *data);
            void *data;
        } host;
        struct {
            void (*fn)(void *stream, int status, void *data);
            void *stream, *data;
        } callback;
        struct {
            struct event *event;   /* for graph nodes; NULL once it is on a stream */
            struct marker *marker; /* owned reference */
        } event;
    };
};

/* Does it. No lock is held. */
void sd_work_run(struct work *work);
/* A copy with its own owned parts. False when out of host memory. */
bool sd_work_clone(struct work *to, const struct work *from);
/* Frees the owned parts. Lock held. */
void sd_work_clear(struct work *work);
/* A graph's launch has one piece of work less (tell.h). Lock held. */
void sd_graph_run_drop(struct graph_run *run);

/* How long a copy of that many bytes takes. */
enum link { LINK_PAGEABLE, LINK_PINNED, LINK_DEVICE, LINK_PEER };
uint64_t sd_copy_ns(enum link link, uint64_t bytes);
/* How long a kernel takes that moves so many bytes and does so many operations; 0: not known. */
uint64_t sd_kernel_ns(double bytes, double operations);
/* What an elementwise kernel with so many threads moves. */
double sd_threads_bytes(const unsigned grid[3], const unsigned block[3]);

#endif
