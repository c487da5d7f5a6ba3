/*
 * copy_dominated.c - `copy-dominated`: most of what the GPU's kernels do is to move data: copies,
 * casts, changes of layout. Told by the names of kernels alone, outside of calls of libraries:
 * for engines inside of which no call is seen (TensorRT's reformat layers).
 *
 * Needs: times of kernels. Cost: all of the copies' time. Main thread only; not for signal
 * handlers.
 */
#include <stdlib.h>

#include "../human.h"
#include "../json_text.h"
#include "../query.h"
#include "../room.h"
#include "detect.h"
#include "flow.h"
#include "layout_cost.h"
#include "thresholds.h"

struct copies {
    int64_t count, ns;                       /* of kernels that only move data */
    int64_t all_count, all_ns;               /* of all kernels */
    char *name;                              /* of the most expensive kernel of them */
    int64_t kernel, kernel_count, kernel_ns; /* the most expensive one of them */
};

static int read_totals(struct copies *c, sqlite3 *db) {
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(
        db,
        "SELECT SUM(CASE WHEN moves THEN count END), SUM(CASE WHEN moves THEN total_ns END),"
        " SUM(count), SUM(total_ns) FROM (SELECT count, total_ns, under = 0 AND kernel IN"
        " (SELECT kernel FROM temp.moving_kernel) AS moves FROM kernel_total)",
        -1, &stmt, NULL);
    if (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        int64_t *number[] = {&c->count, &c->ns, &c->all_count, &c->all_ns};
        for (int i = 0; i < 4; i++)
            *number[i] = sqlite3_column_int64(stmt, i);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(stmt);
    return rc;
}

/* The kernels with most of the time, as evidence; the first one is told in the title. */
static json_t *read_kernels(struct copies *c, sqlite3 *db) {
    sqlite3_stmt *stmt = NULL;
    json_t *rows = json_array();
    if (sqlite3_prepare_v2(
            db,
            "SELECT t.kernel, COALESCE((SELECT short FROM kernel WHERE kernel.id ="
            " t.kernel), 'kernel ' || t.kernel), SUM(count), SUM(total_ns), MIN(min_ns),"
            " MAX(max_ns) FROM kernel_total AS t"
            " WHERE under = 0 AND kernel IN (SELECT kernel FROM temp.moving_kernel)"
            " GROUP BY kernel ORDER BY 4 DESC LIMIT ?",
            -1, &stmt, NULL) != SQLITE_OK)
        return rows;
    sqlite3_bind_int(stmt, 1, LS_ROWS_SHOWN);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        if (!c->name)
            c->name = ls_copied((const char *)sqlite3_column_text(stmt, 1));
        int64_t count = sqlite3_column_int64(stmt, 2), ns = sqlite3_column_int64(stmt, 3);
        json_array_append_new(rows,
                              json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "kernel",
                                        ls_json_text((const char *)sqlite3_column_text(stmt, 1)),
                                        "count", (json_int_t)count, "gpu_ns", (json_int_t)ns,
                                        "mean_ns", (json_int_t)(count ? ns / count : 0), "min_ns",
                                        (json_int_t)sqlite3_column_int64(stmt, 4), "max_ns",
                                        (json_int_t)sqlite3_column_int64(stmt, 5)));
    }
    sqlite3_finalize(stmt);
    return rows;
}

/* Where most of the copies' time was launched, of those that have rows. */
static char *site_of(sqlite3 *db) {
    sqlite3_stmt *stmt = NULL;
    char *site = NULL;
    if (sqlite3_prepare_v2(
            db,
            "SELECT COALESCE((SELECT site FROM stack_site WHERE stack_site.id = part.stack),"
            " (SELECT site FROM stack_site WHERE stack_site.id = part.under_stack)) AS site,"
            " SUM(ns) FROM (SELECT (SELECT stack FROM call WHERE call.id = w.call) AS stack,"
            " (SELECT stack FROM call WHERE call.id = w.under) AS under_stack,"
            " SUM(end_ns - start_ns) AS ns FROM gpu_work AS w WHERE kind = 1 AND v0 IN"
            " (SELECT kernel FROM temp.moving_kernel) AND (under IS NULL OR (SELECT class FROM api WHERE"
            " api.id = (SELECT api FROM call WHERE call.id = w.under)) <> 'library_call')"
            " GROUP BY 1, 2) AS part GROUP BY 1 ORDER BY 2 DESC",
            -1, &stmt, NULL) == SQLITE_OK &&
        sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_text(stmt, 0))
        site = ls_copied((const char *)sqlite3_column_text(stmt, 0));
    sqlite3_finalize(stmt);
    return site ? site : ls_copied(LS_SITE_UNKNOWN);
}

