/*
 * story.h - one out-of-memory error of a trace, and what was around it: what both renderings of
 * `layoutspy oom` tell.
 *
 * The detectors have run: their findings are rows of the trace. Sizes in bytes, times in ns since
 * the recording's start. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_STORY_H
#define LAYOUTSPY_STORY_H

#include "../census.h"
#include "../trace.h"
#include "growth.h"
#include "histories.h"
#include "holders.h"
#include "oom_events.h"
#include "others.h"

/* A later error, and what the one that is told has to do with it, as the finding `oom-cascade`
 * says. */
struct ls_aftermath {
    const struct ls_oom_event *oom;
    bool consequence;
    int64_t outlived; /* bytes of the failed step that were still there */
};

struct ls_story {
    struct ls_oom_events events;
    const struct ls_oom_event *oom; /* the one that is told; NULL: there is none */
    size_t number;                  /* of it, from 1 */
    /* Of its moment and its device; all empty without an oom. */
    const struct ls_history *history; /* NULL without an oom */
    struct ls_state state;
    struct ls_growth growth;
    struct ls_holders holders;
    struct ls_others others;
    /* The earlier error without whose remains it would have had room, as `oom-cascade` says. */
    const struct ls_oom_event *cause; /* NULL: none */
    int64_t cause_left;               /* bytes of its failed step that were still there */
    int64_t unaccounted;              /* of the device, that nothing here explains; -1: not known */
    uint64_t largest_before;          /* the largest request that was served before */
    const char *largest_site;         /* and who made it; NULL: none */
    struct ls_census census;          /* of this event; else of its cause; else made for no event */
    bool has_census;
    struct ls_aftermath *after; /* errors after the one that is told, on any device */
    size_t after_count;
};

/* Gather the story of the `number`-th oom (from 1), or where that is 0 of the first one that the
 * program got to see, else of none. `histories` outlive the story. Returns SQLITE_OK or the code of
 * the query that failed; free with ls_story_free() in any case. A number beyond them: story->oom is
 * NULL. */
int ls_story_load(struct ls_story *story, const struct ls_trace *trace,
                  struct ls_histories *histories, size_t number);
/* The number, from 1, of the event with this oom.id; 0: there is none. */
size_t ls_story_number(const struct ls_story *story, int64_t id);
void ls_story_free(struct ls_story *story);

#endif
