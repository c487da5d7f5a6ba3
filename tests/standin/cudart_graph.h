/*
 * cudart_graph.h - what the runtime's graph functions share.
 */
#ifndef STANDIN_CUDART_GRAPH_H
#define STANDIN_CUDART_GRAPH_H

#include "cuda_types.h"

#include "device.h"
#include "graph.h"
#include "handles.h"

/* A handle of a type, with the lock held on status 0. */
static inline int sd_graph_begin(const void *handle, enum handle_type type, void *out) {
    int status = sd_begin();
    if (status)
        return status;
    void *object = sd_handle(handle, type);
    *(void **)out = object;
    return object ? SD_OK : sd_end_with(SD_INVALID_VALUE);
}

/* The graph and the dependencies of a new node, with the lock held on status 0. */
int sd_node_begin(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                  size_t count, struct graph **g);

/* Nodes that allocate and free: cudart_graph_memory.c. */
int sd_node_add_alloc(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                      size_t count, const struct cudaMemPoolProps *props, size_t size, void **ptr);
int sd_node_add_free(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                     size_t count, void *ptr);

#endif