static char *advice_of(bool launch_bound) {
    return ls_format(
        "%sNo library call is seen around them, so the names of kernels are all there is to go by.",
        launch_bound
            ? "Fuse them: each is over before the next can be launched, so fewer and larger ones are "
              "what helps, not faster ones. Slices that go into one tensor: one gather or "
              "concatenation for all of them instead of a copy each (in TensorRT one slice or "
              "reshape over the whole tensor, or a plugin); where the graph cannot change, a CUDA "
              "graph takes away the launches, not the copies. "
            : "Have tensors made in the layout and type that their reader wants, so that nothing has "
              "to be copied: look at which line makes most of them. ");
}

static void add(struct ls_detect *d, const struct ls_detector *self, struct copies *c) {
    struct ls_human count, ns, share, mean;
    json_t *kernels = read_kernels(c, d->db);
    bool launch_bound = c->ns / c->count < LS_LAUNCH_BOUND_NS;
    double part = (double)c->ns / (double)c->all_ns;
    struct ls_finding *f = ls_finding_add(d, self->kind);
    f->count = c->count;
    f->time_ns = f->gain_ns = c->ns;
    f->severity = ls_severity_of(d, f->gain_ns);
    f->site = site_of(d->db);
    f->title = ls_format(
        "Copies are %s of all kernels' time: %s kernels that only move data, %s in all, %s each%s%s",
        ls_human_share(&share, part), ls_human_count(&count, c->count), ls_human_ns(&ns, c->ns),
        ls_human_ns(&mean, c->ns / c->count), c->name ? "; mostly " : "", c->name ? c->name : "");
    f->advice = advice_of(launch_bound);
    json_object_set_new(
        f->evidence, "why",
        json_string(launch_bound
                        ? "A kernel of a few microseconds costs its launch, whatever it moves."
                        : "Each reads and writes all of its data and computes nothing."));
    ls_finding_basis(f, true, "GPU", "none of them is needed");
    json_object_update_new(f->evidence,
                           json_pack("{s:f, s:I, s:I, s:I, s:b, s:o}", "gpu_share", part, "mean_ns",
                                     (json_int_t)(c->ns / c->count), "kernels",
                                     (json_int_t)c->all_count, "kernels_ns", (json_int_t)c->all_ns,
                                     "launch_bound", launch_bound, "copies", kernels));
}

/* Those that only move data, but for copies whose operands are known: of these other detectors tell
 * what they were for. */
static int list_kernels(struct ls_detect *d) {
    const struct ls_flow *flow = ls_detect_flow(d);
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_exec(d->db,
                          "CREATE TEMP TABLE moving_kernel(kernel INTEGER PRIMARY KEY);"
                          "INSERT INTO temp.moving_kernel SELECT kernel FROM kernel_layout",
                          NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_prepare_v2(d->db, "DELETE FROM temp.moving_kernel WHERE kernel = ?", -1, &stmt,
                                NULL);
    int64_t last = 0;
    for (size_t i = 0; rc == SQLITE_OK && flow && i < flow->count; i++) {
        if (flow->relayout[i].kernel == last)
            continue;
        sqlite3_bind_int64(stmt, 1, last = flow->relayout[i].kernel);
        sqlite3_step(stmt);
        rc = sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    return rc;
}

static int run(struct ls_detect *d, const struct ls_detector *self) {
    struct copies c = {0};
    int rc = list_kernels(d);
    if (rc == SQLITE_OK)
        rc = read_totals(&c, d->db);
    if (rc == SQLITE_OK && c.all_ns == 0) {
        if (ls_query_int(d->db, 0,
                         "SELECT 1 FROM call WHERE api IN (SELECT id FROM api WHERE class IN"
                         " ('launch', 'library_call')) LIMIT 1"))
            ls_detect_skip(d, self->kind, "no times of kernels are in this trace");
    } else if (rc == SQLITE_OK && c.count >= LS_COPY_DOMINATED_COUNT &&
               (double)c.ns >= LS_COPY_DOMINATED * (double)c.all_ns) {
        add(d, self, &c);
    }
    free(c.name);
    sqlite3_exec(d->db, "DROP TABLE IF EXISTS temp.moving_kernel", NULL, NULL, NULL);
    return rc;
}

const struct ls_detector ls_detect_copy_dominated = {"copy-dominated", run};
