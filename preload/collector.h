/*
 * collector.h - starting the collector as a process of its own.
 */
#ifndef LS_COLLECTOR_H
#define LS_COLLECTOR_H

#include "state.h"

/*
 * Start `layoutspy collect` on the session's spool so that the target does not notice: no SIGCHLD,
 * no child that its wait() could meet, no shared descriptor, a session of its own. Where that
 * cannot be had (we are PID 1 or a subreaper: the orphan would be ours to reap), none is started
 * and the spool waits for the next `layoutspy` command.
 */
void ls_collector_start(struct ls_session *session);

/* How that went: for the coverage record. Static text, valid after ls_collector_start(). */
struct ls_collector_result {
    const char *state; /* "on" or "off" */
    const char *detail;
};
extern struct ls_collector_result ls_collector_result;

#endif
