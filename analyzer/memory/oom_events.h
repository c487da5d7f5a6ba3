/*
 * oom_events.h - the table `oom`, row by row, those that recovered too, with what was tried.
 *
 * For the verbs that show them; what they mean is judged in detect/oom_facts.h.
 * Sizes in bytes, times in ns since the recording's start. Everything belongs to the list, texts
 * too, and is valid until ls_oom_events_free(). One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_OOM_EVENTS_H
#define LAYOUTSPY_OOM_EVENTS_H

#include "history.h"

#define LS_OOM_UNKNOWN (-1) /* what a column that is NULL reads as */

enum ls_oom_kind { /* oom_call.kind */
                   LS_OOM_FAILED = 1,
                   LS_OOM_GIVEN_BACK,
                   LS_OOM_WAITED,
                   LS_OOM_ASKED_FREE,
                   LS_OOM_SUCCEEDED,
                   LS_OOM_REPORTED,
};

struct ls_oom_call {
    int64_t oom, call;
    int kind; /* enum ls_oom_kind */
    int64_t bytes;
};

struct ls_oom_event {
    int64_t id, ts_ns;
    int device;
    int64_t requested, asked;
    int64_t allocated, reserved, pending, cached;
    int64_t device_free, device_total, largest_hole;
    int64_t attempts, first_call, last_call;
    int64_t flushed_calls, flushed_bytes, flush_ns, waited_ns;
    uint32_t stack, thread; /* 0: none */
    bool by_allocator;      /* its report told of it; else a call of the runtime or the driver */
    bool recovered;
    const char *site;
    bool backward;     /* the site called the forward operation whose backward asked */
    const char *owner; /* a library that asked for itself, or NULL */
    const struct ls_oom_call *call;
    size_t calls;
};

struct ls_oom_events {
    struct ls_oom_event *oom; /* all, in the order of time */
    size_t count;
    size_t lost; /* those that did not recover */
    struct ls_oom_call *call;
    struct ls_oom_stretch *stretch; /* ls_oom_events_hold()'s own */
    size_t stretches;
};

/* False: the query failed (sqlite3_errmsg tells). Exits with one line where there is no memory. */
bool ls_oom_events_load(struct ls_oom_events *ooms, sqlite3 *db);
void ls_oom_events_free(struct ls_oom_events *ooms);

/* What stands before its site: "at", or "in the backward of". */
const char *ls_oom_event_at(const struct ls_oom_event *oom);

/* The first one that the program got an error of; NULL: none. */
const struct ls_oom_event *ls_oom_events_first_lost(const struct ls_oom_events *ooms);

/* Whether a call lies within what was done about a lack of memory: from the first call of an event
 * to its last one, in whatever thread. */
bool ls_oom_events_hold(const struct ls_oom_events *ooms, int64_t call);

/* "3 errors, 1 stall": how many of each; "none" of no event. Returns `text`. */
const char *ls_oom_events_words(const struct ls_oom_events *ooms, char *text, size_t size);

/* What its row does not tell, from the state at its moment: a recording that was killed, or that
 * still runs, has no figures there yet. */
void ls_oom_event_complete(struct ls_oom_event *oom, const struct ls_history *history,
                           const struct ls_state *state);

/* What its allocator held and nobody used: reserved - allocated; LS_OOM_UNKNOWN where either is. */
int64_t ls_oom_event_gap(const struct ls_oom_event *oom);

#endif
