/*
 * step_own.h - which calls a program's loops are not told by: those that a framework's allocator
 * makes for itself, and questions whether work is done. How many there are depends on what it has
 * left and on the device's pace. One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_STEP_OWN_H
#define LAYOUTSPY_STEP_OWN_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_db.h"

struct ls_step_bits {
    uint8_t *bit;
    int64_t count; /* numbers are below */
};

struct ls_step_own {
    struct ls_step_bits calls; /* call.id */
    struct ls_step_bits
        stacks;     /* stack_site.id, of those whose innermost frame is the allocator's */
    int64_t *event; /* handles that the allocator has recorded, in order */
    size_t events, room;
    bool out_of_memory;
};

/* To be released with ls_step_own_free(). */
void ls_step_own_load(struct ls_step_own *own, struct ls_trace_db *db);
void ls_step_own_free(struct ls_step_own *own);

/* `event`: the handle that the call is about, where its function has one. */
bool ls_step_is_own(const struct ls_step_own *own, int64_t call, unsigned api, int64_t stack,
                    int64_t event);

#endif
