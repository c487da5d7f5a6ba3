/*
 * cudart_graph.c - graphs as the runtime's functions: created, instantiated, launched, looked at.
 * See cudart.h and graph.h. Nodes by hand: cudart_graph_node.c.
 */
#include "cudart.h"

#include <stdio.h>

#include "capture.h"
#include "cudart_graph.h"
#include "stream.h"

/* ---- life ----------------------------------------------------------------------------------- */

static int create(cudaGraph_t *out, unsigned flags) {
    if (!out || flags)
        return SD_INVALID_VALUE;
    int status = sd_begin();
    if (status)
        return status;
    *out = (cudaGraph_t)sd_graph_new();
    return sd_end_with(SD_OK);
}

CUDART(cudaGraphCreate, (cudaGraph_t * pGraph, unsigned int flags), (pGraph, flags)) {
    int status = ATTEMPT(create(pGraph, flags));
    PUT_OUT("graph", pGraph);
    return status;
}

static int destroy(cudaGraph_t graph) {
    struct graph *g;
    int status = sd_graph_begin(graph, HANDLE_GRAPH, &g);
    if (status)
        return status;
    sd_graph_delete(g);
    return sd_end_with(SD_OK);
}

CUDART(cudaGraphDestroy, (cudaGraph_t graph), (graph)) {
    int status = ATTEMPT(destroy(graph));
    PUT("graph", (uintptr_t)graph);
    return status;
}

static int clone_graph(cudaGraph_t *out, cudaGraph_t from) {
    struct graph *g;
    if (!out)
        return SD_INVALID_VALUE;
    int status = sd_graph_begin(from, HANDLE_GRAPH, &g);
    if (status)
        return status;
    if (sd_graph_has_memory(g))
        return sd_end_with(SD_NOT_SUPPORTED);
    *out = (cudaGraph_t)sd_graph_clone(g);
    return sd_end_with(SD_OK);
}

CUDART(cudaGraphClone, (cudaGraph_t * pGraphClone, cudaGraph_t originalGraph),
       (pGraphClone, originalGraph)) {
    return ATTEMPT(clone_graph(pGraphClone, originalGraph));
}

static int instantiate(cudaGraphExec_t *out, cudaGraph_t graph, uint64_t flags) {
    struct graph *g;
    if (!out)
        return SD_INVALID_VALUE;
    int status = sd_graph_begin(graph, HANDLE_GRAPH, &g);
    if (status)
        return status;
    struct graph_exec *x = sd_graph_instantiate(g, flags);
    if (x)
        *out = (cudaGraphExec_t)x;
    return sd_end_with(x ? SD_OK : SD_NOT_SUPPORTED);
}

static int put_instance(struct standin_call *call, int status, const cudaGraphExec_t *exec,
                        cudaGraph_t graph) {
    PUT("graph", (uintptr_t)graph);
    PUT_OUT("exec", exec);
    return status;
}

CUDART(cudaGraphInstantiate,
       (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
       (pGraphExec, graph, flags)) {
    int status = ATTEMPT(instantiate(pGraphExec, graph, flags));
    return put_instance(call, status, pGraphExec, graph);
}

CUDART(cudaGraphInstantiateWithFlags,
       (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags),
       (pGraphExec, graph, flags)) {
    int status = ATTEMPT(instantiate(pGraphExec, graph, flags));
    return put_instance(call, status, pGraphExec, graph);
}

CUDART_TWIN(cudaGraphInstantiateWithParams, _ptsz,
            (cudaGraphExec_t * pGraphExec, cudaGraph_t graph,
             cudaGraphInstantiateParams *instantiateParams),
            (pGraphExec, graph, instantiateParams)) {
    int status =
        ATTEMPT(instantiateParams ? instantiate(pGraphExec, graph, instantiateParams->flags)
                                  : SD_INVALID_VALUE);
    if (!status)
        instantiateParams->result_out = cudaGraphInstantiateSuccess;
    return put_instance(call, status, pGraphExec, graph);
}

static int exec_destroy(cudaGraphExec_t exec) {
    struct graph_exec *x;
    int status = sd_graph_begin(exec, HANDLE_GRAPH_EXEC, &x);
    if (status)
        return status;
    sd_graph_exec_delete(x);
    return sd_end_with(SD_OK);
}

CUDART(cudaGraphExecDestroy, (cudaGraphExec_t graphExec), (graphExec)) {
    int status = ATTEMPT(exec_destroy(graphExec));
    PUT("exec", (uintptr_t)graphExec);
    return status;
}

static int exec_flags(cudaGraphExec_t exec, unsigned long long *flags) {
    struct graph_exec *x;
    if (!flags)
        return SD_INVALID_VALUE;
    int status = sd_graph_begin(exec, HANDLE_GRAPH_EXEC, &x);
    if (status)
        return status;
    *flags = x->flags;
    return sd_end_with(SD_OK);
}

CUDART(cudaGraphExecGetFlags, (cudaGraphExec_t graphExec, unsigned long long *flags),
       (graphExec, flags)) {
    return ATTEMPT(exec_flags(graphExec, flags));
}

static int exec_update(cudaGraphExec_t exec, cudaGraph_t graph) {
    struct graph_exec *x;
    int status = sd_graph_begin(exec, HANDLE_GRAPH_EXEC, &x);
    if (status)
        return status;
    struct graph *g = sd_handle(graph, HANDLE_GRAPH);
    return sd_end_with(g ? sd_graph_exec_update(x, g) : SD_INVALID_VALUE);
}

CUDART(cudaGraphExecUpdate,
       (cudaGraphExec_t hGraphExec, cudaGraph_t hGraph, cudaGraphExecUpdateResultInfo *resultInfo),
       (hGraphExec, hGraph, resultInfo)) {
    int status = ATTEMPT(exec_update(hGraphExec, hGraph));
    if (resultInfo)
        *resultInfo = (cudaGraphExecUpdateResultInfo){
            .result = (enum cudaGraphExecUpdateResult)(status ? 1 : 0)};
    return status;
}

static int launch(struct standin_call *call, cudaGraphExec_t exec, cudaStream_t handle) {
    struct device *device;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    struct stream *s = sd_stream(device, handle, call->per_thread);
    struct graph_exec *x = sd_handle(exec, HANDLE_GRAPH_EXEC);
    if (!s || !x)
        return sd_end_with(s ? SD_INVALID_VALUE : SD_INVALID_HANDLE);
    return sd_end_with(sd_graph_launch(x, s));
}

CUDART_TWIN(cudaGraphLaunch, _ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream),
            (graphExec, stream)) {
    int status = ATTEMPT(launch(call, graphExec, stream));
    PUT("graph", (uintptr_t)graphExec);
    PUT("stream", (uintptr_t)stream);
    PUT_DEVICE();
    return status;
}

