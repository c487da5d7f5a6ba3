/*
 * python_object.h - what hangs on an object of the interpreter, read from its memory where its own
 * functions would run code of the user's, or would leave something behind.
 *
 * With the GIL held, between two instructions of the interpreter. Nothing is changed, and no
 * reference is taken.
 */
#ifndef LS_PYTHON_OBJECT_H
#define LS_PYTHON_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "python_api.h"
#include "python_read.h"

/* A type object: these have never moved. */
enum {
    LS_TYPE_NAME = 24,
    LS_TYPE_BASIC_SIZE = 32,
    LS_TYPE_FLAGS = 168,
    LS_TYPE_TRAVERSE = 184,
    LS_TYPE_DICT = 264,
    LS_TYPE_DESCR_GET = 272,
    LS_TYPE_DICT_OFFSET = 288,
    LS_TYPE_MRO = 344,
};

/* Nor have these. */
enum {
    LS_GETTER_DEFINITION = 40, /* a getset_descriptor: what it is, its name first */
    LS_TRACEBACK_FRAME = 24,
    LS_TRACEBACK_AT = 32, /* int: the instruction */
};

enum ls_type_flag {
    LS_TYPE_INLINE_VALUES = 1 << 2, /* from 3.13 on */
    LS_TYPE_MANAGED_DICT = 1 << 4,  /* from 3.11 on */
    LS_TYPE_HEAP = 1 << 9,
    LS_TYPE_HAVE_GC = 1 << 14,
    LS_TYPE_IS_LIST = 1 << 25,
    LS_TYPE_IS_TUPLE = 1 << 26,
    LS_TYPE_IS_STR = 1 << 28,
    LS_TYPE_IS_DICT = 1 << 29,
    LS_TYPE_IS_EXCEPTION = 1 << 30,
};
#define LS_TYPE_IS_TYPE (1ul << 31)

static inline uintptr_t ls_python_type(uintptr_t object) {
    return ls_python_word(object, LS_PYTHON_TYPE);
}

static inline uint64_t ls_python_type_flags(uintptr_t type) {
    return ls_python_word(type, LS_TYPE_FLAGS);
}

static inline bool ls_python_is_str(uintptr_t object) {
    return ls_python_type_flags(ls_python_type(object)) & LS_TYPE_IS_STR;
}

/* How many references there are to it. From 3.12 on some objects live for ever: very many. */
static inline uint64_t ls_python_count(uintptr_t object) {
    return ls_python.layout.minor >= 12 ? (uint32_t)ls_python_int(object, 0)
                                        : ls_python_word(object, 0);
}

/* Called with each: its name (a str; 0: it has none), its place, and itself. */
typedef void ls_python_each(void *context, uintptr_t name, uint32_t place, uintptr_t object);

/* The variables of a frame that have a value, and after them, where it can be told, the temporary
 * values that it works on. What does not look like an object is left out. */
void ls_python_each_local(uintptr_t frame, ls_python_each *each, void *context);

/* The dict in which the code of a class, a module or an exec() keeps its names; 0: none. */
uintptr_t ls_python_name_space(uintptr_t frame);

/* The frame of a frame object; the one that lies within a generator, coroutine or asynchronous
 * generator that waits (until 3.10 they have a frame object). 0: none. */
uintptr_t ls_python_frame_of_object(uintptr_t frame_object);
uintptr_t ls_python_frame_of_generator(uintptr_t generator);

/* The first frame of Python's from `frame` on outwards; 0: none. */
uintptr_t ls_python_next_frame(uintptr_t frame);

/* The code object and the running line of a frame. */
uintptr_t ls_python_frame_code(uintptr_t frame);
uint32_t ls_python_frame_line(uintptr_t frame);

/* An object's attributes where they lie beside it, not in a dict; and its dict, 0: it has none. */
void ls_python_each_inline(uintptr_t object, ls_python_each *each, void *context);
uintptr_t ls_python_dict(uintptr_t object);

/* Attributes that lie in an object itself (`__slots__`, and those of types written in C): the name
 * of the one that holds `held`, or NULL. */
const char *ls_python_slot_name(uintptr_t object, uintptr_t held);

#endif
