/*
 * stack_native.h - the native call stack of a recorded call.
 *
 * Walking it costs about a microsecond, and a program takes the same few hundred stacks again and
 * again. So a walk notes the words of memory that decided its result; when a stack is taken from
 * the same place and those words are the same, so is the stack (verified replay). The words are
 * compared in the order in which a walk would read them: nothing is read that a walk would not.
 *
 * Any thread, inside a recorded call. No lock.
 */
#ifndef LS_STACK_NATIVE_H
#define LS_STACK_NATIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "thread.h"

#define LS_STACK_DEPTH 128 /* frames kept of one stack */

/* Where a stack begins: the registers on return from the wrapper. */
struct ls_native_place {
    uintptr_t ip, sp, bp;
    uint32_t generation; /* of modules */
    bool cut;            /* at the interpreter */
};

void ls_native_place(struct ls_native_place *place, const void *wrapper_frame, bool cut);

/* The same for equal stacks in one generation of modules. */
uint64_t ls_native_hash(struct ls_thread *self, const struct ls_native_place *place);

/* The return addresses, innermost first; at least one, where `room` allows. */
uint32_t ls_native_walk(const struct ls_native_place *place, void **frame, uint32_t room);

void ls_native_fork_reset(void);

#endif
