/*
 * stack_native.h - the native call stack of a recorded call, interned.
 */
#ifndef LS_STACK_NATIVE_H
#define LS_STACK_NATIVE_H

#include <stdint.h>

#include "env.h"
#include "thread.h"

#define LS_STACK_DEPTH 128 /* frames kept of one stack */

void ls_stack_init(const struct ls_env *env);

/*
 * The number of the stack from `caller` (a wrapper's return address) outwards; its STACK record
 * is committed before the number can be known to anybody. 0: no stack (off, or counted as lost).
 */
uint32_t ls_stack_capture(struct ls_thread *self, void *caller);

void ls_stack_fork_reset(void);

#endif
