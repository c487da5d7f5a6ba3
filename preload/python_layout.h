/*
 * python_layout.h - where a CPython keeps what a stack consists of, and how to reach it.
 *
 * Offsets are bytes from the start of a structure. For 3.9 to 3.12 they come from a table; newer
 * versions publish theirs at the start of _PyRuntime. A version that is not known is not read.
 * Filled in once, by one thread, before any other one reads it.
 */
#ifndef LS_PYTHON_LAYOUT_H
#define LS_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "python_lines.h"

#define LS_PYTHON_OWNED_BY_GENERATOR 1 /* such a frame is complete from its start on */

struct ls_python_layout {
    uint16_t minor; /* 3.minor */
    /* From a thread state to the innermost frame: through a _PyCFrame where `chain` is set. */
    uint16_t thread_frame;
    bool chain;
    uint16_t chain_frame;
    /* A frame. Up to 3.10 `instruction` is an index of `unit` bytes each, then a pointer. */
    uint16_t back, code, instruction;
    uint16_t unit;  /* 0: a pointer */
    uint16_t owner; /* 0: frames have none, and all of them are complete */
    uint8_t hidden; /* owners from this one on are the interpreter's own: no frame of Python's */
    /* A code object. */
    uint16_t name, file, first_line, lines;
    uint16_t version;   /* a number that no other code object ever had; 0: there is none */
    uint16_t traceable; /* the first instruction of a complete frame, in 2 bytes each */
    uint16_t start;     /* where the instructions begin; 0: they are an object of their own */
    enum ls_python_lines line_format;
    /* str: where the characters begin if all are ASCII, and if not. */
    uint16_t ascii, wide;
    /* What a frame's variables are called and where they lie. 0: not known, or not in this version;
     * names, cells and free are tuples of a code object, from 3.11 on names is all of them. */
    uint16_t locals, names, cells, free;
    uint16_t stack, top;   /* a frame's temporaries: first (up to 3.10), and where they end */
    uint16_t name_space;   /* of a frame: the dict of a class body, a module or an exec() */
    uint16_t frame_behind; /* a frame object: its frame; 0: it is the frame */
    uint16_t generator, generator_state; /* in a generator: its frame, and whether it is one */
    uint16_t keys; /* a type made by `class`: the names of its objects' inline attributes */
};

/* The same in all of them. */
enum {
    LS_PYTHON_TYPE = 8,        /* object: its type */
    LS_PYTHON_LENGTH = 16,     /* str, bytes, code: the number of items */
    LS_PYTHON_HASH = 24,       /* str, bytes: the cached hash, -1: not asked for yet */
    LS_PYTHON_TEXT_STATE = 32, /* str */
    LS_PYTHON_BYTES = 32,      /* bytes */
};

struct ls_python {
    struct ls_python_layout layout;
    char name[80]; /* "CPython 3.11.7" */
    void *handle;  /* for dlsym() */
    void *(*this_thread)(void);
    int (*is_finalizing)(void);
    const char *refused; /* why an interpreter that is there is not read, for people; else NULL */
};
extern struct ls_python ls_python;

enum ls_python_found { LS_PYTHON_NONE, LS_PYTHON_KNOWN, LS_PYTHON_REFUSED };

/* Look for an interpreter in this process and fill in ls_python and ls_py. Refused: `why` says why,
 * for people. Takes the loader's locks; nothing of ours may be held. */
enum ls_python_found ls_python_find(const char **why);

/* An interpreter was found, and ls_python (and ls_py of python_api.h) may be read. Any thread. */
bool ls_python_known(void);

/* A function or object of the interpreter that was found, or NULL. */
void *ls_python_symbol(const char *name);

#endif
