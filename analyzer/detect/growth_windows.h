/*
 * growth_windows.h - where in a recording growth is looked for, and what counts as growth.
 *
 * A window is a row of moments: the begins of a loop's steps; where a program does something else
 * than its steps (an evaluation), that time in equal parts; of a program without steps, all of it.
 * Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_GROWTH_WINDOWS_H
#define LAYOUTSPY_GROWTH_WINDOWS_H

#include "../memory/growth.h"
#include "course.h"

struct ls_window {
    int loop;      /* by its steps; 0: no steps there */
    bool bare;     /* the host has no part in those steps: they may be layers */
    bool whole;    /* the whole recording, which may be one loading of a model */
    size_t stride; /* steps from one sample to the next */
    size_t samples;
    int64_t *ts_ns;
};

struct ls_windows {
    struct ls_window *at; /* the most telling first */
    size_t count;
};

/* `sites`: how many a table per window will have, which bounds the samples. */
void ls_windows_make(const struct ls_detect *d, const struct ls_course *course,
                     struct ls_windows *windows);
void ls_windows_free(struct ls_windows *windows);

/* The part [from, to] of a series that grows: all along, to the end or up to a moment at which all
 * of it is given back. False: it does not. */
bool ls_window_rises(const struct ls_window *window, const uint64_t *series, size_t *from,
                     size_t *to);

#endif
