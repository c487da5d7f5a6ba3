/*
 * cudnn_graph.h - cuDNN's graph API: what a plan works on.
 *
 * Tensors make operations, these a graph, and that an engine's configuration and a plan; a variant
 * pack gives the tensors addresses by the numbers that the program gave them. A program keeps the
 * plan and destroys the rest. What is told on the way is kept as cudnn_node.h says, so that a
 * plan's execution has every tensor with its shape.
 *
 * Called by the wrappers of the rows in layoutspy/api/library_describe.def, recording or not; any
 * thread, lock-free. errno may change.
 */
#ifndef LS_CUDNN_GRAPH_H
#define LS_CUDNN_GRAPH_H

#include <stdint.h>

#include "thread.h"

/* After the call. `descriptor` is what it was given for the new descriptor's address. */
void ls_cudnn_created(int status, int type, void *const *descriptor);
void ls_cudnn_set(int status, const void *descriptor, int name, int type, int64_t count,
                  const void *values);
void ls_cudnn_got(int status, const void *descriptor, int name, int type, int64_t wanted,
                  const int64_t *count, const void *values);
void ls_cudnn_finalized(int status, const void *descriptor);

/* Around the call: before it, then with what that returned. */
uint64_t ls_cudnn_destroying(const void *descriptor);
void ls_cudnn_destroyed(int status, const void *descriptor, uint64_t word);

/* The operands of an execution. `self` is busy. */
void ls_cudnn_execute(struct ls_thread *self, const void *plan, const void *pack);

#endif
