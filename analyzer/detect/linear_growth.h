/*
 * linear_growth.h - what grows from step to step, between the search for it and its words.
 *
 * For linear_growth.c and linear_growth_words.c alone. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_LINEAR_GROWTH_H
#define LAYOUTSPY_LINEAR_GROWTH_H

#include "course.h"

/* What one site holds over a part of the recording. Sizes in bytes. */
struct ls_grower {
    const struct ls_course *course;
    uint32_t site, stack; /* stack: of the last of its largest allocations */
    int loop;             /* turns are steps of it; 0: turns are equal parts of the time */
    bool bare;            /* the host has no part in those steps */
    int64_t from_ns, middle_ns, to_ns; /* the rise */
    size_t turns, done;                /* in the rise; of the loop up to its end */
    uint64_t first, last;              /* held at its begin and at its end */
    uint64_t total;                    /* of all sites at its end */
    double per_turn, turn_ns;          /* bytes, ns */
    bool released;                     /* given back within the recording, while it went on */
    size_t made, blocks;               /* in the rise; live at its end */
    size_t unfreed;                    /* of those: to the end of the recording */
    uint64_t smallest, largest;        /* of the live ones */
    bool regrown, joined; /* one block made larger each time; while the old one is there */
    int64_t capacity;     /* of the device, 0: not known */
    double left;          /* turns until it is full, from to_ns on; -1: not known */
    const struct ls_oom_event *oom; /* that it led to, or NULL */
    size_t oom_step;                /* step in which that was; 0: not known */
};

struct ls_growers {
    struct ls_grower *at; /* by growth */
    size_t count, large;  /* large: the first ones, which have a good part of it */
};

/* Makes the findings of one device. */
void ls_growers_report(struct ls_detect *d, const char *kind, const struct ls_history *history,
                       const struct ls_growers *all);

#endif
