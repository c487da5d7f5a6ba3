/*
 * oom_parts.h - what oom.c and oom_parts.c share. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_OOM_PARTS_H
#define LAYOUTSPY_OOM_PARTS_H

#include "render.h"

/* How many of each a screen takes. */
struct ls_screen {
    size_t holders, changes, storages, later, findings;
    size_t advised; /* findings that are shown with their advice */
};

/* One wrapped line or more. */
void ls_screen_say(FILE *out, const char *first, const char *indent, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* That a list was cut; nothing where `more` is 0. */
void ls_screen_more(FILE *out, size_t more, const char *one, const char *many);
void ls_screen_title(FILE *out, const char *text);

/* What was done about a request that was refused, in order. */
void ls_screen_tried(const struct ls_oom_event *oom, FILE *out);

/* Requests beside the one that is told that a retry served. */
void ls_screen_stalls(const struct ls_story *story, FILE *out);

/* The screen of a trace in which no request failed for good. */
int ls_screen_none(const struct ls_trace *trace, const struct ls_story *story,
                   const struct ls_screen *screen, FILE *out);

/* The findings about memory, those first that explain the event; of a stall those of stalls alone.
 * The first with their advice, the others a line each; one of another event says so. */
int ls_screen_advice(const struct ls_trace *trace, const struct ls_story *story,
                     const struct ls_screen *screen, FILE *out);

#endif
