/*
 * stack.h - the call stack of a recorded call, interned: native frames, and Python's outside.
 *
 * Where the thread runs Python, the native frames end with the first one of the interpreter, and
 * the Python frames follow (stack_python.h): what lies below is the interpreter calling itself.
 */
#ifndef LS_STACK_H
#define LS_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "env.h"
#include "thread.h"

/* At the start of a recording. */
void ls_stack_init(const struct ls_env *env);

/*
 * The number of the stack outside of a wrapper, whose frame address this is; its STACK record is
 * committed before the number can be known to anybody. 0: no stack (off, or counted as lost).
 * `may_load`: the loader's locks may be taken, see wrap.h. Any thread, inside a recorded call.
 */
uint32_t ls_stack_capture(struct ls_thread *self, const void *wrapper_frame, bool may_load);

/* A stack found no room. Counted as lost where the call itself will still find some: else that is
 * what is lost. */
void ls_stack_lost(struct ls_thread *self);

/* Switch the taking of stacks off and on (layoutspy_mode). */
void ls_stack_enable(bool on);

void ls_stack_fork_reset(void);

#endif
