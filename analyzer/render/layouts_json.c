/*
 * layouts_json.c - layouts of library calls' operands, and conversions, as JSON. See layouts.h.
 *
 * Main thread only; not for signal handlers.
 */
#include <jansson.h>
#include <stdlib.h>

#include "../json_text.h"
#include "../room.h"
#include "layouts.h"

static json_t *time_json(int64_t ns) {
    return ns == LS_NO_TIME ? json_null() : json_integer(ns);
}

static json_t *text_json(const char *text) {
    return text ? ls_json_text(text) : json_null();
}

/* JSON already. */
static json_t *numbers(const char *text) {
    json_t *array = text ? json_loads(text, 0, NULL) : NULL;
    return array ? array : json_null();
}

static json_t *operand_json(const struct ls_layout_operand *o) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:I, s:I}", "role", text_json(o->role),
                     "dtype", text_json(o->dtype), "layout", text_json(o->layout), "dims",
                     numbers(o->dims), "strides", numbers(o->strides), "ambiguous",
                     (int)o->ambiguous, "bytes", (json_int_t)o->bytes, "count",
                     (json_int_t)o->count);
}

static json_t *site_json(const struct ls_layout_site *site) {
    json_t *operands = json_array();
    for (size_t i = 0; i < site->operands; i++)
        json_array_append_new(operands, operand_json(&site->operand[i]));
    return json_pack("{s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "site", text_json(site->site), "api",
                     text_json(site->api), "operator", text_json(site->operator), "calls",
                     (json_int_t)site->calls, "duration_ns", (json_int_t)site->duration_ns,
                     "gpu_ns", time_json(site->gpu_ns), "operands", operands);
}

static json_t *change_json(const struct ls_layout_change *c) {
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "kernel", text_json(c->kernel),
                     "from_layout", text_json(c->from), "to_layout", text_json(c->to), "under_call",
                     text_json(c->under), "site", text_json(c->site), "count", (json_int_t)c->count,
                     "gpu_ns", time_json(c->gpu_ns));
}

static json_t *copier_json(const struct ls_layout_copier *c) {
    return json_pack("{s:o, s:I, s:I, s:o}", "operator", text_json(c->operator), "count",
                     (json_int_t)c->count, "changed", (json_int_t)c->changed, "gpu_ns",
                     time_json(c->gpu_ns));
}

void ls_render_layouts_json(const struct ls_layouts *l, FILE *out) {
    json_t *sites = json_array(), *changes = json_array(), *copiers = json_array();
    for (size_t i = 0; i < l->sites; i++)
        json_array_append_new(sites, site_json(&l->site[i]));
    for (size_t i = 0; i < l->changes; i++)
        json_array_append_new(changes, change_json(&l->change[i]));
    for (size_t i = 0; i < l->copiers; i++)
        json_array_append_new(copiers, copier_json(&l->copier[i]));
    json_t *all =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "kernel_ns",
                  l->kernel_ns > 0 ? json_integer(l->kernel_ns) : json_null(), "conversion_ns",
                  time_json(l->change_ns), "conversions", changes, "sites", sites, "operators",
                  copiers, "graph_launches", (json_int_t)l->graph_launches, "graph_ns",
                  l->graph_ns > 0 ? json_integer(l->graph_ns) : json_null());
    if (!all)
        ls_no_memory();
    json_dumpf(all, out, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    fputc('\n', out);
    json_decref(all);
}
