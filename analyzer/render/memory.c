/*
 * memory.c - a device's memory over time and at moments as text. See memory.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "memory.h"

#include <stdlib.h>

#include "../ending.h"
#include "../human.h"
#include "../memory/growth.h"
#include "../memory/holders.h"
#include "../memory/timeline.h"
#include "../query.h"
#include "../term.h"
#include "device_use.h"
#include "held.h"
#include "render.h"

/* What a screen takes, of one device and of several. */
#define ROWS_SHOWN 14
#define ROWS_OF_MANY 6
#define SEGMENTS_SHOWN 5
#define SEGMENTS_OF_MANY 2
#define HOLDERS_SHOWN 10

static void title(FILE *out, const char *text) {
    ls_term_style(out, LS_BOLD);
    fputs(text, out);
    ls_term_style(out, LS_PLAIN);
}

void ls_render_memory_begin(const struct ls_trace *trace, bool json, size_t devices, FILE *out) {
    if (json) {
        fputs("{\"devices\": [", out);
        return;
    }
    char *program = ls_query_meta(trace->db, "cmdline"), *ending = ls_ending_text(trace->db);
    char text[1000];
    ls_render_incomplete(trace, out);
    title(out, trace->path);
    snprintf(text, sizeof text, "%.800s; the program %s.", program ? program : "program unknown",
             ending ? ending : "has no end in the trace");
    ls_render_wrapped(out, ": ", "  ", text, ls_term_width(out));
    if (devices == 0)
        fputs("No memory of a device is in this trace.\n", out);
    free(program);
    free(ending);
}

/* "12.4 s", "12.4 s, in step 7" or "12.4 s, after step 7" */
static const char *when_text(const struct ls_history *h, int64_t ts_ns, char *text, size_t size) {
    struct ls_human time;
    bool inside;
    size_t step = ls_growth_step(h, ts_ns, &inside);
    if (step)
        snprintf(text, size, "%s, %s step %zu", ls_human_ns(&time, ts_ns), inside ? "in" : "after",
                 step);
    else
        snprintf(text, size, "%s", ls_human_ns(&time, ts_ns));
    return text;
}

static void put_device(const struct ls_history *h, FILE *out) {
    struct ls_human bytes;
    char text[40];
    snprintf(text, sizeof text, "Device %d", h->device);
    title(out, text);
    if (h->capacity)
        fprintf(out, ", of %s", ls_human_bytes(&bytes, h->capacity));
    fputs(h->framework ? ", blocks of a framework's allocator.\n"
                       : ", what the program asked of CUDA itself.\n",
          out);
}

static void put_peaks(const struct ls_history *h, FILE *out) {
    struct ls_human bytes;
    char when[80];
    uint64_t most;
    int64_t ts_ns = ls_peak_live_ns(h, &most);
    if (ts_ns < 0)
        return;
    fprintf(out, "  most allocated: %s after %s\n", ls_human_bytes(&bytes, (int64_t)most),
            when_text(h, ts_ns, when, sizeof when));
    if (h->framework && (ts_ns = ls_peak_reserved_ns(h, &most)) >= 0)
        fprintf(out, "  most reserved:  %s after %s\n", ls_human_bytes(&bytes, (int64_t)most),
                when_text(h, ts_ns, when, sizeof when));
}

/* ---- timeline ---- */

static void put_row(const struct ls_history *h, const struct ls_timeline_row *row, bool steps,
                    FILE *out) {
    struct ls_human time, bytes[5];
    char step[24] = "-";
    if (row->step)
        snprintf(step, sizeof step, "%zu", row->step);
    fprintf(out, "  %12s", ls_human_ns(&time, row->ts_ns));
    if (steps)
        fprintf(out, " %7s", step);
    fprintf(out, " %11s", ls_human_bytes(&bytes[0], (int64_t)row->allocated));
    if (h->framework)
        fprintf(out, " %11s %11s %11s", ls_human_bytes(&bytes[1], (int64_t)row->reserved),
                ls_human_bytes(&bytes[2], (int64_t)row->pending),
                ls_human_bytes(&bytes[3], (int64_t)(row->reserved - row->allocated)));
    fprintf(out, " %11s\n", ls_human_bytes(&bytes[4], (int64_t)row->peak));
}

