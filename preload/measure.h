/*
 * measure.h - what recording costs, measured in the run itself: LAYOUTSPY_MEASURE=N leaves one step
 * in N unrecorded, and tells the medians of both in `meta`.
 *
 * Steps are those that the program marks (layoutspy_step). By the thread that marks them; another
 * one that does at the same moment is not measured. errno is kept.
 */
#ifndef LS_MEASURE_H
#define LS_MEASURE_H

#include <stdbool.h>

/* Around the mark of a step: the step before it has ended, and the new one begins. */
void ls_measure_ended(void);
void ls_measure_begun(void);

/* Nothing is recorded now, since a step is left out. Any thread. */
bool ls_measure_leaves_out(void);

void ls_measure_fork_reset(void);

#endif
