/*
 * cudart_graph.h - what the runtime's graph functions share.
 */
#ifndef STANDIN_CUDART_GRAPH_H
#define STANDIN_CUDART_GRAPH_H

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

#endif
