/*
 * library_workspace.c - `library-workspace`: memory that a library was given to work in, one piece
 * for each handle and stream. Expected: said so that nobody takes it for a leak.
 *
 * Needs: what handles were told (table library_handle). Cost: the bytes. What grows with the
 * streams is stream_keyed_growth.c's. Main thread only; not for signal handlers.
 */
#include <string.h>

#include "../human.h"
#include "../json_text.h"
#include "detect.h"
#include "workspaces.h"

static bool same_library(const struct ls_workspaces *x, const struct ls_workspaces *y) {
    return x->device == y->device && strcmp(x->library, y->library) == 0;
}

/* All groups of one library and device that do not grow: sites, sums, the first pieces. */
struct expected {
    int64_t count, bytes, streams, handles, largest;
    const char *site; /* with the most bytes */
    json_t *sites, *rows;
};

static struct expected sum_up(const struct ls_workspaces *first) {
    struct expected e = {.sites = json_array(), .rows = json_array()};
    for (const struct ls_workspaces *g = first; g; g = g->next) {
        if (g->grows || !same_library(first, g))
            continue;
        e.count += (int64_t)g->count;
        e.bytes += g->most_bytes;
        if (g->streams > e.streams)
            e.streams = g->streams;
        if (g->handles > e.handles)
            e.handles = g->handles;
        if (!e.site || g->most_bytes > e.largest) {
            e.site = g->site;
            e.largest = g->most_bytes;
        }
        json_array_append_new(e.sites,
                              json_pack("{s:o, s:I, s:I}", "site", ls_json_text(g->site), "count",
                                        (json_int_t)g->count, "bytes", g->most_bytes));
        json_t *rows = ls_workspaces_rows(g);
        if (json_array_size(e.rows) < LS_WORKSPACE_ROWS)
            json_array_extend(e.rows, rows);
        json_decref(rows);
    }
    return e;
}

static void add_finding(struct ls_detect *d, const struct ls_detector *self,
                        const struct ls_workspaces *g) {
    struct ls_human count, bytes;
    struct expected e = sum_up(g);
    const char *library = ls_workspaces_library(g->library);
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->severity = LS_INFO;
    f->count = e.count;
    f->bytes = e.bytes;
    f->site = ls_format("%s", e.site);
    f->title =
        ls_format("%s works in %s of memory that it was given (%s %s: one for each handle and "
                  "stream): expected",
                  library, ls_human_bytes(&bytes, e.bytes), ls_human_count(&count, e.count),
                  ls_plural(e.count, "piece", "pieces"));
    json_object_set_new(
        f->evidence, "why",
        json_sprintf("%s keeps a workspace for each pair of a handle and a stream from the first "
                     "product on.%s",
                     library,
                     g->at[0].block ? " PyTorch takes it from its allocator and never gives it "
                                      "back: it stays allocated when every tensor is gone."
                                    : ""));
    f->advice = ls_format("Nothing to do%s",
                          !g->at[0].block ? "."
                                          : ": CUBLAS_WORKSPACE_CONFIG sets its size, if every "
                                            "MiB counts.");
    json_t *more = json_pack("{s:s, s:I, s:I, s:I, s:o, s:o}", "library", g->library, "device",
                             (json_int_t)g->device, "streams", e.streams, "handles", e.handles,
                             "sites", e.sites, "rows", e.rows);
    json_object_update(f->evidence, more);
    json_decref(more);
}

/* The first group of its library and device that does not grow. */
static bool is_first(const struct ls_workspaces *list, const struct ls_workspaces *group) {
    for (; list != group; list = list->next)
        if (!list->grows && same_library(list, group))
            return false;
    return !group->grows;
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    const struct ls_workspaces *list;
    int rc = ls_workspaces_read(d, &list);
    for (const struct ls_workspaces *g = list; rc == SQLITE_OK && g; g = g->next)
        if (is_first(list, g))
            add_finding(d, self, g);
    return rc;
}

const struct ls_detector ls_detect_library_workspace = {"library-workspace", run};
