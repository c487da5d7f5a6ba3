/*
 * stacks_internal.h - what stacks.c and stack_names.c share. See stacks.h.
 */
#ifndef LAYOUTSPY_STACKS_INTERNAL_H
#define LAYOUTSPY_STACKS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct ls_stacks;

struct ls_frame_key {
    int64_t module; /* 0: none, then offset is the address */
    uint64_t offset;
};

/* One function at an address; `outer` is what it was inlined into. */
struct ls_frame_name {
    char *function;
    char *file;
    uint32_t line;
    uint64_t function_offset;
    struct ls_frame_name *outer;
};

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

/* Write the sites of stacks whose frames are all named, or of all. */
void ls_stacks_write_sites(struct ls_stacks *stacks, bool all);

#endif
