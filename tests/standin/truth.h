/*
 * truth.h - the ground-truth log (README.md) and the fault switch, for the device itself.
 *
 * The calls that fronts make are in standin.h; here are the notes that the device writes.
 *
 * STANDIN_FAIL=NAME:WHICH:STATUS[,NAME:WHICH:STATUS...] makes calls fail without any effect:
 * NAME is an exported symbol or `*`, WHICH the number of the call (1 is the first in the process)
 * or `*` for every one, STATUS what the call returns.
 *
 * Any thread; not in signal handlers.
 */
#ifndef STANDIN_TRUTH_H
#define STANDIN_TRUTH_H

#include <stdbool.h>

#include "standin.h"

/* Writes a line that starts with `#`, without its newline; a log is asked for or not. */
void sd_truth_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool sd_truth_wanted(void);

enum sd_truth_by { TRUTH_APP, TRUTH_STANDIN, TRUTH_LAYOUTSPY };
/* Who called, from a return address. */
enum sd_truth_by sd_truth_by(const void *caller);

#endif
