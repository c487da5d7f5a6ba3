/*
 * idle.h - memory that was held while nothing used it: what `unused-allocation`, `early-allocation`
 * and `late-free` share.
 *
 * A stretch is a part of one life of memory in which it is known that nothing used it. Stretches of
 * one site make one finding, whose gain is what would come off the peak without them. Main thread
 * only; not for signal handlers.
 */
#ifndef LAYOUTSPY_DETECT_IDLE_H
#define LAYOUTSPY_DETECT_IDLE_H

#include "detect.h"
#include "uses.h"

enum ls_idle_part { LS_IDLE_UNUSED, LS_IDLE_EARLY, LS_IDLE_LATE };

struct ls_stretch {
    const struct ls_span *span;
    const struct ls_used *used;
    int64_t from_ns, to_ns; /* to_ns: the recording's end where nothing ended it */
    int64_t steps;          /* whole steps of the program in it */
};

/* Stretches of one site on one device. */
struct ls_idle {
    const struct ls_history *history;
    bool direct;                 /* of history->direct */
    const struct ls_stretch *at; /* the largest memory first */
    size_t count;
    int64_t bytes;      /* the most that lay idle at once */
    int64_t peak_bytes; /* the most that was live at once */
    int64_t gain;       /* of that, what would come off without them */
    int64_t peak_ns;
    const struct ls_oom_event *oom; /* it happened while they lay idle; NULL: none */
    int64_t oom_bytes;              /* of them, then */
    bool held;                      /* through a good part of the run, whatever the peak is */
};

/* Looks for stretches of a part of each life, and calls `tell` for each site that is worth it and
 * that no other detector has told of. SQLITE_OK, or the code of the query that failed. */
int ls_idle_each(struct ls_detect *d, const struct ls_detector *self, enum ls_idle_part part,
                 void (*tell)(struct ls_detect *d, const struct ls_detector *self,
                              const struct ls_idle *idle));

/* A finding with all that the three have in common: count, bytes, gain, site, severity, evidence.
 */
struct ls_finding *ls_idle_finding(struct ls_detect *d, const char *kind,
                                   const struct ls_idle *idle);

/* What a call was that used memory, as evidence: call, api, site, kernel; the words to name it by,
 * to be freed. */
json_t *ls_idle_call(struct ls_detect *d, int64_t call, char **words);

/* "382 ms (12 steps)". To be freed. */
char *ls_idle_long(const struct ls_stretch *stretch);

/* What it costs: "; without it the peak of ... would be ... less". To be freed. */
char *ls_idle_matter(const struct ls_idle *idle);

#endif
