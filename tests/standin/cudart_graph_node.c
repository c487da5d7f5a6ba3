/*
 * cudart_graph_node.c - graph nodes added by hand, as the runtime's functions. See cudart.h and
 * graph.h.
 */
#include "cudart.h"

#include "cudart_copy.h"
#include "cudart_graph.h"
#include "kernel.h"
#include "memory.h"
#include "stream.h"
#include "tell.h"

/* ---- nodes by hand -------------------------------------------------------------------------- */

int sd_node_begin(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                  size_t count, struct graph **g) {
    if (!out || (count && !after))
        return SD_INVALID_VALUE;
    int status = sd_graph_begin(graph, HANDLE_GRAPH, g);
    for (size_t i = 0; i < count && !status; i++) {
        struct graph_node *n = sd_handle(after[i], HANDLE_GRAPH_NODE);
        if (!n || n->graph != *g)
            status = sd_end_with(SD_INVALID_VALUE);
    }
    return status;
}

static int add(cudaGraphNode_t *out, struct graph *g, struct work work, int type,
               const cudaGraphNode_t *after, size_t count) {
    *out = (cudaGraphNode_t)sd_graph_add(g, work, type, (struct graph_node *const *)after, count);
    return sd_end_with(SD_OK);
}

static int add_empty(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                     size_t count) {
    struct graph *g;
    int status = sd_node_begin(out, graph, after, count, &g);
    if (status)
        return status;
    return add(out, g, (struct work){.kind = WORK_EMPTY}, NODE_EMPTY, after, count);
}

CUDART(cudaGraphAddEmptyNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        size_t numDependencies),
       (pGraphNode, graph, pDependencies, numDependencies)) {
    return ATTEMPT(add_empty(pGraphNode, graph, pDependencies, numDependencies));
}

static int add_kernel(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                      size_t count, const struct cudaKernelNodeParams *p) {
    struct graph *g;
    if (!p)
        return SD_INVALID_VALUE;
    int status = sd_node_begin(out, graph, after, count, &g);
    if (status)
        return status;
    struct launch l = {.function = p->func,
                       .grid = {p->gridDim.x, p->gridDim.y, p->gridDim.z},
                       .block = {p->blockDim.x, p->blockDim.y, p->blockDim.z},
                       .shared = p->sharedMemBytes};
    struct kernel *k = sd_kernel(p->func);
    status = k ? sd_launch_check(&l, k) : SD_INVALID_FUNCTION;
    if (status)
        return sd_end_with(status);
    struct graph_node *n = sd_graph_add(g, sd_kernel_work(&l, k), NODE_KERNEL,
                                        (struct graph_node *const *)after, count);
    n->shape = (struct launch_shape){p->func,
                                     {l.grid[0], l.grid[1], l.grid[2]},
                                     {l.block[0], l.block[1], l.block[2]},
                                     p->sharedMemBytes};
    *out = (cudaGraphNode_t)n;
    return sd_end_with(SD_OK);
}

CUDART(cudaGraphAddKernelNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        size_t numDependencies, const struct cudaKernelNodeParams *pNodeParams),
       (pGraphNode, graph, pDependencies, numDependencies, pNodeParams)) {
    return ATTEMPT(add_kernel(pGraphNode, graph, pDependencies, numDependencies, pNodeParams));
}

static int add_copy_1d(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                       size_t count, void *dst, const void *src, size_t bytes, int kind) {
    struct graph *g;
    struct span to, from;
    int status = sd_node_begin(out, graph, after, count, &g);
    if (status)
        return status;
    if (kind < COPY_H2H || kind > COPY_DEFAULT)
        return sd_end_with(SD_INVALID_DIRECTION);
    if (!bytes || !dst || !src || !sd_memory_span(dst, bytes, &to) ||
        !sd_memory_span(src, bytes, &from))
        return sd_end_with(SD_INVALID_VALUE);
    struct work work = {.kind = WORK_COPY,
                        .duration_ns = sd_copy_ns(LINK_PINNED, bytes),
                        .copy = {.dst = {to.view, bytes, bytes},
                                 .src = {from.view, bytes, bytes},
                                 .width = bytes,
                                 .height = 1,
                                 .depth = 1,
                                 .foreign_dst = to.kind <= STANDIN_REGISTERED,
                                 .foreign_src = from.kind <= STANDIN_REGISTERED}};
    sd_copy_tell(&work, kind, &to, &from);
    return add(out, g, work, NODE_COPY, after, count);
}

CUDART(cudaGraphAddMemcpyNode1D,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        size_t numDependencies, void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
       (pGraphNode, graph, pDependencies, numDependencies, dst, src, count, kind)) {
    return ATTEMPT(
        add_copy_1d(pGraphNode, graph, pDependencies, numDependencies, dst, src, count, (int)kind));
}

static int add_copy(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                    size_t count, const struct cudaMemcpy3DParms *p) {
    struct graph *g;
    struct work work;
    if (!p)
        return SD_INVALID_VALUE;
    int status = sd_node_begin(out, graph, after, count, &g);
    if (status)
        return status;
    status = sd_copy_3d_work(p, &work);
    if (!status && work.kind != WORK_COPY)
        status = SD_INVALID_VALUE;
    return status ? sd_end_with(status) : add(out, g, work, NODE_COPY, after, count);
}

CUDART(cudaGraphAddMemcpyNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        size_t numDependencies, const struct cudaMemcpy3DParms *pCopyParams),
       (pGraphNode, graph, pDependencies, numDependencies, pCopyParams)) {
    return ATTEMPT(add_copy(pGraphNode, graph, pDependencies, numDependencies, pCopyParams));
}

