/*
 * census.c - a census as text and as JSON. See render.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "../census.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "../term.h"
#include "render.h"

/* Lines for a person: whoever wants the rest takes --json. */
#define GROUPS_SHOWN 30
#define INDENT "   "

/* ---- text ---- */

static void *need(void *memory) {
    if (!memory) {
        fputs("layoutspy: out of memory while showing a census\n", stderr);
        exit(LS_EXIT_INPUT);
    }
    return memory;
}

static void put_amounts(const struct ls_storage_group *g, bool devices, FILE *out) {
    struct ls_human bytes, storages, tensors, views, graph;
    ls_term_style(out, LS_BOLD);
    fprintf(out, "%10s", ls_human_bytes(&bytes, (int64_t)g->bytes));
    ls_term_style(out, LS_PLAIN);
    if (g->storages > 1)
        fprintf(out, "  %s storages,", ls_human_count(&storages, (int64_t)g->storages));
    fprintf(out, "  %s %s", ls_human_count(&tensors, (int64_t)g->tensors),
            ls_plural((int64_t)g->tensors, "tensor", "tensors"));
    if (g->views)
        fprintf(out, " (%s %s)", ls_human_count(&views, (int64_t)g->views),
                ls_plural((int64_t)g->views, "view", "views"));
    if (g->held_by_graph)
        fprintf(out, ", and %s behind %s in autograd's graph",
                ls_human_bytes(&graph, (int64_t)g->held_by_graph), g->tensors > 1 ? "them" : "it");
    fprintf(out, "   ");
    ls_term_style(out, LS_DIM);
    fprintf(out, "%s", g->storage[0]->site);
    if (devices)
        fprintf(out, "  device %d", g->storage[0]->device);
    ls_term_style(out, LS_PLAIN);
    fputc('\n', out);
}

static void put_path(const struct ls_storage_group *g, FILE *out) {
    struct ls_human more;
    int64_t others = g->paths - (int64_t)g->storages;
    fprintf(out, "%12s%s", "", *g->pattern ? g->pattern : "no path leads to it");
    if (*g->pattern && others > 0)
        fprintf(out, "  and %s other %s", ls_human_count(&more, others),
                ls_plural(others, "path", "paths"));
    fputc('\n', out);
}

static void put_shape(const struct ls_storage_group *g, FILE *out) {
    const struct ls_counted_tensor *t = ls_census_tensor(g->storage[0]);
    if (!t)
        return;
    fprintf(out, "%12s%s %s", "", t->dtype, t->dims);
    if (!t->contiguous)
        fprintf(out, " strides %s, not contiguous", t->strides);
    if (t->requires_grad)
        fputs(", requires grad", out);
    if (g->held & LS_HELD_GRAPH)
        fputs(", saved for backward", out);
    if (g->held & LS_HELD_RAISED)
        fputs(", held by an exception's traceback", out);
    else if (g->held & LS_HELD_LOCAL && !(g->held & LS_HELD_GLOBAL))
        fputs(", held by a running function's variable", out);
    if (g->held & LS_HELD_LOST)
        fputs(", only in a reference cycle", out);
    fputc('\n', out);
}

static void put_head(const struct ls_trace *trace, const struct ls_census *c, FILE *out) {
    struct ls_human when, took, bytes, storages, tensors, objects, nodes;
    ls_term_style(out, LS_BOLD);
    fprintf(out, "%s", trace->path);
    ls_term_style(out, LS_PLAIN);
    fprintf(out, ": census %" PRId64 ", %s, %s after the start", c->id,
            ls_census_reason_text(c->reason), ls_human_ns(&when, c->ts_ns));
    if (c->state == LS_CENSUS_FAILED) {
        fprintf(out, "\n" INDENT "It could not run: %s\n", c->detail ? c->detail : "unknown why");
        return;
    }
    if (c->end_ns >= 0)
        fprintf(out, ", in %s\n", ls_human_ns(&took, c->end_ns - c->ts_ns));
    else
        fputs("\n" INDENT
              "It never ended: the program did, or the recording goes on. What it found "
              "is here.\n",
              out);
    if (c->state == LS_CENSUS_CUT)
        fprintf(out, INDENT "It was cut short: %s. What it found is here.\n",
                c->detail ? c->detail : "unknown why");
    fprintf(out, INDENT "%s in %s %s", ls_human_bytes(&bytes, (int64_t)c->bytes),
            ls_human_count(&storages, (int64_t)c->storages),
            ls_plural((int64_t)c->storages, "storage", "storages"));
    if (c->end_ns >= 0)
        fprintf(out, "; %s device %s among %s objects, %s graph %s",
                ls_human_count(&tensors, c->tensors), ls_plural(c->tensors, "tensor", "tensors"),
                ls_human_count(&objects, c->objects), ls_human_count(&nodes, c->nodes),
                ls_plural(c->nodes, "node", "nodes"));
    fputs("\n\n", out);
}

void ls_render_census_storages(const struct ls_census *census, size_t most, FILE *out) {
    struct ls_storage_group *group;
    size_t groups = ls_census_groups(census, NULL, NULL, &group);
    struct ls_human bytes, count;
    uint64_t rest = 0;
    bool devices = false;
    for (size_t i = 1; i < census->storages; i++)
        devices |= census->storage[i].device != census->storage[0].device;
    for (size_t i = 0; i < groups; i++) {
        if (i < most) {
            put_amounts(&group[i], devices, out);
            put_path(&group[i], out);
            put_shape(&group[i], out);
        } else {
            rest += group[i].bytes;
        }
    }
    if (groups > most)
        fprintf(out, "%10s  in %s more; --json has them all\n",
                ls_human_bytes(&bytes, (int64_t)rest),
                ls_human_count(&count, (int64_t)(groups - most)));
    ls_census_groups_free(group, groups);
}

