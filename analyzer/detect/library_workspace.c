/*
 * library_workspace.c - `library-workspace`: memory that a library was given to work in, one piece
 * for each handle and stream. Expected: said so that nobody takes it for a leak.
 *
 * Needs: what handles were told (table library_handle). Cost: the bytes. What grows with the
 * streams is stream_keyed_growth.c's. Main thread only; not for signal handlers.
 */
#include "../human.h"
#include "../json_text.h"
#include "detect.h"
#include "workspaces.h"

static void add_finding(struct ls_detect *d, const struct ls_detector *self,
                        const struct ls_workspaces *g) {
    struct ls_human count, bytes;
    const char *library = ls_workspaces_library(g->library);
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->severity = LS_INFO;
    f->count = (int64_t)g->count;
    f->bytes = g->most_bytes;
    f->site = ls_format("%s", g->site);
    f->title = ls_format("%s works in %s of memory that it was given (%s %s: one for each "
                         "handle and stream): expected",
                         library, ls_human_bytes(&bytes, g->most_bytes),
                         ls_human_count(&count, (int64_t)g->count),
                         ls_plural((int64_t)g->count, "piece", "pieces"));
    json_object_set_new(
        f->evidence, "why",
        json_sprintf("%s keeps a workspace for each pair of a handle and a stream from the first "
                     "product on.%s",
                     library,
                     g->at[0].block ? " PyTorch takes it from its allocator and never gives it "
                                      "back: it stays allocated when every tensor is gone."
                                    : ""));
    f->advice = ls_format("Nothing to do%s",
                          !d->pytorch ? "."
                                      : ": CUBLAS_WORKSPACE_CONFIG sets its size, if every "
                                        "MiB counts.");
    json_t *more = json_pack("{s:s, s:I, s:I, s:I, s:I, s:o}", "library", g->library, "device",
                             (json_int_t)g->device, "streams", g->streams, "handles", g->handles,
                             "total_bytes", g->bytes, "rows", ls_workspaces_rows(g));
    json_object_update(f->evidence, more);
    json_decref(more);
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct ls_workspaces *list;
    int rc = ls_workspaces_read(d, &list);
    for (const struct ls_workspaces *g = list; rc == SQLITE_OK && g; g = g->next)
        if (!g->grows)
            add_finding(d, self, g);
    ls_workspaces_free(list);
    return rc;
}

const struct ls_detector ls_detect_library_workspace = {"library-workspace", run};
