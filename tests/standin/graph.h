/*
 * graph.h - graphs: nodes with work, made by capture or by hand, launched as a whole.
 *
 * Nodes are kept in the order in which they were added, which always respects dependencies; a
 * launch puts them on its stream in that order.
 *
 * Callers hold the core lock.
 */
#ifndef STANDIN_GRAPH_H
#define STANDIN_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "work.h"

/* cudaGraphNodeType */
enum node_type {
    NODE_KERNEL = 0,
    NODE_COPY = 1,
    NODE_SET = 2,
    NODE_HOST = 3,
    NODE_GRAPH = 4,
    NODE_EMPTY = 5,
    NODE_EVENT_WAIT = 6,
    NODE_EVENT_RECORD = 7,
    NODE_MEM_ALLOC = 10,
    NODE_MEM_FREE = 11,
};

/* What cudaGraphKernelNodeGetParams tells. */
struct launch_shape {
    const void *function;
    unsigned grid[3], block[3];
    unsigned shared;
};

struct graph_node {
    struct graph *graph;
    int type;
    struct work work;
    struct launch_shape shape; /* kernel nodes */
    struct graph_node **after; /* dependencies */
    size_t after_count;
    size_t index;    /* in the graph */
    uint64_t memory; /* of memory nodes: the address */
    bool mark;       /* scratch of sd_graph_reaches() */
};

struct graph_memory;

struct graph {
    struct graph_node **node;
    size_t count;
    struct graph_memory *memory;
};

struct graph_exec {
    uint32_t number; /* 1 for the process's first */
    struct work *work;
    size_t count;
    uint64_t flags;
    struct graph_memory *memory;
};

struct graph *sd_graph_new(void);
void sd_graph_delete(struct graph *graph);
/* Takes over the work's owned parts. */
struct graph_node *sd_graph_add(struct graph *graph, struct work work, int type,
                                struct graph_node *const *after, size_t after_count);
void sd_graph_depend(struct graph_node *node, struct graph_node *after);
/* Whether each of `nodes` is one of `from` or comes before one of them. */
bool sd_graph_reaches(struct graph *graph, struct graph_node *const *nodes, size_t count,
                      struct graph_node *const *from, size_t from_count);
struct graph *sd_graph_clone(const struct graph *graph);
/* Whether nodes of it allocate or free memory: such a graph cannot be cloned. */
bool sd_graph_has_memory(const struct graph *graph);

/* NULL for a graph with memory nodes that is instantiated already. */
struct graph_exec *sd_graph_instantiate(const struct graph *graph, uint64_t flags);
void sd_graph_exec_delete(struct graph_exec *exec);
/* The executable graph takes the shape of another graph. 910 where their nodes differ. */
int sd_graph_exec_update(struct graph_exec *exec, const struct graph *graph);
struct stream;
int sd_graph_launch(struct graph_exec *exec, struct stream *stream);

#endif
