/*
 * step_search.h - the search for a loop among a thread's calls, between its two files:
 * step_pattern.c finds what could cut a loop, and cuts; step_level.c chooses by what. One thread;
 * not async-signal-safe.
 */
#ifndef LAYOUTSPY_STEP_SEARCH_H
#define LAYOUTSPY_STEP_SEARCH_H

#include "step_stream.h"

#define LS_STEP_LIKE 0.8     /* share of what must be as usual */
#define LS_STEP_NEAR 0.25    /* of the usual distance: how far from it is usual, too */
#define LS_STEP_SLACK 2      /* calls that are always near enough */
#define LS_STEP_ROUNDS_MAX 8 /* of an inner loop in one step; more is an epoch of steps */

/* A symbol that could cut a loop. */
struct ls_step_candidate {
    uint32_t symbol, count, distance; /* the usual one */
    uint32_t first;                   /* call */
};

struct ls_step_search {
    const struct ls_step_streams *all;
    const struct ls_step_stream *stream;
    struct ls_step_list *list;
    uint32_t *work;     /* by call: launches (or calls) before it */
    bool by_launches;   /* the former */
    uint32_t *place;    /* calls of a region, by symbol */
    uint32_t *begin;    /* by symbol: first of its calls in `place`; one more at the end */
    uint32_t *distance; /* scratch */
    bool copies_only;   /* loops without a copy are none: the main one had them */
    struct ls_step_candidate *candidate; /* fewest repetitions first */
    uint32_t candidates, room;
};

static inline bool ls_step_is_near(uint32_t distance, uint32_t usual) {
    uint32_t away = distance > usual ? distance - usual : usual - distance;
    return away <= LS_STEP_SLACK || away <= LS_STEP_NEAR * usual;
}

/* Its calls, as many as it has. */
static inline const uint32_t *ls_step_places(const struct ls_step_search *s,
                                             const struct ls_step_candidate *c) {
    return s->place + s->begin[c->symbol];
}

/* The candidate that begins the loop; *copies: it copies from or to the host. False: none does. */
bool ls_step_choose(struct ls_step_search *s, struct ls_step_candidate *chosen, bool *copies);

#endif
