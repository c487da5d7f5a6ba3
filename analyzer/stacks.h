/*
 * stacks.h - from return addresses and Python's frames to a tree of stacks, names and sites.
 *
 * A stack goes through three stages, each in the trace so that a killed collector's successor
 * goes on: raw addresses (table raw_stack); frames and nodes, once all that was told before it is
 * known (frame, stack, stack_site); names and site, as the symbolizer
 * answers, while there is nothing better to do. One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_STACKS_H
#define LAYOUTSPY_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "modules.h"
#include "python_frames.h"
#include "symbolizer.h"
#include "trace_db.h"

struct ls_frame;
struct ls_node;
struct ls_waiting;
struct ls_raw_stack;

struct ls_stacks {
    struct ls_trace_db *db;
    struct ls_modules *modules;
    struct ls_python python;
    struct ls_frame *frames; /* hash by module and offset, or by code and line */
    struct ls_node *nodes;   /* hash by parent and frame */
    int64_t next_frame, next_node;
    struct ls_raw_stack *raw;   /* list: there at the last ls_stacks_settle() */
    struct ls_raw_stack *fresh; /* list: since then */
    struct ls_waiting *waiting; /* stacks without a site yet */
    bool more;                  /* of those, which could have one */
    struct ls_frame *todo;      /* frames to ask for */
    struct ls_symbolizer symbolizer;
    struct ls_frame *asked[LS_SYMBOLIZER_BATCH]; /* the open question */
    uint32_t asked_count;
    int64_t asked_at_ms;
};

void ls_stacks_init(struct ls_stacks *stacks, struct ls_trace_db *db, struct ls_modules *modules);

/* Take up what an earlier collector left in the tables. */
void ls_stacks_load(struct ls_stacks *stacks);

/* A stack from the spool: kept raw. */
void ls_stacks_add(struct ls_stacks *stacks, const struct ls_rec_stack *record);

/*
 * Make frames and nodes of the raw stacks that were there at the last call: to be called after the
 * records of a drain. A module that a stack lies in, or its Python frames, may have been told by
 * another thread, whose chunk was looked at before the stack's own was; it was told before the
 * stack, so the next drain has it. Beyond that, a stack is raw as long as its Python frames are not
 * known. `all`: after the last drain, there is no more to wait for.
 */
void ls_stacks_settle(struct ls_stacks *stacks, bool all);

/* Ask for names, take answers, write sites; wait for an answer up to `timeout_ms`. False: there is
 * nothing left to ask or to wait for. */
bool ls_stacks_symbolize(struct ls_stacks *stacks, int timeout_ms);

/* There are names to be made use of, and nobody to wait for. */
bool ls_stacks_busy(const struct ls_stacks *stacks);

/* No more names: what has none is written as module and offset. */
void ls_stacks_give_up(struct ls_stacks *stacks);

void ls_stacks_destroy(struct ls_stacks *stacks);

#endif
