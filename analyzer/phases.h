/*
 * phases.h - the phases that the program told by NVTX ranges: from marks to rows, and which phase
 * something happened in.
 *
 * ls_phases_build: collector processes; the others: analyzer processes. One thread; not
 * async-signal-safe.
 */
#ifndef LAYOUTSPY_PHASES_H
#define LAYOUTSPY_PHASES_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "trace_db.h"

/* Rows of `phase` from those of `mark`; those that were there are replaced. */
void ls_phases_build(struct ls_trace_db *db);

/* All phases of a trace, for look-ups. */
struct ls_phases;

/* NULL where the trace has none (also one of an older version). ls_phases_free() takes NULL. */
struct ls_phases *ls_phases_load(sqlite3 *db);
void ls_phases_free(struct ls_phases *phases);

/* What most of a sum of weights fell into. */
struct ls_phase_share {
    const char *name;   /* valid as long as the phases are; NULL: no phase has that much */
    const char *domain; /* "" the default one */
    double share;       /* of the whole weight, above LS_PHASE_SHARE */
};

#define LS_PHASE_SHARE 0.8

/*
 * The phase, by name and domain, that holds the share or more of the events; where several do (one
 * inside of another), the innermost. `events` selects start_ns, thread and weight; it is stepped to
 * its end, and not finalized. Returns SQLITE_OK or the error's code.
 */
int ls_phases_share(struct ls_phases *phases, sqlite3_stmt *events, struct ls_phase_share *share);

#endif
