/*
 * flow_time.h - when: the steps of the program, and what relayouts took. For flow.c alone. Main
 * thread only.
 */
#ifndef LAYOUTSPY_DETECT_FLOW_TIME_H
#define LAYOUTSPY_DETECT_FLOW_TIME_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "../memory/history.h"
#include "flow.h"

/* The GPU's times of relayouts: of their own runs, or else the mean of their kernel's. */
void ls_flow_time(struct ls_flow *flow, sqlite3 *db);

/* The steps of the main loop (ls_growth_loop()). */
struct ls_flow_steps;
struct ls_flow_steps *ls_flow_steps_new(const struct ls_history *history);
void ls_flow_steps_free(struct ls_flow_steps *steps);

/* As ls_growth_step(), in no time. */
size_t ls_flow_step(const struct ls_flow_steps *steps, int64_t ts_ns, bool *inside);

#endif