static int exec_check(cudaGraphExec_t exec) {
    struct graph_exec *x;
    int status = sd_graph_begin(exec, HANDLE_GRAPH_EXEC, &x);
    return status ? status : sd_end_with(SD_OK);
}

CUDART_TWIN(cudaGraphUpload, _ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream),
            (graphExec, stream)) {
    (void)stream;
    return ATTEMPT(exec_check(graphExec));
}

/* ---- looking at graphs ---------------------------------------------------------------------- */

/* The count where `out` is NULL, else as many as there is room for, the rest NULL. */
static void list(struct graph_node *const *from, size_t have, cudaGraphNode_t *out, size_t *count) {
    if (out)
        for (size_t i = 0; i < *count; i++)
            out[i] = i < have ? (cudaGraphNode_t)from[i] : NULL;
    if (!out || *count > have)
        *count = have;
}

static int nodes(cudaGraph_t graph, cudaGraphNode_t *out, size_t *count) {
    struct graph *g;
    if (!count)
        return SD_INVALID_VALUE;
    int status = sd_graph_begin(graph, HANDLE_GRAPH, &g);
    if (status)
        return status;
    list(g->node, g->count, out, count);
    return sd_end_with(SD_OK);
}

CUDART(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodeList, size_t *numNodes),
       (graph, nodeList, numNodes)) {
    return ATTEMPT(nodes(graph, nodeList, numNodes));
}

static int roots(cudaGraph_t graph, cudaGraphNode_t *out, size_t *count) {
    struct graph *g;
    size_t have = 0;
    if (!count)
        return SD_INVALID_VALUE;
    int status = sd_graph_begin(graph, HANDLE_GRAPH, &g);
    if (status)
        return status;
    for (size_t i = 0; i < g->count; i++)
        if (g->node[i]->after_count == 0) {
            if (out && have < *count)
                out[have] = (cudaGraphNode_t)g->node[i];
            have++;
        }
    if (!out || *count > have)
        *count = have;
    return sd_end_with(SD_OK);
}

CUDART(cudaGraphGetRootNodes,
       (cudaGraph_t graph, cudaGraphNode_t *pRootNodes, size_t *pNumRootNodes),
       (graph, pRootNodes, pNumRootNodes)) {
    return ATTEMPT(roots(graph, pRootNodes, pNumRootNodes));
}

static int node_type(cudaGraphNode_t node, enum cudaGraphNodeType *out) {
    struct graph_node *n;
    if (!out)
        return SD_INVALID_VALUE;
    int status = sd_graph_begin(node, HANDLE_GRAPH_NODE, &n);
    if (status)
        return status;
    *out = (enum cudaGraphNodeType)n->type;
    return sd_end_with(SD_OK);
}

CUDART(cudaGraphNodeGetType, (cudaGraphNode_t node, enum cudaGraphNodeType *pType), (node, pType)) {
    return ATTEMPT(node_type(node, pType));
}

static int dependencies(cudaGraphNode_t node, cudaGraphNode_t *out, size_t *count) {
    struct graph_node *n;
    if (!count)
        return SD_INVALID_VALUE;
    int status = sd_graph_begin(node, HANDLE_GRAPH_NODE, &n);
    if (status)
        return status;
    list(n->after, n->after_count, out, count);
    return sd_end_with(SD_OK);
}

