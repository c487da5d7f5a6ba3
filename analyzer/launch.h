/*
 * launch.h - starting a command under liblayoutspy.so and waiting for it.
 *
 * Used by `run`. One thread; the signal handler that passes signals on is async-signal-safe.
 */
#ifndef LAYOUTSPY_LAUNCH_H
#define LAYOUTSPY_LAUNCH_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "layoutspy/format.h"

struct ls_launch {
    const char *pattern;     /* of the trace's name; not owned */
    bool numbered;           /* a name that exists gets a number instead of a refusal */
    char **argv;             /* the command; not owned */
    char library[PATH_MAX];  /* what ls_launch_find_library() found */
    char trace[LS_PATH_MAX]; /* absolute path of the trace, once started */
    int64_t start_real_ns;   /* ns since 1970, when it was started */
    pid_t pid;
    int status; /* of waitpid(), once it has ended */
};

/* Find liblayoutspy.so beside this program. Returns LS_EXIT_OK, or prints one line. */
int ls_launch_find_library(struct ls_launch *launch);

/*
 * Fork and exec in this process group. Returns LS_EXIT_OK with `pid` and `trace` set. Else prints
 * one line and returns the status to exit with: 127 (no such command), 126 (it cannot be run), or
 * an enum ls_exit where no trace could be written.
 */
int ls_launch_start(struct ls_launch *launch);

/*
 * Wait for the command alone: the terminal's SIGINT and SIGQUIT are its own business, SIGTERM,
 * SIGHUP, SIGUSR1 and SIGUSR2 are passed on, and orphans are reaped where we are PID 1. Returns its
 * exit status, or 128 + the signal that ended it.
 */
int ls_launch_wait(struct ls_launch *launch);

#endif
