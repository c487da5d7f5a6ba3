/*
 * detect.h - what a detector sees and makes.
 *
 * A detector reads the trace by SQL, and adds findings; detect.c ranks them and stores them in
 * `finding`, from where every renderer takes them. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_DETECT_H
#define LAYOUTSPY_DETECT_H

#include <jansson.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "../classify.h" /* enum ls_direction, enum ls_side_kind */
#include "../live.h"     /* enum ls_memory, enum ls_end */
#include "../memory/histories.h"
#include "../memory/oom_events.h"
#include "../phases.h"
#include "../trace.h"

#define LS_SITE_UNKNOWN "site unknown"

enum ls_severity { LS_INFO, LS_WARNING, LS_PROBLEM };

/* One finding, as the table's columns; numbers that do not apply are 0. */
struct ls_finding {
    const char *kind; /* not owned */
    enum ls_severity severity;
    char *title;  /* one sentence: the problem and how much. Owned, by malloc */
    char *site;   /* owned */
    char *advice; /* what to change. Owned */
    int64_t count, bytes, time_ns, gain_ns, gain_bytes;
    json_t *evidence; /* owned; an object with "confidence", and "why": what makes it cost */
};

/* One run of all detectors over one trace. */
struct ls_detect {
    sqlite3 *db;
    int64_t calls;    /* recorded calls */
    int64_t begin_ns; /* end of the first call (which makes the context), end of the last one */
    int64_t end_ns;
    int64_t run_ns;   /* length of the recording, at least 1 */
    int64_t capacity; /* bytes of the largest device, or LS_CAPACITY_UNKNOWN */
    bool capacity_known;
    bool abrupt;           /* it ended without its exit handlers: a signal, abort, _exit */
    bool running;          /* it has no end yet */
    bool died_of_oom;      /* it did nothing more after it had found no memory */
    bool pytorch;          /* its libraries were loaded */
    int64_t out_of_memory; /* calls that found no memory */
    bool several_devices;  /* calls were made on more than one */
    int64_t lost;          /* events that are missing from the trace */
    /* detect.c's own */
    struct ls_phases *phases;
    struct ls_histories *histories;
    struct ls_ooms *ooms;            /* oom_facts.h; NULL: not read yet */
    struct ls_oom_events oom_events; /* ls_detect_oom_events()'s */
    bool oom_events_read;
    struct ls_course *courses;        /* course.h; those that were asked for */
    struct ls_workspaces *workspaces; /* workspaces.h */
    bool workspaces_read;
    struct ls_flow *flow;                 /* flow.h; NULL: not read yet */
    struct ls_uses *uses;                 /* uses.h; NULL: not read yet */
    struct ls_convolutions *convolutions; /* convolutions.h */
    struct ls_products *products;         /* products.h */
    char *replays; /* what is said of graphs' launches (layout_cost.h); empty: there were none */
    struct ls_finding *finding;
    size_t finding_count, finding_room;
    json_t *skipped; /* array of [kind, reason] */
};

struct ls_detector {
    const char *kind;
    /* Returns SQLITE_OK, or the code of the query that failed. */
    int (*run)(struct ls_detect *d, const struct ls_detector *self);
};

/*
 * Run every detector and store what they found; a second run replaces the first. Where the trace
 * cannot be written the rows go to TEMP tables of the same names. Returns LS_EXIT_OK, or prints
 * one line and returns LS_EXIT_INPUT.
 */
int ls_detect_run(struct ls_trace *trace);

/* The same for callers that look at the histories, too: those that were loaded on the way are in
 * `histories`, which has no database yet, and are the caller's to free. */
int ls_detect_run_with(struct ls_trace *trace, struct ls_histories *histories);

/* --- for detectors ------------------------------------------------------------------------ */

/* A new, empty finding with confidence "seen" in its evidence. Valid until the next one. */
struct ls_finding *ls_finding_add(struct ls_detect *d, const char *kind);

/* Name the phase of the program (an NVTX range) that most of a finding lies in, if there is one:
 * evidence.nvtx_phase. `events`, with what sqlite3_mprintf() takes, selects start_ns, thread and
 * weight (bytes or time) of what the finding is made of. */
#define LS_STACKS_OF_SITE /* 0: no stack. The site twice, as %Q */                                 \
    "(SELECT id FROM stack_site WHERE COALESCE(site, '" LS_SITE_UNKNOWN "') = %Q"                  \
    " UNION ALL SELECT 0 WHERE %Q = '" LS_SITE_UNKNOWN "')"
void ls_finding_phase(struct ls_detect *d, struct ls_finding *f, const char *events, ...);

/* The finding of this kind at this site that was added before, or NULL. Valid until the next one.
 */
struct ls_finding *ls_finding_at(struct ls_detect *d, const char *kind, const char *site);

/* It tells of memory of this device: its evidence says so. */
bool ls_finding_of_device(const struct ls_finding *f, int device);

/* A device's memory over the recording, loaded at the first wish; NULL: the trace cannot be read,
 * or nothing was recorded on it. It belongs to `d`. */
const struct ls_history *ls_detect_history(struct ls_detect *d, int device);

/* All rows of `oom`, read at the first wish; NULL: the trace cannot be read. They belong to `d`. */
const struct ls_oom_events *ls_detect_oom_events(struct ls_detect *d);

/* Devices that memory was recorded on, in ascending order; returns how many, at most `room`. */
size_t ls_detect_devices(struct ls_detect *d, int *device, size_t room);

/* Say that a detector, or a part of it, could not run; several reasons are put together. */
void ls_detect_skip(struct ls_detect *d, const char *kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A malloc'ed formatted string; exits with one line where there is no memory. */
char *ls_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Exits with one line. */
void ls_detect_no_memory(void) __attribute__((noreturn));

/* The word for a memory kind: "device", "pinned". */
const char *ls_memory_kind_name(int kind);

/* Shares of the run, at most 1, and of the device: what severity and rank go by. */
double ls_share_of_run(const struct ls_detect *d, int64_t ns);
double ls_share_of_memory(const struct ls_detect *d, int64_t bytes);

/* --- the registry ------------------------------------------------------------------------- */

#define DETECTOR(name) extern const struct ls_detector ls_detect_##name;
#include "detectors.def"

#endif
