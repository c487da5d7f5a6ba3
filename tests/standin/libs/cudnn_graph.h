/*
 * cudnn_graph.h - the descriptors of cuDNN's graph API, as the stand-in keeps them: nodes with
 * typed attributes. A node that others name lives on when its program destroys it: plans keep
 * their engines, graphs and tensors.
 */
#ifndef STANDIN_CUDNN_GRAPH_H
#define STANDIN_CUDNN_GRAPH_H

#include <stdatomic.h>

#include "cudnn_standin.h"

struct dn_attribute {
    struct dn_attribute *next;
    int name, type;
    int64_t count;
    void *values; /* as many elements of `type` as `count` says */
};

struct dn_node {
    int magic;
    int type; /* cudnnBackendDescriptorType_t */
    atomic_int references;
    bool finalized;
    struct dn_attribute *attributes;
};

/* NULL if the pointer is no live node. */
struct dn_node *dn_node_of(cudnnBackendDescriptor_t descriptor);

/* A new node with one reference, or NULL. */
struct dn_node *dn_node_create(int type);
void dn_node_release(struct dn_node *node);

/* Gives an attribute its values (copied; nodes are referenced). Status. */
int dn_node_set(struct dn_node *node, int name, int type, int64_t count, const void *values);

/* The attribute, or NULL. */
const struct dn_attribute *dn_node_find(const struct dn_node *node, int name);

/* The first value of an attribute: NULL, or `otherwise`, where it is not set or another type. */
struct dn_node *dn_node_link(const struct dn_node *node, int name);
int64_t dn_node_int64(const struct dn_node *node, int name, int64_t otherwise);

/* Turns `node` into a finalized likeness of `model`. */
int dn_node_become(struct dn_node *node, const struct dn_node *model);

/* What a tensor node describes. */
void dn_node_shape(const struct dn_node *tensor, struct dn_shape *shape);

/* Calls `visit` for each tensor of each operation of a graph, operation by operation. */
void dn_graph_visit(const struct dn_node *graph,
                    void (*visit)(void *state, int operation, const char *role,
                                  const struct dn_node *tensor),
                    void *state);

/* Checks a node's attributes and adds the derived ones. */
int dn_node_finalize(struct dn_node *node);

/* The heuristics' answer: engine configurations, best first, into nodes that the caller made. */
int dn_heuristics(const struct dn_node *heuristics, int64_t wanted, int64_t *count,
                  cudnnBackendDescriptor_t *out);

#endif
