/*
 * cuda_graph.c - the driver's stream capture, graphs and memory pools. See driver.h, capture.h,
 * graph.h and alloc.h. Graphs come of captures only; nodes by hand are the runtime's.
 */
#include "driver.h"

#include "alloc.h"
#include "capture.h"
#include "handles.h"

/* ---- capture -------------------------------------------------------------------------------- */

static int begin_capture(struct standin_call *call, CUstream handle, int mode) {
    struct stream *s;
    int status = sd_driver_begin_stream(call, handle, &s);
    return status ? status : sd_end_with(sd_capture_begin(s, mode, NULL, NULL, 0));
}

DRIVER_LOGGED_TWIN(cuStreamBeginCapture_v2, _ptsz, (CUstream hStream, CUstreamCaptureMode mode),
                   (hStream, mode)) {
    int status = ATTEMPT(begin_capture(call, hStream, (int)mode));
    PUT("stream", (uintptr_t)hStream);
    PUT("mode", mode);
    PUT_DEVICE();
    return status;
}

static int end_capture(struct standin_call *call, CUstream handle, CUgraph *out) {
    struct stream *s;
    struct graph *graph = NULL;
    if (!out)
        return SD_INVALID_VALUE;
    int status = sd_driver_begin_stream(call, handle, &s);
    if (status)
        return status;
    status = sd_capture_end(s, &graph);
    *out = (CUgraph)graph;
    return sd_end_with(status);
}

DRIVER_LOGGED_TWIN(cuStreamEndCapture, _ptsz, (CUstream hStream, CUgraph *phGraph),
                   (hStream, phGraph)) {
    int status = ATTEMPT(end_capture(call, hStream, phGraph));
    PUT("stream", (uintptr_t)hStream);
    PUT("graph", status ? 0 : (uintptr_t)*phGraph);
    PUT_DEVICE();
    return status;
}

/* ---- graphs --------------------------------------------------------------------------------- */

/* The object behind a handle, with the lock held on status 0. */
static int begin_object(const void *handle, enum handle_type type, void *out) {
    int status = sd_begin();
    if (status)
        return status;
    void *object = sd_handle(handle, type);
    *(void **)out = object;
    return object ? SD_OK : sd_end_with(SD_INVALID_VALUE);
}

static int instantiate(CUgraphExec *out, CUgraph graph, uint64_t flags) {
    struct graph *g;
    if (!out)
        return SD_INVALID_VALUE;
    int status = begin_object(graph, HANDLE_GRAPH, &g);
    if (status)
        return status;
    struct graph_exec *x = sd_graph_instantiate(g, flags);
    if (x)
        *out = (CUgraphExec)x;
    return sd_end_with(x ? SD_OK : SD_NOT_SUPPORTED);
}

static int put_instance(struct standin_call *call, int status, const CUgraphExec *exec,
                        CUgraph graph) {
    PUT("graph", (uintptr_t)graph);
    PUT("exec", status ? 0 : (uintptr_t)*exec);
    return status;
}

DRIVER_LOGGED(cuGraphInstantiateWithFlags,
              (CUgraphExec * phGraphExec, CUgraph hGraph, unsigned long long flags),
              (phGraphExec, hGraph, flags)) {
    int status = ATTEMPT(instantiate(phGraphExec, hGraph, flags));
    return put_instance(call, status, phGraphExec, hGraph);
}

DRIVER_LOGGED_TWIN(cuGraphInstantiateWithParams, _ptsz,
                   (CUgraphExec * phGraphExec, CUgraph hGraph,
                    CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams),
                   (phGraphExec, hGraph, instantiateParams)) {
    int status =
        ATTEMPT(instantiateParams ? instantiate(phGraphExec, hGraph, instantiateParams->flags)
                                  : SD_INVALID_VALUE);
    if (!status)
        instantiateParams->result_out = CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return put_instance(call, status, phGraphExec, hGraph);
}

DRIVER_LOGGED(cuGraphInstantiate_v2,
              (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
               size_t bufferSize),
              (phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize)) {
    (void)phErrorNode, (void)logBuffer, (void)bufferSize;
    int status = ATTEMPT(instantiate(phGraphExec, hGraph, 0));
    return put_instance(call, status, phGraphExec, hGraph);
}

