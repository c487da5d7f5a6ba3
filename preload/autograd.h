/*
 * autograd.h - which forward line a backward operation belongs to.
 *
 * PyTorch runs backward operations in threads without Python frames. What ties them to the forward
 * is the number that each operation's node takes from at::sequence_number when it is made, in the
 * thread and on the line of the forward call.
 */
#ifndef LS_AUTOGRAD_H
#define LS_AUTOGRAD_H

#include <stdint.h>

#include "thread.h"

/* At the start of a recording. */
void ls_autograd_start(void);

/* A node of the graph took this number: remember the calling thread's Python stack. Any thread. */
void ls_autograd_forward(uint64_t sequence);

/* The Python stack on which the operation that this thread is running backward was called; 0: it
 * runs none, or the stack is not known (any longer). Any thread, inside a recorded call. */
uint32_t ls_autograd_origin(void);

void ls_autograd_fork_reset(void);

#endif
