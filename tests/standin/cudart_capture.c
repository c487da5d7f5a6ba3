/*
 * cudart_capture.c - stream capture as the runtime's functions. See cudart.h and capture.h.
 */
#include "cudart.h"

#include "capture.h"
#include "handles.h"
#include "stream.h"

/* The stream of a call, with the lock held on status 0. */
static int begin_stream(const struct standin_call *call, cudaStream_t handle, struct stream **out) {
    struct device *device;
    int status = sd_begin_context(&device);
    if (status)
        return status;
    *out = sd_stream(device, handle, call->per_thread);
    return *out ? SD_OK : sd_end_with(SD_INVALID_HANDLE);
}

static int begin_capture(struct standin_call *call, cudaStream_t handle, int mode) {
    struct stream *s;
    int status = begin_stream(call, handle, &s);
    return status ? status : sd_end_with(sd_capture_begin(s, mode, NULL, NULL, 0));
}

CUDART_TWIN(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
            (stream, mode)) {
    int status = ATTEMPT(begin_capture(call, stream, (int)mode));
    PUT("stream", (uintptr_t)stream);
    PUT("mode", mode);
    PUT_DEVICE();
    return status;
}

static int begin_capture_to(struct standin_call *call, cudaStream_t handle, cudaGraph_t graph,
                            const cudaGraphNode_t *nodes, size_t count, int mode) {
    struct stream *s;
    int status = begin_stream(call, handle, &s);
    if (status)
        return status;
    struct graph *g = sd_handle(graph, HANDLE_GRAPH);
    if (!g || (count && !nodes))
        return sd_end_with(SD_INVALID_VALUE);
    for (size_t i = 0; i < count; i++) {
        struct graph_node *n = sd_handle(nodes[i], HANDLE_GRAPH_NODE);
        if (!n || n->graph != g)
            return sd_end_with(SD_INVALID_VALUE);
    }
    return sd_end_with(sd_capture_begin(s, mode, g, (struct graph_node *const *)nodes, count));
}

CUDART_TWIN(cudaStreamBeginCaptureToGraph, _ptsz,
            (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *dependencies,
             const cudaGraphEdgeData *dependencyData, size_t numDependencies,
             enum cudaStreamCaptureMode mode),
            (stream, graph, dependencies, dependencyData, numDependencies, mode)) {
    (void)dependencyData;
    int status =
        ATTEMPT(begin_capture_to(call, stream, graph, dependencies, numDependencies, (int)mode));
    PUT("stream", (uintptr_t)stream);
    PUT("mode", mode);
    PUT("graph", (uintptr_t)graph);
    PUT_DEVICE();
    return status;
}

static int end_capture(struct standin_call *call, cudaStream_t handle, cudaGraph_t *out) {
    struct stream *s;
    struct graph *graph = NULL;
    if (!out)
        return SD_INVALID_VALUE;
    int status = begin_stream(call, handle, &s);
    if (status)
        return status;
    status = sd_capture_end(s, &graph);
    *out = (cudaGraph_t)graph;
    return sd_end_with(status);
}

CUDART_TWIN(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t *pGraph),
            (stream, pGraph)) {
    int status = ATTEMPT(end_capture(call, stream, pGraph));
    PUT("stream", (uintptr_t)stream);
    PUT_OUT("graph", pGraph);
    PUT_DEVICE();
    return status;
}

static int is_capturing(struct standin_call *call, cudaStream_t handle,
                        enum cudaStreamCaptureStatus *out) {
    struct stream *s;
    if (!out)
        return SD_INVALID_VALUE;
    int status = begin_stream(call, handle, &s);
    if (status)
        return status;
    *out = (enum cudaStreamCaptureStatus)sd_capture_state(s);
    return sd_end_with(SD_OK);
}

CUDART_TWIN(cudaStreamIsCapturing, _ptsz,
            (cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus),
            (stream, pCaptureStatus)) {
    return ATTEMPT(is_capturing(call, stream, pCaptureStatus));
}

