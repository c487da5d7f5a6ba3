/*
 * proc_stat.h - /proc/PID/stat: what tells a process from a later one with its pid.
 *
 * Used by the target's library and by the collector. Any thread; no allocation; errno may change.
 */
#ifndef LAYOUTSPY_COMMON_PROC_STAT_H
#define LAYOUTSPY_COMMON_PROC_STAT_H

#include <stdbool.h>
#include <sys/types.h>

struct ls_proc_stat {
    char state; /* R, S, Z, ... */
    int parent;
    long threads;
    unsigned long long start; /* field 22: clock ticks since boot */
    unsigned long long image; /* field 28: where its stack begins; 0: hidden from us */
};

/* False: there is no such process, or /proc is hidden. */
bool ls_proc_stat(pid_t pid, struct ls_proc_stat *stat);

#endif