static void put_timeline(const struct ls_history *h, size_t rows, FILE *out) {
    struct ls_timeline timeline;
    ls_timeline_make(h, rows, &timeline);
    ls_term_style(out, LS_BOLD);
    fprintf(out, "  %12s", "from");
    if (timeline.by_step)
        fprintf(out, " %7s", "step");
    fprintf(out, " %11s", "allocated");
    if (h->framework)
        fprintf(out, " %11s %11s %11s", "reserved", "pending", "gap");
    fprintf(out, " %11s\n", "peak");
    ls_term_style(out, LS_PLAIN);
    for (size_t i = 0; i < timeline.count; i++)
        put_row(h, &timeline.row[i], timeline.by_step, out);
    ls_timeline_free(&timeline);
}

/* ---- moments ---- */

static void put_segments(const struct ls_history *h, int64_t ts_ns, const char *what, size_t most,
                         FILE *out) {
    struct ls_state state;
    char when[80], text[160];
    ls_state_at(h, ts_ns, &state);
    if (state.pieces) {
        snprintf(text, sizeof text, "Segments %s (%s):\n", what,
                 when_text(h, ts_ns, when, sizeof when));
        title(out, text);
        ls_render_pieces(h, &state, most, out);
    }
    ls_state_free(&state);
}

static void put_state(const struct ls_history *h, const struct ls_state *s, FILE *out) {
    struct ls_human live, reserved, pending, cached, hole, direct;
    char when[80];
    fprintf(out, "  After %s: %s allocated", when_text(h, s->ts_ns, when, sizeof when),
            ls_human_bytes(&live, (int64_t)s->live));
    if (h->framework)
        fprintf(
            out, ", %s reserved, %s pending;\n  %s cached and used by nobody, the largest hole %s",
            ls_human_bytes(&reserved, (int64_t)s->reserved),
            ls_human_bytes(&pending, (int64_t)s->pending),
            ls_human_bytes(&cached, (int64_t)s->cached), ls_human_bytes(&hole, (int64_t)s->hole));
    if (s->direct)
        fprintf(out, "; %s beside the allocator", ls_human_bytes(&direct, (int64_t)s->direct));
    fputs(".\n", out);
}

static void put_moment(const struct ls_history *h, const struct ls_memory_view *view, int64_t ts_ns,
                       FILE *out) {
    struct ls_state state;
    struct ls_growth growth;
    struct ls_holders holders;
    ls_state_at(h, ts_ns, &state);
    ls_growth_load(h, &growth);
    ls_holders_at(h, &growth, &state, &holders);
    put_state(h, &state, out);
    if (holders.count)
        ls_render_holders(&holders, view->all ? LS_EVERY_ROW : HOLDERS_SHOWN, out);
    if (state.pieces) {
        title(out, "Segments:\n");
        ls_render_pieces(h, &state, view->all ? LS_EVERY_ROW : HOLDERS_SHOWN, out);
    }
    ls_holders_free(&holders);
    ls_growth_free(&growth);
    ls_state_free(&state);
}

void ls_render_memory(const struct ls_history *history, const struct ls_memory_view *view,
                      int64_t at_ns, FILE *out) {
    const struct ls_history *h = history;
    bool many = view->devices > 1;
    size_t rows = view->points, segments = many ? SEGMENTS_OF_MANY : SEGMENTS_SHOWN;
    if (view->all)
        segments = LS_EVERY_ROW;
    if (rows == 0)
        rows = view->all ? h->steps + LS_GROWTH_SAMPLES : many ? ROWS_OF_MANY : ROWS_SHOWN;
    put_device(h, out);
    if (at_ns != LS_NO_MOMENT) {
        put_moment(h, view, at_ns, out);
        return;
    }
    put_peaks(h, out);
    ls_render_use(h->db, h->device, "  most in use:    ", "    ", out);
    put_timeline(h, rows, out);
    if (h->framework) {
        put_segments(h, ls_peak_live_ns(h, NULL), "when the most was allocated", segments, out);
        put_segments(h, h->end_ns, "at the end", segments, out);
    }
}
