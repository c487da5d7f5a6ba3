/*
 * watch.h - does the recorded program still run?
 *
 * By pidfd where the kernel has them, and by /proc. A pid that was given to another process since
 * is told by its start time, a process that runs another program since (exec) by where its stack
 * begins. One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_WATCH_H
#define LAYOUTSPY_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ls_watch {
    pid_t pid;
    uint64_t start;    /* /proc/PID/stat field 22 */
    uint64_t image;    /* field 28, 0: not known */
    int pidfd;         /* -1: there are none */
    int64_t looked_ms; /* at /proc */
    bool elsewhere;    /* in a pid namespace that is not ours, and may be alive there */
    bool dead;
    bool replaced; /* dead by an exec */
};

/* `space`: inode of its pid namespace, 0 unknown. One that runs elsewhere is never taken for dead.
 */
void ls_watch_init(struct ls_watch *watch, pid_t pid, uint64_t start, uint64_t image,
                   uint64_t space);
bool ls_watch_dead(struct ls_watch *watch);
void ls_watch_destroy(struct ls_watch *watch);

#endif
