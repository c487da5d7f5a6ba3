/*
 * collect.h - a spool's one reader at a time: follows a live target, or takes what was left.
 *
 * Collector and analyzer processes only; one thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_COLLECT_H
#define LAYOUTSPY_COLLECT_H

#include <stdbool.h>
#include <stddef.h>

/* Where the spool of a trace lies: TRACE.spool, or where that file points to. False: nowhere. */
bool ls_spool_find(const char *trace, char *spool, size_t size);

/*
 * Read the spool until its target is dead, finish the trace and remove the spool. `pid`: the
 * target's, to be sure that it is this one's spool, or 0. Returns an enum ls_exit, after one line
 * on stderr where it is not LS_EXIT_OK.
 */
int ls_collect_follow(const char *spool, int pid);

enum ls_collected {
    LS_COLLECTED,           /* all that was there is in the trace */
    LS_COLLECTED_NOTHING,   /* there is no spool any more */
    LS_COLLECTED_LIVE,      /* the target runs on; what it had recorded by now is in the trace */
    LS_COLLECTED_ELSEWHERE, /* the same, of a target in another pid namespace: it may be dead */
    LS_COLLECTED_BUSY,      /* another reader did not end in time */
    LS_COLLECTED_FAILED,    /* `why` has the rest of an error line; the spool is kept */
};

/*
 * Take what is in the spool now into `trace`, which may have been moved together with its spool
 * since; wait up to `wait_ms` for another reader to end.
 */
enum ls_collected ls_collect_once(const char *spool, const char *trace, int wait_ms, char *why,
                                  size_t size);

#endif
