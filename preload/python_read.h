/*
 * python_read.h - what the interpreter's objects say, read from their memory.
 *
 * Without the GIL and without a call into Python. The objects must stay: those that a frame of the
 * calling thread holds do. Any thread, once ls_python is filled in.
 */
#ifndef LS_PYTHON_READ_H
#define LS_PYTHON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "python_layout.h"

static inline uint64_t ls_python_word(uintptr_t object, unsigned offset) {
    uint64_t word;
    memcpy(&word, (const void *)(object + offset), sizeof word);
    return word;
}

static inline int32_t ls_python_int(uintptr_t object, unsigned offset) {
    int32_t value;
    memcpy(&value, (const void *)(object + offset), sizeof value);
    return value;
}

/* The same of an object that may be none: false where nothing can be read there. A system call. */
bool ls_python_try_word(uintptr_t object, unsigned offset, uint64_t *word);

/* A str's characters as they lie in memory. */
struct ls_python_text {
    const void *data;
    size_t length; /* characters */
    unsigned kind; /* bytes of each: 1, 2, 4; 0: a form that is not known */
};
struct ls_python_text ls_python_text(uintptr_t text);

/* The str in UTF-8, cut at a whole character to fit, and a NUL. Returns the bytes without the NUL.
 * What UTF-8 or a text in a record cannot hold becomes U+FFFD. `room` is at least 1. */
size_t ls_python_utf8(uintptr_t text, char *out, size_t room);

/* The line of a code object that runs at `at`, bytes from its first instruction. 0: unknown. */
uint32_t ls_python_line_at(uintptr_t code, int64_t at);

#endif
