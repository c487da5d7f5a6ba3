/*
 * memory_json.c - a device's memory over time and at moments as JSON. See memory.h.
 *
 * Main thread only; not for signal handlers.
 */
#include <jansson.h>

#include "../json_text.h"
#include "../memory/growth.h"
#include "../memory/holders.h"
#include "../memory/timeline.h"
#include "device_use.h"
#include "held.h"
#include "memory.h"

#define EVERY_STEP 100000 /* rows where nobody said how many */

static json_t *moment_json(const struct ls_history *h, const char *what, int64_t ts_ns) {
    struct ls_state state;
    struct ls_growth growth;
    struct ls_holders holders;
    ls_state_at(h, ts_ns, &state);
    ls_growth_load(h, &growth);
    ls_holders_at(h, &growth, &state, &holders);
    json_t *json =
        json_pack("{s:s, s:I, s:o, s:I, s:I, s:I, s:I, s:o, s:I, s:o, s:o}", "what", what, "ts_ns",
                  (json_int_t)ts_ns, "step",
                  holders.step ? json_integer((json_int_t)holders.step) : json_null(), "allocated",
                  (json_int_t)state.live, "pending", (json_int_t)state.pending, "reserved",
                  (json_int_t)state.reserved, "cached", (json_int_t)state.cached, "largest_hole",
                  h->framework ? json_integer((json_int_t)state.hole) : json_null(), "direct",
                  (json_int_t)state.direct, "holders", ls_render_holders_json(&holders), "segments",
                  ls_render_pieces_json(h, &state));
    ls_holders_free(&holders);
    ls_growth_free(&growth);
    ls_state_free(&state);
    return json;
}

static json_t *timeline_json(const struct ls_history *h, size_t points, bool *by_step) {
    struct ls_timeline timeline;
    json_t *array = json_array();
    size_t steps;
    ls_growth_loop(h, &steps);
    if (points == 0)
        points = steps == 0 ? LS_GROWTH_SAMPLES : steps < EVERY_STEP ? steps + 1 : EVERY_STEP;
    ls_timeline_make(h, points, &timeline);
    *by_step = timeline.by_step;
    for (size_t i = 0; i < timeline.count; i++) {
        const struct ls_timeline_row *row = &timeline.row[i];
        json_array_append_new(
            array,
            json_pack("{s:I, s:o, s:I, s:I, s:I, s:I, s:I}", "ts_ns", (json_int_t)row->ts_ns,
                      "step", row->step ? json_integer((json_int_t)row->step) : json_null(),
                      "allocated", (json_int_t)row->allocated, "reserved",
                      (json_int_t)row->reserved, "pending", (json_int_t)row->pending, "gap",
                      (json_int_t)(row->reserved - row->allocated), "peak", (json_int_t)row->peak));
    }
    ls_timeline_free(&timeline);
    return array;
}

static json_t *peak_json(int64_t ts_ns, uint64_t bytes) {
    return ts_ns < 0
               ? json_null()
               : json_pack("{s:I, s:I}", "ts_ns", (json_int_t)ts_ns, "bytes", (json_int_t)bytes);
}

void ls_render_memory_json(const struct ls_history *history, const struct ls_memory_view *view,
                           int64_t at_ns, bool first, FILE *out) {
    uint64_t live = 0, reserved = 0;
    bool by_step = false;
    int64_t peak_ns = ls_peak_live_ns(history, &live);
    int64_t reserved_ns = ls_peak_reserved_ns(history, &reserved);
    json_t *moments = json_array(), *json;
    if (at_ns != LS_NO_MOMENT)
        json_array_append_new(moments, moment_json(history, "at", at_ns));
    else if (peak_ns >= 0) {
        json_array_append_new(moments, moment_json(history, "peak", peak_ns));
        json_array_append_new(moments, moment_json(history, "end", history->end_ns));
    }
    json_t *timeline = timeline_json(history, view->points, &by_step);
    json = json_pack("{s:i, s:o, s:b, s:b, s:o, s:o, s:o, s:o, s:o}", "device", history->device,
                     "capacity", history->capacity ? json_integer(history->capacity) : json_null(),
                     "framework", history->framework, "by_step", by_step, "peak",
                     peak_json(peak_ns, live), "peak_reserved", peak_json(reserved_ns, reserved),
                     "timeline", timeline, "moments", moments, "device_use",
                     ls_render_use_json(history->db, history->device));
    fputs(first ? "\n" : ",\n", out);
    json_dumpf(json, out, JSON_PRESERVE_ORDER | JSON_INDENT(1));
    json_decref(json);
}

void ls_render_memory_json_end(FILE *out) {
    fputs("\n]}\n", out);
}
