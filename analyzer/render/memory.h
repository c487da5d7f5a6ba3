/*
 * memory.h - a device's memory over time and at moments, as text and as JSON.
 *
 * Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_RENDER_MEMORY_H
#define LAYOUTSPY_RENDER_MEMORY_H

#include <stdio.h>

#include "../memory/at.h"
#include "../memory/history.h"
#include "../trace.h"

#define LS_NO_MOMENT (-1)

struct ls_memory_view {
    size_t points;   /* rows of the timeline; 0: what a screen takes, of JSON every step */
    size_t devices;  /* how many are shown */
    struct ls_at at; /* what the moment was called */
    bool all;        /* not only what a screen takes */
};

/* What comes before the devices. */
void ls_render_memory_begin(const struct ls_trace *trace, bool json, size_t devices, FILE *out);

/* One device: its timeline, or the moment at_ns where that is not LS_NO_MOMENT. */
void ls_render_memory(const struct ls_history *history, const struct ls_memory_view *view,
                      int64_t at_ns, FILE *out);

/* {"devices": [{"device", "capacity", "by_step", "peak", "peak_reserved", "timeline": [...],
 * "moments": [...]}, ...]}; a moment: "what", "ts_ns", "step", "allocated", ..., "holders",
 * "segments". */
void ls_render_memory_json(const struct ls_history *history, const struct ls_memory_view *view,
                           int64_t at_ns, bool first, FILE *out);
void ls_render_memory_json_end(FILE *out);

#endif
