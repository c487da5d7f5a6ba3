/*
 * oom_json.c - out-of-memory errors as JSON. See render.h.
 *
 * Main thread only; not for signal handlers.
 */
#include <jansson.h>
#include <string.h>

#include "../json_text.h"
#include "held.h"
#include "render.h"

static json_t *tried_json(const struct ls_oom_event *oom) {
    static const char *const word[] = {
        "", "failed", "gave back", "waited", "asked for free memory", "succeeded", "reported"};
    json_t *array = json_array();
    for (size_t i = 0; i < oom->calls; i++) {
        int kind = oom->call[i].kind;
        bool known = kind > 0 && (size_t)kind < sizeof word / sizeof word[0];
        json_array_append_new(array,
                              json_pack("{s:I, s:s, s:o}", "call", (json_int_t)oom->call[i].call,
                                        "what", known ? word[kind] : "unknown", "bytes",
                                        ls_json_known(oom->call[i].bytes)));
    }
    return array;
}

static json_t *event_json(const struct ls_oom_event *oom) {
    const struct {
        const char *name;
        int64_t value;
    } figure[] = {
        {"requested", oom->requested},
        {"asked", oom->asked},
        {"capacity", oom->device_total},
        {"allocated", oom->allocated},
        {"reserved", oom->reserved},
        {"gap", ls_oom_event_gap(oom)},
        {"pending", oom->pending},
        {"cached", oom->cached},
        {"device_free", oom->device_free},
        {"largest_hole", oom->largest_hole},
        {"attempts", oom->attempts},
        {"flushed_calls", oom->flushed_calls},
        {"flushed_bytes", oom->flushed_bytes},
        {"flush_ns", oom->flush_ns},
        {"waited_ns", oom->waited_ns},
    };
    json_t *json =
        json_pack("{s:I, s:I, s:i, s:b, s:o, s:b, s:o, s:s}", "id", (json_int_t)oom->id, "ts_ns",
                  (json_int_t)oom->ts_ns, "device", oom->device, "recovered", oom->recovered,
                  "site", ls_json_text(oom->site), "backward", oom->backward, "owner",
                  oom->owner ? ls_json_text(oom->owner) : json_null(), "source",
                  oom->by_allocator ? "allocator" : "driver");
    for (size_t i = 0; i < sizeof figure / sizeof figure[0]; i++)
        json_object_set_new(json, figure[i].name, ls_json_known(figure[i].value));
    json_object_set_new(json, "tried", tried_json(oom));
    return json;
}

static json_t *events_json(const struct ls_story *story) {
    json_t *array = json_array();
    for (size_t i = 0; i < story->events.count; i++)
        json_array_append_new(array, event_json(&story->events.oom[i]));
    return array;
}

static json_t *cascade_json(const struct ls_story *story) {
    json_t *array = json_array();
    for (size_t i = 0; i < story->after_count; i++) {
        const struct ls_aftermath *a = &story->after[i];
        json_array_append_new(
            array, json_pack("{s:I, s:I, s:i, s:o, s:o, s:b, s:I, s:b}", "id",
                             (json_int_t)a->oom->id, "ts_ns", (json_int_t)a->oom->ts_ns, "device",
                             a->oom->device, "requested", ls_json_known(a->oom->requested), "site",
                             ls_json_text(a->oom->site), "backward", a->oom->backward, "outlived",
                             (json_int_t)a->outlived, "consequence", a->consequence));
    }
    return array;
}

static json_t *others_json(const struct ls_story *story) {
    json_t *array = json_array();
    for (size_t i = 0; i < story->others.count; i++) {
        const struct ls_other *o = &story->others.other[i];
        json_array_append_new(array,
                              json_pack("{s:o, s:I, s:I, s:b, s:b}", "trace", ls_json_text(o->path),
                                        "pid", (json_int_t)o->pid, "bytes", (json_int_t)o->bytes,
                                        "oom", o->ooms, "whole", o->whole));
    }
    return array;
}

/* Which event the rest is about; null where memory never ran out. */
static json_t *told_json(const struct ls_story *story) {
    const struct ls_holders *h = &story->holders;
    if (!story->oom)
        return json_null();
    return json_pack(
        "{s:I, s:I, s:o, s:I, s:o, s:I, s:o, s:I}", "event", (json_int_t)story->number, "id",
        (json_int_t)story->oom->id, "step",
        h->step ? json_integer((json_int_t)h->step) : json_null(), "steps", (json_int_t)h->steps,
        "since_step", h->since_step ? json_integer((json_int_t)h->since_step) : json_null(),
        "direct", (json_int_t)story->state.direct, "unaccounted", ls_json_known(story->unaccounted),
        "largest_before", (json_int_t)story->largest_before);
}

static void put(const char *name, json_t *value, FILE *out) {
    fprintf(out, " \"%s\": ", name);
    json_dumpf(value, out, JSON_ENCODE_ANY | JSON_PRESERVE_ORDER | JSON_INDENT(1));
    fputs(",\n", out);
    json_decref(value);
}

int ls_render_oom_json(const struct ls_trace *trace, const struct ls_story *story, FILE *out) {
    fputs("{\n", out);
    put("events", events_json(story), out);
    put("told", told_json(story), out);
    put("holders", ls_render_holders_json(&story->holders), out);
    put("segments", ls_render_pieces_json(story->history, &story->state), out);
    put("others", others_json(story), out);
    put("census", story->has_census ? ls_census_storages_json(&story->census) : json_array(), out);
    put("cascade", cascade_json(story), out);
    int rc = ls_render_json_array(trace, "findings",
                                  "SELECT " LS_FINDING_COLUMNS
                                  " FROM finding WHERE kind IN " LS_MEMORY_KINDS " ORDER BY id",
                                  out);
    fputs("\n}\n", out);
    return rc;
}