static int add_set(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                   size_t count, const struct cudaMemsetParams *p) {
    struct graph *g;
    struct span to;
    if (!p || (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4) || !p->height)
        return SD_INVALID_VALUE;
    int status = sd_node_begin(out, graph, after, count, &g);
    if (status)
        return status;
    uint64_t width = p->width * p->elementSize;
    uint64_t bytes = (p->height - 1) * p->pitch + width;
    if (!p->dst || !bytes || !sd_memory_span(p->dst, bytes, &to) || to.kind == STANDIN_PAGEABLE)
        return sd_end_with(SD_INVALID_VALUE);
    struct work work = {.kind = WORK_SET,
                        .duration_ns = sd_copy_ns(LINK_DEVICE, bytes),
                        .set = {.dst = {to.view, p->pitch, 0},
                                .width = width,
                                .height = p->height,
                                .depth = 1,
                                .value = p->value,
                                .element = p->elementSize,
                                .dst_kind = (uint8_t)sd_tap_memory(to.kind)}};
    return add(out, g, work, NODE_SET, after, count);
}

CUDART(cudaGraphAddMemsetNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        size_t numDependencies, const struct cudaMemsetParams *pMemsetParams),
       (pGraphNode, graph, pDependencies, numDependencies, pMemsetParams)) {
    return ATTEMPT(add_set(pGraphNode, graph, pDependencies, numDependencies, pMemsetParams));
}

static int add_host(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                    size_t count, const struct cudaHostNodeParams *p) {
    struct graph *g;
    if (!p || !p->fn)
        return SD_INVALID_VALUE;
    int status = sd_node_begin(out, graph, after, count, &g);
    if (status)
        return status;
    return add(out, g, (struct work){.kind = WORK_HOST, .host = {p->fn, p->userData}}, NODE_HOST,
               after, count);
}

CUDART(cudaGraphAddHostNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        size_t numDependencies, const struct cudaHostNodeParams *pNodeParams),
       (pGraphNode, graph, pDependencies, numDependencies, pNodeParams)) {
    return ATTEMPT(add_host(pGraphNode, graph, pDependencies, numDependencies, pNodeParams));
}

/* ---- any of them ---------------------------------------------------------------------------- */

static int add_any(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                   size_t count, struct cudaGraphNodeParams *p) {
    switch (p ? (int)p->type : -1) {
    case NODE_KERNEL: {
        struct cudaKernelNodeParams kernel = {
            .func = p->kernel.func,
            .gridDim = p->kernel.gridDim,
            .blockDim = p->kernel.blockDim,
            .sharedMemBytes = p->kernel.sharedMemBytes,
            .kernelParams = p->kernel.kernelParams,
            .extra = p->kernel.extra,
        };
        return add_kernel(out, graph, after, count, &kernel);
    }
    case NODE_COPY:
        return add_copy(out, graph, after, count, &p->memcpy.copyParams);
    case NODE_SET: {
        struct cudaMemsetParams set = {.dst = p->memset.dst,
                                       .pitch = p->memset.pitch,
                                       .value = p->memset.value,
                                       .elementSize = p->memset.elementSize,
                                       .width = p->memset.width,
                                       .height = p->memset.height};
        return add_set(out, graph, after, count, &set);
    }
    case NODE_HOST: {
        struct cudaHostNodeParams host = {.fn = p->host.fn, .userData = p->host.userData};
        return add_host(out, graph, after, count, &host);
    }
    case NODE_EMPTY:
        return add_empty(out, graph, after, count);
    case NODE_MEM_ALLOC:
        return sd_node_add_alloc(out, graph, after, count, &p->alloc.poolProps, p->alloc.bytesize,
                                 &p->alloc.dptr);
    case NODE_MEM_FREE:
        return sd_node_add_free(out, graph, after, count, p->free.dptr);
    case -1:
        return SD_INVALID_VALUE;
    default:
        return SD_NOT_SUPPORTED;
    }
}

/* `ptr` and `size` of memory nodes: a size of 0 is a free. */
static void put_any(struct standin_call *call, int status, const struct cudaGraphNodeParams *p) {
    bool alloc = p && (int)p->type == NODE_MEM_ALLOC, freed = p && (int)p->type == NODE_MEM_FREE;
    PUT("type", p ? (int)p->type : 0);
    PUT("ptr", status ? 0 : alloc ? (uintptr_t)p->alloc.dptr : freed ? (uintptr_t)p->free.dptr : 0);
    PUT("size", alloc ? p->alloc.bytesize : 0);
    if (alloc || freed)
        standin_put_text(call, "memory", "graph");
    PUT_INT("device", alloc ? p->alloc.poolProps.location.id : sd_current_ordinal());
}

#define ADD_NODE(name, edges, edge_argument)                                                       \
    CUDART(name,                                                                                   \
           (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, \
            UNPACK edges size_t numDependencies, struct cudaGraphNodeParams *nodeParams),          \
           (pGraphNode, graph, pDependencies, UNPACK edge_argument numDependencies, nodeParams)) { \
        int status =                                                                               \
            ATTEMPT(add_any(pGraphNode, graph, pDependencies, numDependencies, nodeParams));       \
        PUT("graph", (uintptr_t)graph);                                                            \
        put_any(call, status, nodeParams);                                                         \
        return status;                                                                             \
    }

#if CUDA_MAJOR >= 13
ADD_NODE(cudaGraphAddNode, (__attribute__((unused)) const cudaGraphEdgeData *edges, ), (edges, ))
#else
ADD_NODE(cudaGraphAddNode, (), ())
ADD_NODE(cudaGraphAddNode_v2, (__attribute__((unused)) const cudaGraphEdgeData *edges, ), (edges, ))
#endif