static int depend(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                  size_t count) {
    struct graph *g;
    if (count && (!from || !to))
        return SD_INVALID_VALUE;
    int status = sd_graph_begin(graph, HANDLE_GRAPH, &g);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++) {
        struct graph_node *a = sd_handle(from[i], HANDLE_GRAPH_NODE);
        struct graph_node *b = sd_handle(to[i], HANDLE_GRAPH_NODE);
        /* Launches go by the order of addition: an edge against it is not supported. */
        if (!a || !b || a->graph != g || b->graph != g)
            return sd_end_with(SD_INVALID_VALUE);
        if (a->index >= b->index)
            return sd_end_with(SD_NOT_SUPPORTED);
        sd_graph_depend(b, a);
    }
    return sd_end_with(SD_OK);
}

static int edges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *count) {
    struct graph *g;
    size_t have = 0;
    if (!count || !from != !to)
        return SD_INVALID_VALUE;
    int status = sd_graph_begin(graph, HANDLE_GRAPH, &g);
    if (status)
        return status;
    for (size_t i = 0; i < g->count; i++)
        for (size_t j = 0; j < g->node[i]->after_count; j++, have++)
            if (from && have < *count) {
                from[have] = (cudaGraphNode_t)g->node[i]->after[j];
                to[have] = (cudaGraphNode_t)g->node[i];
            }
    if (!from || *count > have)
        *count = have;
    return sd_end_with(SD_OK);
}

#if CUDA_MAJOR >= 13
CUDART(cudaGraphNodeGetDependencies,
       (cudaGraphNode_t node, cudaGraphNode_t *pDependencies, cudaGraphEdgeData *edgeData,
        size_t *pNumDependencies),
       (node, pDependencies, edgeData, pNumDependencies)) {
    (void)edgeData;
    return ATTEMPT(dependencies(node, pDependencies, pNumDependencies));
}

CUDART(cudaGraphAddDependencies,
       (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
        const cudaGraphEdgeData *edgeData, size_t numDependencies),
       (graph, from, to, edgeData, numDependencies)) {
    (void)edgeData;
    return ATTEMPT(depend(graph, from, to, numDependencies));
}

CUDART(cudaGraphGetEdges,
       (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *edgeData,
        size_t *numEdges),
       (graph, from, to, edgeData, numEdges)) {
    (void)edgeData;
    return ATTEMPT(edges(graph, from, to, numEdges));
}
#else
CUDART(cudaGraphNodeGetDependencies,
       (cudaGraphNode_t node, cudaGraphNode_t *pDependencies, size_t *pNumDependencies),
       (node, pDependencies, pNumDependencies)) {
    return ATTEMPT(dependencies(node, pDependencies, pNumDependencies));
}

CUDART(cudaGraphAddDependencies,
       (cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
        size_t numDependencies),
       (graph, from, to, numDependencies)) {
    return ATTEMPT(depend(graph, from, to, numDependencies));
}

CUDART(cudaGraphGetEdges,
       (cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to, size_t *numEdges),
       (graph, from, to, numEdges)) {
    return ATTEMPT(edges(graph, from, to, numEdges));
}
#endif

static int kernel_params(cudaGraphNode_t node, struct cudaKernelNodeParams *out) {
    struct graph_node *n;
    if (!out)
        return SD_INVALID_VALUE;
    int status = sd_graph_begin(node, HANDLE_GRAPH_NODE, &n);
    if (status)
        return status;
    if (n->type != NODE_KERNEL)
        return sd_end_with(SD_INVALID_VALUE);
    const struct launch_shape *s = &n->shape;
    *out = (struct cudaKernelNodeParams){.func = (void *)(uintptr_t)s->function,
                                         .gridDim = {s->grid[0], s->grid[1], s->grid[2]},
                                         .blockDim = {s->block[0], s->block[1], s->block[2]},
                                         .sharedMemBytes = s->shared};
    return sd_end_with(SD_OK);
}

CUDART(cudaGraphKernelNodeGetParams,
       (cudaGraphNode_t node, struct cudaKernelNodeParams *pNodeParams), (node, pNodeParams)) {
    return ATTEMPT(kernel_params(node, pNodeParams));
}

static int draw(cudaGraph_t graph, const char *path) {
    struct graph *g;
    int status = sd_graph_begin(graph, HANDLE_GRAPH, &g);
    if (status)
        return status;
    FILE *out = path ? fopen(path, "w") : NULL;
    if (!out)
        return sd_end_with(SD_INVALID_VALUE);
    fprintf(out, "digraph graph_%p {\n", (void *)g);
    for (size_t i = 0; i < g->count; i++) {
        fprintf(out, "  n%zu [label=\"type %d\"];\n", i, g->node[i]->type);
        for (size_t j = 0; j < g->node[i]->after_count; j++)
            fprintf(out, "  n%zu -> n%zu;\n", g->node[i]->after[j]->index, i);
    }
    fprintf(out, "}\n");
    fclose(out);
    return sd_end_with(SD_OK);
}

CUDART(cudaGraphDebugDotPrint, (cudaGraph_t graph, const char *path, unsigned int flags),
       (graph, path, flags)) {
    (void)flags;
    return ATTEMPT(draw(graph, path));
}
