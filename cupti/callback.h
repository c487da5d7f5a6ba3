/*
 * callback.h - what CUPTI tells of calls as they begin and end.
 *
 * A call that a hook records is only completed: it gets CUPTI's number (correlation), by which
 * records of the GPU name it. A call of the table that no hook saw is recorded here, as the hook
 * would have: a static runtime's, a library's inner ones, the driver's. What the runtime asks of
 * the driver is part of the runtime's call.
 *
 * Any thread, inside the program's calls; a callback that interrupts layoutspy itself does nothing.
 * CUDA must not be called from here. errno is kept.
 */
#ifndef LS_CUPTI_CALLBACK_H
#define LS_CUPTI_CALLBACK_H

#include <stdint.h>

void ls_cupti_callback(void *user, int domain, uint32_t id, const void *data);

/* Where the recorded call runs that a new one seems to be inside of (self->frame); 0 where that is
 * one that CUPTI alone told of and whose end it will never tell, since we stepped aside. */
struct ls_thread;
uintptr_t ls_cupti_outer(struct ls_thread *self);

#endif
