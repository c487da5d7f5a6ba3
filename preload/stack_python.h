/*
 * stack_python.h - the Python stack of the calling thread, interned.
 */
#ifndef LS_STACK_PYTHON_H
#define LS_STACK_PYTHON_H

#include <stdbool.h>
#include <stdint.h>

#include "thread.h"

/* At the start of a recording, by the thread that started it, which is busy. Says in `coverage`
 * what is to be had. */
void ls_python_start(struct ls_thread *self);

/*
 * The number of the calling thread's Python stack, whose PYTHON record is committed. 0: it has
 * none: no interpreter, none that is known, no thread state, no frames, an interpreter that is on
 * its way out, switched off, or no room (counted as lost). `may_load`: an interpreter may be looked
 * for now, by the loader. Any thread, inside a recorded call, GIL or not.
 */
uint32_t ls_python_capture(struct ls_thread *self, bool may_load);

/* The code of the interpreter's loop. False: there is none, or its extent is not known. */
bool ls_python_eval_range(uintptr_t *start, uintptr_t *end);

/* A walk and what the interpreter itself says of the same frames have differed. */
bool ls_python_doubted(void);

void ls_python_fork_reset(void);

#endif
