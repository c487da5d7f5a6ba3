/*
 * holders.h - who holds live memory at a moment, how long, and how that came about.
 *
 * Sizes in bytes, times in ns since the recording's start. Site texts belong to the history. One
 * thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_HOLDERS_H
#define LAYOUTSPY_HOLDERS_H

#include "growth.h"
#include "history.h"

/* How far back "the last steps" go. */
#define LS_CHANGE_STEPS 5

struct ls_holder_entry {
    const char *site;
    uint32_t number; /* for ls_history_site() */
    uint64_t bytes;
    uint32_t blocks;
    int64_t age_ns;    /* of the oldest one */
    int64_t age_steps; /* steps that began since; -1: no steps */
    bool steady;       /* there are enough steps for `growth` */
    double growth;     /* bytes per step, over all steps until then */
    int64_t change;    /* since `since_step` began */
    int64_t in_step;   /* of it since the last step began */
};

struct ls_holders {
    struct ls_holder_entry *holder; /* by bytes, the largest first */
    size_t count;
    size_t step;       /* the last of the main loop's that had begun, from 1; 0: none */
    bool in_step;      /* and it had not ended */
    size_t steps;      /* of the main loop in the whole recording */
    size_t since_step; /* `change` counts from its begin; 0: there is no earlier step */
    int64_t since_ns;  /* and when that was */
    size_t *changed;   /* indices of `holder` by change, the largest first; those that grew */
    size_t changed_count;
};

/* `growth` and `state` are of `history`. Exits with one line where there is no memory. */
void ls_holders_at(const struct ls_history *history, const struct ls_growth *growth,
                   const struct ls_state *state, struct ls_holders *holders);
void ls_holders_free(struct ls_holders *holders);

#endif
