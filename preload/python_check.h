/*
 * python_check.h - is an interpreter's memory what we take it for?
 */
#ifndef LS_PYTHON_CHECK_H
#define LS_PYTHON_CHECK_H

#include <stdbool.h>
#include <stdint.h>

enum ls_python_shape {
    LS_PYTHON_NO_FRAME, /* nothing to judge by yet */
    LS_PYTHON_GOOD,
    LS_PYTHON_BAD, /* `why` says what, for people */
};

/*
 * Before the first walk: the frames of the calling thread, whose state this is, looked at without
 * trusting that a pointer leads anywhere.
 */
enum ls_python_shape ls_python_check_shape(uintptr_t thread, const char **why);

/*
 * Have the interpreter compare a walk with what its own functions say, once, when its main thread
 * next runs Python. `done` is then called there, with the GIL held. False: it takes no such wish
 * at the moment.
 */
bool ls_python_check_later(void (*done)(bool same));

#endif
