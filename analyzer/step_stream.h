/*
 * step_stream.h - what the search for steps looks at: each thread's calls as a row of symbols, and
 * the steps that were found. One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_STEP_STREAM_H
#define LAYOUTSPY_STEP_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "step_own.h"
#include "trace_db.h"

#define LS_STEP_REPEATS 3 /* fewer repetitions are no loop */

/* A call: what it was stands in the symbol. */
struct ls_step_call {
    int64_t start_ns;
    uint32_t duration_ns; /* at most what fits */
    uint32_t symbol;
};

/* What counts as the same call: one function from one stack; without a stack, of one kernel. */
struct ls_step_symbol {
    uint32_t stack;  /* stack_site.id, 0: none */
    uint32_t kernel; /* of launches without a stack */
    uint16_t api;
    bool passed;   /* a launch that was made by another one: the runtime's, by the driver's */
    bool launch;   /* of a kernel or a graph, and not `passed` */
    bool upload;   /* a copy from the host to the device, at least once */
    bool download; /* the other way */
    bool work;     /* other work: within the device, or a question for its memory */
    bool gives;    /* memory to the program, at least once */
    bool takes;    /* it back */
    int64_t
        optimizer; /* the place that called an optimizer (step_optimizer.c), 0: not inside one */
};

struct ls_step_stream {
    int64_t thread; /* thread.id */
    int64_t tid;
    struct ls_step_call *call; /* in order of start */
    uint32_t count, room;
    int64_t *own_ns; /* begins of those that steps are not told by (step_own.h) */
    uint32_t owns, own_room;
    uint32_t launches;
    int64_t end_ns; /* of the last of all */
};

struct ls_step_streams {
    struct ls_step_stream *stream;
    uint32_t count;
    struct ls_step_symbol *symbol;
    uint32_t symbols, symbol_room;
    uint32_t *slot; /* hash table of symbol numbers plus 1 */
    uint32_t slots; /* a power of two */
    struct ls_step_own own;
    bool out_of_memory;
};

struct ls_step {
    int64_t start_ns, end_ns;
    uint32_t loop;
    int64_t thread; /* 0: marked */
};

struct ls_step_list {
    struct ls_step *step; /* disjoint, in order of time once ls_steps_build() has sorted them */
    uint32_t count, room;
    uint32_t loops;
    bool out_of_memory;
};

/* All calls. out_of_memory: nothing can be said. To be released with ls_step_streams_free(). */
void ls_step_streams_load(struct ls_step_streams *all, struct ls_trace_db *db);
void ls_step_streams_free(struct ls_step_streams *all);

static inline int64_t ls_step_call_end(const struct ls_step_call *call) {
    return call->start_ns + call->duration_ns;
}

void ls_step_add(struct ls_step_list *list, struct ls_step step);

/* How many of the calls [from, to) are of that symbol. */
uint32_t ls_step_occurrences(const struct ls_step_stream *stream, uint32_t symbol, uint32_t from,
                             uint32_t to);

/* The middle of `count` numbers, at least 1, which change their places. */
uint32_t ls_step_median(uint32_t *number, uint32_t count);

/* Steps by the bursts of optimizers: true where some were found. (step_optimizer.c) */
bool ls_steps_by_optimizer(struct ls_step_streams *all, struct ls_trace_db *db,
                           struct ls_step_list *list);

/* Steps by repetition: true where some were found. (step_pattern.c) */
bool ls_steps_by_pattern(const struct ls_step_streams *all, int64_t main_tid,
                         struct ls_step_list *list);

/* The rows of `step`. (step_figures.c) */
void ls_steps_put(const struct ls_step_streams *all, const struct ls_step_list *list,
                  const char *source, struct ls_trace_db *db);

#endif