/* ---- JSON ---- */

static json_t *integer(uint64_t value) {
    return json_integer((json_int_t)value);
}

/* dims and strides are JSON already. */
static json_t *numbers(const char *text) {
    json_t *array = json_loads(text, 0, NULL);
    return array ? array : json_array();
}

static json_t *words(int held) {
    static const char *const word[] = {"global", "local", "exception", "graph", "cycle"};
    json_t *array = json_array();
    for (size_t i = 0; i < sizeof word / sizeof word[0]; i++)
        if (held & 1 << i)
            json_array_append_new(array, json_string(word[i]));
    return array;
}

static json_t *tensor_json(const struct ls_counted_tensor *t) {
    json_t *paths = json_array();
    for (size_t i = 0; i < t->path_count; i++)
        json_array_append_new(paths, ls_json_text(t->path[i]));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:o, s:I, s:o}", "object",
                     integer(t->object), "class", ls_json_text(t->class), "dtype",
                     ls_json_text(t->dtype), "dims", numbers(t->dims), "strides",
                     numbers(t->strides), "bytes", integer(t->bytes), "contiguous", t->contiguous,
                     "requires_grad", t->requires_grad, "view", t->view, "held", words(t->held),
                     "path_count", (json_int_t)t->paths, "paths", paths);
}

static json_t *storage_json(const struct ls_counted_storage *s) {
    json_t *paths = json_array(), *list = json_array();
    for (size_t i = 0; i < s->tensors; i++) {
        for (size_t p = 0; p < s->tensor[i].path_count; p++)
            json_array_append_new(paths, ls_json_text(s->tensor[i].path[p]));
        json_array_append_new(list, tensor_json(&s->tensor[i]));
    }
    return json_pack("{s:o, s:I, s:I, s:o, s:o, s:i, s:o, s:o, s:o, s:o}", "bytes",
                     integer(s->bytes), "tensors", (json_int_t)s->tensors, "views",
                     (json_int_t)s->views, "paths", paths, "held_by_graph",
                     integer(s->held_by_graph), "device", s->device, "address", integer(s->address),
                     "site", ls_json_text(s->site), "held", words(s->held), "tensor_list", list);
}

json_t *ls_census_storages_json(const struct ls_census *census) {
    json_t *array = need(json_array());
    for (size_t i = 0; i < census->storages; i++)
        json_array_append_new(array, need(storage_json(&census->storage[i])));
    return array;
}

static json_t *census_json(const struct ls_census *c) {
    static const char *const reason[] = {"", "oom", "asked", "exit"};
    static const char *const state[] = {"", "unfinished", "complete", "cut", "failed"};
    json_t *json = json_pack(
        "{s:I, s:I, s:o, s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:I}", "id", (json_int_t)c->id, "ts_ns",
        (json_int_t)c->ts_ns, "end_ns", c->end_ns < 0 ? json_null() : json_integer(c->end_ns),
        "reason", c->reason < LS_CENSUS_REASONS ? reason[c->reason] : "", "state",
        c->state < LS_CENSUS_STATES ? state[c->state] : "", "detail",
        c->detail ? ls_json_text(c->detail) : json_null(), "oom",
        c->oom ? json_integer(c->oom) : json_null(), "objects", (json_int_t)c->objects, "tensors",
        (json_int_t)c->tensors, "nodes", (json_int_t)c->nodes, "bytes", (json_int_t)c->bytes);
    json_object_set_new(need(json), "storages", ls_census_storages_json(c));
    return json;
}

/* ---- one, or every one ---- */

static int each(const struct ls_trace *trace, int64_t id,
                void (*show)(const struct ls_trace *trace, const struct ls_census *census,
                             void *context),
                void *context) {
    struct ls_census census;
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(
        trace->db, "SELECT id FROM census WHERE id = ?1 OR ?1 = -1 ORDER BY id", -1, &stmt, NULL);
    sqlite3_bind_int64(stmt, 1, id);
    while (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        rc = SQLITE_OK;
        if (!ls_census_load(&census, trace->db, sqlite3_column_int64(stmt, 0))) {
            rc = sqlite3_errcode(trace->db);
            break;
        }
        show(trace, &census, context);
        ls_census_free(&census);
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static void show_json(const struct ls_trace *trace, const struct ls_census *census, void *context) {
    (void)trace;
    json_array_append_new(context, census_json(census));
}

int ls_render_census_json(const struct ls_trace *trace, int64_t id, FILE *out) {
    json_t *array = need(json_array()), *whole = need(json_pack("{s:o}", "census", array));
    int rc = each(trace, id, show_json, array);
    if (rc == SQLITE_OK) {
        json_dumpf(whole, out, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
        fputc('\n', out);
    }
    json_decref(whole);
    return rc;
}

struct shown {
    FILE *out;
    bool any;
};

static void show_text(const struct ls_trace *trace, const struct ls_census *census, void *context) {
    struct shown *shown = context;
    if (shown->any)
        fputc('\n', shown->out);
    shown->any = true;
    put_head(trace, census, shown->out);
    ls_render_census_storages(census, GROUPS_SHOWN, shown->out);
}

int ls_render_census(const struct ls_trace *trace, int64_t id, FILE *out) {
    struct shown shown = {out, false};
    int rc = each(trace, id, show_text, &shown);
    if (rc == SQLITE_OK && !shown.any)
        ls_render_wrapped(out, "", "",
                          "No census in this trace. One is made after an out-of-memory error of a "
                          "Python program, by `layoutspy census PID`, or at exit with "
                          "LAYOUTSPY_CENSUS=exit.",
                          ls_term_width(out));
    return rc;
}
