/*
 * cudart_graph_memory.c - memory that graphs allocate, as the runtime's functions. See cudart.h and
 * graph_memory.h.
 */
#include "cudart.h"

#include <string.h>

#include "cudart_graph.h"
#include "graph_memory.h"
#include "memory.h"

static struct graph_node *add(cudaGraphNode_t *out, struct graph *g, int type,
                              const cudaGraphNode_t *after, size_t count, uint64_t memory) {
    struct graph_node *n = sd_graph_add(g, (struct work){.kind = WORK_EMPTY}, type,
                                        (struct graph_node *const *)after, count);
    n->memory = memory;
    *out = (cudaGraphNode_t)n;
    return n;
}

int sd_node_add_alloc(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                      size_t count, const struct cudaMemPoolProps *props, size_t size, void **ptr) {
    struct graph *g;
    struct device *device;
    if ((int)props->allocType != 1 || (int)props->handleTypes != 0 || size == 0 ||
        props->location.type != cudaMemLocationTypeDevice)
        return SD_INVALID_VALUE;
    int status = sd_node_begin(out, graph, after, count, &g);
    if (status)
        return status;
    status = sd_device_context(props->location.id, &device);
    if (status)
        return sd_end_with(status);
    struct memory *m = sd_graph_memory_add(g->memory, device, size);
    if (!m)
        return sd_end_with(SD_OUT_OF_MEMORY);
    *ptr = sd_memory_address(m);
    add(out, g, NODE_MEM_ALLOC, after, count, m->node.key);
    return sd_end_with(SD_OK);
}

static int add_alloc(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                     size_t count, struct cudaMemAllocNodeParams *p) {
    if (!p)
        return SD_INVALID_VALUE;
    return sd_node_add_alloc(out, graph, after, count, &p->poolProps, p->bytesize, &p->dptr);
}

CUDART(cudaGraphAddMemAllocNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        size_t numDependencies, struct cudaMemAllocNodeParams *nodeParams),
       (pGraphNode, graph, pDependencies, numDependencies, nodeParams)) {
    int status = ATTEMPT(add_alloc(pGraphNode, graph, pDependencies, numDependencies, nodeParams));
    PUT("graph", (uintptr_t)graph);
    PUT("ptr", status ? 0 : (uintptr_t)nodeParams->dptr);
    PUT("size", nodeParams ? nodeParams->bytesize : 0);
    PUT_INT("device", nodeParams ? nodeParams->poolProps.location.id : 0);
    standin_put_text(call, "memory", "graph");
    return status;
}

int sd_node_add_free(cudaGraphNode_t *out, cudaGraph_t graph, const cudaGraphNode_t *after,
                     size_t count, void *ptr) {
    struct graph *g;
    int status = sd_node_begin(out, graph, after, count, &g);
    if (status)
        return status;
    struct memory *m = sd_memory_exact(ptr);
    status = m ? sd_graph_memory_release(g->memory, m) : SD_INVALID_VALUE;
    if (!status)
        add(out, g, NODE_MEM_FREE, after, count, m->node.key);
    return sd_end_with(status);
}

CUDART(cudaGraphAddMemFreeNode,
       (cudaGraphNode_t * pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies,
        size_t numDependencies, void *dptr),
       (pGraphNode, graph, pDependencies, numDependencies, dptr)) {
    int status = ATTEMPT(sd_node_add_free(pGraphNode, graph, pDependencies, numDependencies, dptr));
    PUT("graph", (uintptr_t)graph);
    PUT("ptr", (uintptr_t)dptr);
    PUT_DEVICE();
    if (!status)
        standin_put_text(call, "memory", "graph");
    return status;
}

/* ---- looking at them ------------------------------------------------------------------------ */