static int launch(struct standin_call *call, CUgraphExec exec, CUstream handle) {
    struct stream *s;
    int status = sd_driver_begin_stream(call, handle, &s);
    if (status)
        return status;
    struct graph_exec *x = sd_handle(exec, HANDLE_GRAPH_EXEC);
    return sd_end_with(x ? sd_graph_launch(x, s) : SD_INVALID_VALUE);
}

DRIVER_LOGGED_TWIN(cuGraphLaunch, _ptsz, (CUgraphExec hGraphExec, CUstream hStream),
                   (hGraphExec, hStream)) {
    int status = ATTEMPT(launch(call, hGraphExec, hStream));
    PUT("graph", (uintptr_t)hGraphExec);
    PUT("stream", (uintptr_t)hStream);
    PUT_DEVICE();
    return status;
}

static int destroy_exec(CUgraphExec exec) {
    struct graph_exec *x;
    int status = begin_object(exec, HANDLE_GRAPH_EXEC, &x);
    if (status)
        return status;
    sd_graph_exec_delete(x);
    return sd_end_with(SD_OK);
}

DRIVER_LOGGED(cuGraphExecDestroy, (CUgraphExec hGraphExec), (hGraphExec)) {
    int status = ATTEMPT(destroy_exec(hGraphExec));
    PUT("exec", (uintptr_t)hGraphExec);
    return status;
}

static int destroy_graph(CUgraph graph) {
    struct graph *g;
    int status = begin_object(graph, HANDLE_GRAPH, &g);
    if (status)
        return status;
    sd_graph_delete(g);
    return sd_end_with(SD_OK);
}

DRIVER_LOGGED(cuGraphDestroy, (CUgraph hGraph), (hGraph)) {
    int status = ATTEMPT(destroy_graph(hGraph));
    PUT("graph", (uintptr_t)hGraph);
    return status;
}

/* ---- memory pools --------------------------------------------------------------------------- */

DRIVER_LOGGED(cuDeviceGetDefaultMemPool, (CUmemoryPool * pool_out, CUdevice dev), (pool_out, dev)) {
    return ATTEMPT(pool_out ? sd_mem_pool_of(dev, false, (void **)pool_out) : SD_INVALID_VALUE);
}

DRIVER_LOGGED(cuDeviceGetMemPool, (CUmemoryPool * pool, CUdevice dev), (pool, dev)) {
    return ATTEMPT(pool ? sd_mem_pool_of(dev, true, (void **)pool) : SD_INVALID_VALUE);
}

static int new_pool(CUmemoryPool *out, const CUmemPoolProps *props) {
    if (!out || !props || (int)props->allocType != 1 ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return SD_INVALID_VALUE;
    return sd_mem_pool_make(props->location.id, (void **)out);
}

DRIVER_LOGGED(cuMemPoolCreate, (CUmemoryPool * pool, const CUmemPoolProps *poolProps),
              (pool, poolProps)) {
    int status = ATTEMPT(new_pool(pool, poolProps));
    PUT("pool", status ? 0 : (uintptr_t)*pool);
    standin_put_signed(call, "device",
                       poolProps && poolProps->location.type == CU_MEM_LOCATION_TYPE_DEVICE
                           ? poolProps->location.id
                           : 0);
    return status;
}

DRIVER_LOGGED(cuMemPoolDestroy, (CUmemoryPool pool), (pool)) {
    int status = ATTEMPT(sd_mem_pool_destroy(pool));
    PUT("pool", (uintptr_t)pool);
    return status;
}

DRIVER_LOGGED(cuMemPoolTrimTo, (CUmemoryPool pool, size_t minBytesToKeep), (pool, minBytesToKeep)) {
    int status = ATTEMPT(sd_mem_pool_trim(pool, minBytesToKeep));
    PUT("pool", (uintptr_t)pool);
    PUT("size", minBytesToKeep);
    return status;
}

DRIVER_LOGGED(cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attr, void *value),
              (pool, attr, value)) {
    int status = ATTEMPT(sd_mem_pool_set(pool, (int)attr, value));
    PUT("pool", (uintptr_t)pool);
    PUT("attr", attr);
    return status;
}

DRIVER_LOGGED(cuMemPoolGetAttribute, (CUmemoryPool pool, CUmemPool_attribute attr, void *value),
              (pool, attr, value)) {
    int status = ATTEMPT(sd_mem_pool_get(pool, (int)attr, value));
    PUT("pool", (uintptr_t)pool);
    PUT("attr", attr);
    return status;
}
