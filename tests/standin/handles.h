/*
 * handles.h - which opaque pointers are live objects of which type, so that a stale or made-up
 * handle is refused and never followed.
 *
 * Callers hold the core lock (device.h).
 */
#ifndef STANDIN_HANDLES_H
#define STANDIN_HANDLES_H

#include <stdbool.h>
#include <stddef.h>

enum handle_type {
    HANDLE_STREAM = 1,
    HANDLE_EVENT,
    HANDLE_ARRAY,
    HANDLE_MIPMAP,
    HANDLE_POOL,
    HANDLE_GRAPH,
    HANDLE_GRAPH_EXEC,
    HANDLE_GRAPH_NODE,
    HANDLE_KERNEL,
    HANDLE_MODULE,
    HANDLE_PHYSICAL, /* cuMemCreate */
    HANDLE_OBJECT, /* texture and surface objects, user objects: only ever created and destroyed */
};

/* Allocates a zeroed object and makes its address a handle; NULL when out of host memory. */
void *sd_handle_new(enum handle_type type, size_t size);
/* The object, or NULL where the pointer is no live handle of that type. */
void *sd_handle(const void *pointer, enum handle_type type);
/* Its address is no handle any more; the object stays until sd_handle_free(). */
void sd_handle_retire(void *object);
void sd_handle_free(void *retired);
/* Both at once. */
void sd_handle_delete(void *object);
/* Calls `visit` for each object of a type. It may retire or delete that object, no other. */
void sd_handle_each(enum handle_type type, void (*visit)(void *object, void *data), void *data);

#endif
