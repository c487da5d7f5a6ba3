/*
 * stream_keyed_growth.c - `stream-keyed-growth`: one more workspace of a library for each stream
 * (or handle) that a program ever uses, through the run; and handles that are made and never
 * destroyed.
 *
 * Needs: what handles were told (table library_handle). Cost: the bytes; of a handle itself
 * unknown, for the library allocates them out of our sight. Main thread only; not for signal
 * handlers.
 */
#include <stdlib.h>

#include "../human.h"
#include "../json_text.h"
#include "../query.h"
#include "detect.h"
#include "thresholds.h"
#include "workspaces.h"

/* The finding of another library's workspaces that grow with the same streams, or NULL. */
static struct ls_finding *same_growth(struct ls_detect *d, const struct ls_detector *self,
                                      const struct ls_workspaces *g) {
    struct ls_finding *f = ls_finding_at(d, self->kind, g->site);
    return f && ls_finding_of_device(f, g->device) ? f : NULL;
}

static void add_workspaces(struct ls_detect *d, const struct ls_detector *self,
                           const struct ls_workspaces *g) {
    struct ls_human count, each, bytes, keys;
    bool by_stream = g->streams >= g->handles;
    const char *key = by_stream ? "stream" : "handle";
    const char *library = ls_workspaces_library(g->library);
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->count = (int64_t)g->count;
    f->bytes = g->most_bytes;
    f->gain_bytes = g->most_bytes - g->at[0].bytes;
    f->severity = g->to_the_end || ls_share_of_memory(d, f->gain_bytes) >= LS_SHARE_PROBLEM
                      ? LS_PROBLEM
                      : LS_WARNING;
    f->site = ls_format("%s", g->site);
    f->title = ls_format(
        "%s's workspaces grow with the %ss used%s: %s of %s, %s in all, for %s %ss", library, key,
        g->capturing ? " for captures" : "", ls_human_count(&count, (int64_t)g->count),
        ls_human_bytes(&each, g->bytes / (int64_t)g->count), ls_human_bytes(&bytes, g->most_bytes),
        ls_human_count(&keys, by_stream ? g->streams : g->handles), key);
    json_object_set_new(
        f->evidence, "why",
        json_sprintf(
            "%s keeps a workspace for each pair of a handle and a stream for as long as the "
            "handle lives. Each new %s brings one more, which nothing gives back.",
            library, key));
    if (!by_stream)
        f->advice = ls_format("Make one handle per thread and device, and keep it.");
    else if (g->capturing)
        f->advice = ls_format("Capture all graphs on one stream, made once%s: they then share one "
                              "workspace.",
                              d->pytorch ? " (torch.cuda.graph(graph, stream=capture_stream), or "
                                           "leave out `stream`)"
                                         : "");
    else
        f->advice = ls_format("Use a fixed set of streams for this work, made once: a workspace "
                              "belongs to the stream.");
    json_t *more = json_pack(
        "{s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:o, s:b, s:o, s:{s:s, s:s}}", "library", g->library,
        "device", (json_int_t)g->device, "key", key, "streams", g->streams, "handles", g->handles,
        "workspaces", (json_int_t)g->count, "total_bytes", g->bytes, "used_at",
        ls_json_text(g->used), "capturing", g->capturing, "rows", ls_workspaces_rows(g), "gain",
        "confidence", "estimated", "assumes", "one workspace serves all");
    json_object_update(f->evidence, more);
    json_decref(more);
}

/* Handles of one site that were never destroyed: the time of each in the order of calls. */
static int read_handles(struct ls_detect *d, const struct ls_detector *self) {
    static const char sql[] =
        "SELECT library, device, site, COUNT(*), MIN(ts_ns), MAX(ts_ns), COUNT(DISTINCT "
        "(call - ?2) * 4 / (?3 + 1 - ?2)), made FROM ("
        "SELECT h.library, h.device, ts_ns, h.id AS call, COALESCE((SELECT site FROM stack_site WHERE"
        " stack_site.id = h.stack), ?1) AS site, (SELECT COUNT(*) FROM library_handle AS a WHERE"
        " a.kind = 1 AND a.library = h.library) AS made FROM library_handle AS h JOIN"
        " (SELECT library AS l, handle AS n, MAX(CASE kind WHEN 1 THEN id END) AS made_by,"
        "  MAX(CASE kind WHEN 2 THEN id END) AS ended_by FROM library_handle WHERE kind IN (1, 2)"
        "  GROUP BY library, handle) ON l = h.library AND n = h.handle"
        " WHERE h.id = made_by AND made_by > COALESCE(ended_by, 0))"
        " GROUP BY library, device, site HAVING COUNT(*) >= ?4";
    sqlite3_stmt *stmt;
    int64_t first = ls_query_int(d->db, 0, "SELECT MIN(id) FROM library_handle WHERE kind = 1");
    int rc = sqlite3_prepare_v2(d->db, sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    sqlite3_bind_text(stmt, 1, LS_SITE_UNKNOWN, -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 2, first);
    sqlite3_bind_int64(stmt, 3, ls_query_int(d->db, 0, "SELECT MAX(id) FROM call"));
    sqlite3_bind_int(stmt, 4, LS_REPEATED);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *site = (const char *)sqlite3_column_text(stmt, 2);
        struct ls_finding *f;
        struct ls_human count;
        if (sqlite3_column_int(stmt, 6) < LS_GROWTH_QUARTERS)
            continue;
        f = ls_finding_add(d, self->kind);
        f->severity = LS_WARNING;
        f->count = sqlite3_column_int64(stmt, 3);
        f->site = ls_format("%s", site);
        f->title = ls_format("%s handles of %s were made throughout the run and never destroyed",
                             ls_human_count(&count, f->count),
                             ls_workspaces_library((const char *)sqlite3_column_text(stmt, 0)));
        f->advice = ls_format("Make one handle per thread and device, and keep it; destroy what is "
                              "no longer used.");
        json_t *more = json_pack("{s:o, s:I, s:s, s:I, s:I, s:I, s:I}", "library",
                                 ls_json_text((const char *)sqlite3_column_text(stmt, 0)), "device",
                                 (json_int_t)sqlite3_column_int64(stmt, 1), "key", "handle",
                                 "handles", (json_int_t)f->count, "handles_made",
                                 (json_int_t)sqlite3_column_int64(stmt, 7), "first_ns",
                                 (json_int_t)sqlite3_column_int64(stmt, 4), "last_ns",
                                 (json_int_t)sqlite3_column_int64(stmt, 5));
        json_object_update(f->evidence, more);
        json_decref(more);
        json_object_set_new(
            f->evidence, "why",
            json_string("Each handle takes device memory of its own, some MiB that no hook sees, "
                        "and time to make, for the device is waited for."));
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    const struct ls_workspaces *list;
    int rc = ls_workspaces_read(d, &list);
    bool told = false; /* handles by their workspaces */
    for (const struct ls_workspaces *g = list; rc == SQLITE_OK && g; g = g->next) {
        struct ls_finding *same = g->grows ? same_growth(d, self, g) : NULL;
        if (same)
            json_object_set_new(same->evidence, "beside",
                                json_pack("{s:s, s:I, s:I}", "library", g->library, "workspaces",
                                          (json_int_t)g->count, "bytes", g->most_bytes));
        else if (g->grows)
            add_workspaces(d, self, g);
        told |= g->grows && g->handles > g->streams;
    }
    return rc == SQLITE_OK && !told ? read_handles(d, self) : rc;
}

const struct ls_detector ls_detect_stream_keyed_growth = {"stream-keyed-growth", run};
