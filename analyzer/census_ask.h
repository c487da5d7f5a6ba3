/*
 * census_ask.h - a running process's recording, and asking it for a census.
 *
 * No signal and no debugger: a number in the spool's header, which the process reads at its next
 * recorded call. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_CENSUS_ASK_H
#define LAYOUTSPY_CENSUS_ASK_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "layoutspy/format.h"

struct ls_recorded {
    pid_t pid;
    char spool[PATH_MAX]; /* as this process can open them, */
    char trace[PATH_MAX]; /* from another container too */
};

/* The process that a word of digits names (one too large to be any: INT_MAX), or 0. */
pid_t ls_recorded_pid(const char *word);

/* Find the recording of a process. Returns LS_EXIT_OK, or prints one line and returns
 * LS_EXIT_INPUT. */
int ls_recorded_find(struct ls_recorded *recorded, pid_t pid);

/* Ask it for a census and wait for at most `wait_ms`. *census: its number. Returns as above. */
int ls_census_ask(const struct ls_recorded *recorded, int64_t wait_ms, int64_t *census);

#endif
