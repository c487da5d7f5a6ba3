/*
 * growth.h - how what each site holds develops from step to step.
 *
 * Samples are the begins of the program's steps (table `step`, ls_growth_loop()), in
 * the order of time; where it has none, LS_GROWTH_SAMPLES moments at equal distances. Of very many
 * steps each `stride`-th one, so that the table stays below LS_GROWTH_CELLS cells. One thread; not
 * async-signal-safe.
 */
#ifndef LAYOUTSPY_GROWTH_H
#define LAYOUTSPY_GROWTH_H

#include "history.h"

#define LS_GROWTH_SAMPLES 64
#define LS_GROWTH_STEPS 4096       /* at most so many of them are sampled */
#define LS_GROWTH_CELLS (8u << 20) /* sites times samples, of 8 bytes */

struct ls_growth {
    bool by_step;    /* samples are steps' begins; else even divisions */
    size_t samples;  /* 0: nothing to sample */
    size_t stride;   /* steps from one sample to the next; 1 unless there are very many */
    int64_t *ts_ns;  /* [samples] */
    uint32_t sites;  /* numbers are below it */
    uint64_t *live;  /* [site * samples + sample]: live bytes of spans of that site */
    uint64_t *total; /* [samples]: of all sites */
};

/* With 0 samples all pointers are NULL. Exits with one line where there is no
 * memory. */
void ls_growth_load(const struct ls_history *history, struct ls_growth *growth);
/* The same at moments of the caller's own, in ascending order, of `span` or `direct` of the history
 * or a part of one. */
void ls_growth_load_at(const struct ls_history *history, const struct ls_span *span, size_t spans,
                       const int64_t *ts_ns, size_t samples, struct ls_growth *growth);
void ls_growth_free(struct ls_growth *growth);

/* The program's main loop, and how many steps it has; 0 steps: none. It is the one with the most
 * among those of which half the steps launch something: frees at the end of a program repeat, too.
 * A program without a framework's allocator may have one that never launches. */
int ls_growth_loop(const struct ls_history *history, size_t *steps);

/* The last of its steps that had begun by then, from 1, and whether it had not ended; 0: none. */
size_t ls_growth_step(const struct ls_history *history, int64_t ts_ns, bool *inside);

/* Bytes per sample (divide by `stride` for a step) by which `series` grows, as the median of all
 * slopes between samples (Theil-Sen), so that a few odd steps do not matter; 0 for fewer than 3
 * samples. Of many samples some are left out, evenly. */
double ls_growth_slope(const uint64_t *series, size_t samples);

#endif
