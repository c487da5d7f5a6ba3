/*
 * stacks_internal.h - what stacks.c, stack_names.c and stack_sites.c share. See stacks.h.
 */
#ifndef LAYOUTSPY_STACKS_INTERNAL_H
#define LAYOUTSPY_STACKS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "layoutspy/format.h"
#include "python_frames.h"

/* Frames of one stack, all kinds together, that the largest records can hold. */
#define LS_STACK_FRAMES_MAX (3 * LS_RECORD_LARGEST / 8)

struct ls_stacks;

/* Bytes are compared: no padding. */
struct ls_frame_key {
    const struct ls_code *code; /* Python: of python_frames.h; NULL: native */
    int64_t module;             /* 0: none, then offset is the address; Python: the kind */
    uint64_t offset;            /* Python: the line, 0 unknown */
};

/* One function at an address; `outer` is what it was inlined into. */
struct ls_frame_name {
    char *function;
    char *file;
    uint32_t line;
    uint64_t function_offset;
    struct ls_frame_name *outer;
};

/* frame.kind in the schema; of stack_site.truncated, the number of the bit. FORWARD: Python, but
 * not a caller: see `forward` in format.h. */
enum ls_frame_kind { LS_FRAME_NATIVE, LS_FRAME_PYTHON, LS_FRAME_FORWARD };

enum ls_frame_state { LS_FRAME_TODO, LS_FRAME_ASKED, LS_FRAME_NAMED };

struct ls_frame {
    struct ls_frame_key key;
    int64_t id;
    enum ls_frame_state state; /* NAMED: `name` is all that will be known */
    struct ls_frame_name name;
    struct ls_frame *next; /* in stacks->todo */
    UT_hash_handle hh;
};

struct ls_node_key {
    int64_t parent; /* 0: none */
    int64_t frame;
};

struct ls_node {
    struct ls_node_key key;
    int64_t id;
    UT_hash_handle hh;
};

struct ls_raw_stack {
    struct ls_raw_stack *next;
    uint32_t id, modules, depth;
    uint32_t python, forward; /* numbers of Python stacks, 0: none */
    bool truncated;           /* there were more native frames */
    uint64_t address[];
};

/* A stack whose site is to be written once its frames are named; innermost first. */
struct ls_waiting {
    struct ls_waiting *next;
    int64_t id;
    uint32_t depth;
    struct ls_frame *frame[]; /* NULL where memory had run out */
};

/* Queue a frame to be named. */
void ls_frame_ask(struct ls_stacks *stacks, struct ls_frame *frame);

void ls_frame_clear_name(struct ls_frame_name *name);

/* Write the sites of all stacks, or of those whose frames are all named: a few, false where there
 * are more. */
bool ls_stacks_write_sites(struct ls_stacks *stacks, bool all);

#endif