/* The address of a memory node, and its memory as long as that is there. */
static int memory_of(cudaGraphNode_t node, int type, void **out, uint64_t *size, int *device) {
    struct graph_node *n;
    int status = sd_graph_begin(node, HANDLE_GRAPH_NODE, &n);
    if (status)
        return status;
    if (n->type != type)
        return sd_end_with(SD_INVALID_VALUE);
    *out = (void *)(uintptr_t)n->memory;
    const struct memory *m = sd_memory_exact(*out);
    *size = m ? m->size : 0;
    *device = m ? m->device : 0;
    return sd_end_with(SD_OK);
}

static int alloc_params(cudaGraphNode_t node, struct cudaMemAllocNodeParams *out) {
    void *ptr;
    uint64_t size;
    int device;
    if (!out)
        return SD_INVALID_VALUE;
    int status = memory_of(node, NODE_MEM_ALLOC, &ptr, &size, &device);
    if (status)
        return status;
    *out = (struct cudaMemAllocNodeParams){
        .poolProps = {.allocType = (enum cudaMemAllocationType)1,
                      .location = {.type = cudaMemLocationTypeDevice, .id = device}},
        .bytesize = size,
        .dptr = ptr};
    return SD_OK;
}

CUDART(cudaGraphMemAllocNodeGetParams,
       (cudaGraphNode_t node, struct cudaMemAllocNodeParams *params_out), (node, params_out)) {
    return ATTEMPT(alloc_params(node, params_out));
}

static int free_params(cudaGraphNode_t node, void *out) {
    void *ptr;
    uint64_t size;
    int device;
    if (!out)
        return SD_INVALID_VALUE;
    int status = memory_of(node, NODE_MEM_FREE, &ptr, &size, &device);
    if (!status)
        memcpy(out, &ptr, sizeof ptr);
    return status;
}

CUDART(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void *dptr_out), (node, dptr_out)) {
    return ATTEMPT(free_params(node, dptr_out));
}

/* ---- the device's account of them ----------------------------------------------------------- */

/* A device of a call, with the lock held on status 0. */
static int begin_device(int ordinal, struct device **out) {
    int status = sd_begin();
    if (status)
        return status;
    status = sd_device_context(ordinal, out);
    return status ? sd_end_with(status) : SD_OK;
}

static int get_attribute(int ordinal, int number, void *value) {
    struct device *device;
    int status = begin_device(ordinal, &device);
    if (status)
        return status;
    const uint64_t *size = sd_graph_memory_attribute(device, number);
    if (!size || !value)
        return sd_end_with(SD_INVALID_VALUE);
    memcpy(value, size, sizeof *size);
    return sd_end_with(SD_OK);
}

CUDART(cudaDeviceGetGraphMemAttribute,
       (int device, enum cudaGraphMemAttributeType attr, void *value), (device, attr, value)) {
    return ATTEMPT(get_attribute(device, (int)attr, value));
}

/* A high-water mark can only be reset. */
static int set_attribute(int ordinal, int number, const void *value) {
    struct device *device;
    uint64_t wanted = 1;
    int status = begin_device(ordinal, &device);
    if (status)
        return status;
    uint64_t *high = sd_graph_memory_attribute(device, number);
    if (value)
        memcpy(&wanted, value, sizeof wanted);
    if (!high || number % 2 == 0 || wanted != 0)
        return sd_end_with(SD_INVALID_VALUE);
    *high = *sd_graph_memory_attribute(device, number - 1);
    return sd_end_with(SD_OK);
}

CUDART(cudaDeviceSetGraphMemAttribute,
       (int device, enum cudaGraphMemAttributeType attr, void *value), (device, attr, value)) {
    return ATTEMPT(set_attribute(device, (int)attr, value));
}

static int trim(int ordinal) {
    struct device *device;
    int status = begin_device(ordinal, &device);
    if (status)
        return status;
    sd_graph_memory_trim(device);
    return sd_end_with(SD_OK);
}

CUDART(cudaDeviceGraphMemTrim, (int device), (device)) {
    int status = ATTEMPT(trim(device));
    PUT_INT("device", device);
    return status;
}
