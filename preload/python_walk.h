/*
 * python_walk.h - the frames of a thread, read from the interpreter's memory.
 */
#ifndef LS_PYTHON_WALK_H
#define LS_PYTHON_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "seen_bytes.h"

#define LS_PYTHON_DEPTH 128 /* frames kept of one stack, the innermost */

struct ls_python_place {
    uintptr_t code;
    int64_t at; /* what runs there: bytes from the first instruction; negative: before it */
};

struct ls_python_walk {
    uint64_t hash; /* of what the stack is; not 0 */
    uint32_t depth;
    bool truncated;                                /* there were more frames */
    struct ls_python_place place[LS_PYTHON_DEPTH]; /* innermost first */
};

/*
 * The frames of the thread with this state, as PyThreadState_GetFrame() and PyFrame_GetBack() would
 * give them. The calling thread's own: nobody else changes them while it runs C, GIL or not. Any
 * thread, once the layout was found good. `seen`: the calling thread's, or NULL.
 */
void ls_python_walk(uintptr_t thread, struct ls_seen_bytes *seen, struct ls_python_walk *walk);

/* The innermost frame, complete or not; 0: none. */
uintptr_t ls_python_innermost(uintptr_t thread);

/* Whether a file name (a str) is that of an installed package, or of the interpreter itself. */
bool ls_python_is_installed(uintptr_t file);

/* What a CODE record says, as a hash: name, file and first line. Not 0. */
uint64_t ls_python_code_hash(uintptr_t code);

#endif
