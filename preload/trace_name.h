/*
 * trace_name.h - which file a recording goes to, and claiming it.
 *
 *   LAYOUTSPY_OUT       a path or pattern (common/pattern.h). Where it exists: made in this very
 *                       run (by a parent or sibling that is recorded too), then NAME.PID.db is
 *                       taken; else refused, and nothing is recorded. A run is named by its first
 *                       process: the oldest of our ancestors that has the same setting.
 *   none                layoutspy.%p.db in the working directory, .2, .3 ... where that exists
 *   a forked child      NAME.PID.db beside its parent's trace
 * A name is claimed by creating the empty file (O_EXCL), so two processes never share one.
 */
#ifndef LS_TRACE_NAME_H
#define LS_TRACE_NAME_H

#include <stdbool.h>

#include "state.h"

/* Fill session->trace and create the file. False: nothing can be recorded, silently. */
bool ls_trace_name_claim(struct ls_session *session);

/* We are a forked child of the recording in `trace` ("" : the parent recorded nothing). */
void ls_trace_name_fork(const char *trace);

/* The parent's trace, or NULL. */
const char *ls_trace_name_parent(void);

#endif