static int capture_info(struct standin_call *call, cudaStream_t handle,
                        enum cudaStreamCaptureStatus *state, unsigned long long *id,
                        cudaGraph_t *graph, const cudaGraphNode_t **nodes,
                        const cudaGraphEdgeData **edges, size_t *count) {
    struct stream *s;
    if (!state)
        return SD_INVALID_VALUE;
    int status = begin_stream(call, handle, &s);
    if (status)
        return status;
    *state = (enum cudaStreamCaptureStatus)sd_capture_state(s);
    if (s->capture && !s->capture->invalid) {
        if (id)
            *id = s->capture->id;
        if (graph)
            *graph = (cudaGraph_t)s->capture->graph;
        if (nodes)
            *nodes = (const cudaGraphNode_t *)s->leaf;
        if (edges)
            *edges = NULL;
        if (count)
            *count = s->leaf_count;
    }
    return sd_end_with(SD_OK);
}

#define CAPTURE_INFO(name)                                                                         \
    CUDART_TWIN(name, _ptsz,                                                                       \
                (cudaStream_t stream, enum cudaStreamCaptureStatus * captureStatus_out,            \
                 unsigned long long *id_out, cudaGraph_t *graph_out,                               \
                 const cudaGraphNode_t **dependencies_out, const cudaGraphEdgeData **edgeData_out, \
                 size_t *numDependencies_out),                                                     \
                (stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,     \
                 numDependencies_out)) {                                                           \
        return ATTEMPT(capture_info(call, stream, captureStatus_out, id_out, graph_out,            \
                                    dependencies_out, edgeData_out, numDependencies_out));         \
    }

#if CUDA_MAJOR >= 13
CAPTURE_INFO(cudaStreamGetCaptureInfo)
#else
CAPTURE_INFO(cudaStreamGetCaptureInfo_v3)

CUDART_TWIN(cudaStreamGetCaptureInfo_v2, _ptsz,
            (cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
             unsigned long long *id_out, cudaGraph_t *graph_out,
             const cudaGraphNode_t **dependencies_out, size_t *numDependencies_out),
            (stream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out)) {
    return ATTEMPT(capture_info(call, stream, captureStatus_out, id_out, graph_out,
                                dependencies_out, NULL, numDependencies_out));
}

CUDART_TWIN(cudaStreamGetCaptureInfo, _ptsz,
            (cudaStream_t stream, enum cudaStreamCaptureStatus *captureStatus_out,
             unsigned long long *id_out),
            (stream, captureStatus_out, id_out)) {
    return ATTEMPT(capture_info(call, stream, captureStatus_out, id_out, NULL, NULL, NULL, NULL));
}
#endif

static int update_dependencies(struct standin_call *call, cudaStream_t handle,
                               cudaGraphNode_t *nodes, size_t count, unsigned flags) {
    struct stream *s;
    if (flags > 1 || (count && !nodes))
        return SD_INVALID_VALUE;
    int status = begin_stream(call, handle, &s);
    if (status)
        return status;
    return sd_end_with(
        sd_capture_set_leaf(s, (struct graph_node *const *)nodes, count, flags == 0));
}

#if CUDA_MAJOR >= 13
CUDART_TWIN(cudaStreamUpdateCaptureDependencies, _ptsz,
            (cudaStream_t stream, cudaGraphNode_t *dependencies,
             const cudaGraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags),
            (stream, dependencies, dependencyData, numDependencies, flags)) {
    (void)dependencyData;
    return ATTEMPT(update_dependencies(call, stream, dependencies, numDependencies, flags));
}
#else
CUDART_TWIN(cudaStreamUpdateCaptureDependencies, _ptsz,
            (cudaStream_t stream, cudaGraphNode_t *dependencies, size_t numDependencies,
             unsigned int flags),
            (stream, dependencies, numDependencies, flags)) {
    return ATTEMPT(update_dependencies(call, stream, dependencies, numDependencies, flags));
}
#endif

static int exchange(enum cudaStreamCaptureMode *mode) {
    if (!mode)
        return SD_INVALID_VALUE;
    int wanted = (int)*mode, status = sd_begin();
    if (status)
        return status;
    status = sd_capture_exchange_mode(&wanted);
    if (!status)
        *mode = (enum cudaStreamCaptureMode)wanted;
    return sd_end_with(status);
}

CUDART(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode), (mode)) {
    return ATTEMPT(exchange(mode));
}
