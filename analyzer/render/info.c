/*
 * info.c - what a trace holds and how it was made. See render.h.
 *
 * Main thread only; not for signal handlers.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../beside.h"
#include "../ending.h"
#include "../human.h"
#include "../query.h"
#include "../term.h"
#include "render.h"

static void put_label(const char *label, FILE *out) {
    ls_term_style(out, LS_BOLD);
    fprintf(out, "%-10s ", label);
    ls_term_style(out, LS_PLAIN);
}

static void put_file(const struct ls_trace *trace, FILE *out) {
    struct ls_human size;
    struct stat st;
    char *schema = ls_query_meta(trace->db, "schema"),
         *version = ls_query_meta(trace->db, "layoutspy_version");
    put_label("trace", out);
    fprintf(out, "%s", trace->path);
    if (stat(trace->path, &st) == 0)
        fprintf(out, ", %s", ls_human_bytes(&size, st.st_size));
    if (schema)
        fprintf(out, ", schema %s", schema);
    if (version)
        fprintf(out, ", by layoutspy %s", version);
    fputc('\n', out);
    free(schema);
    free(version);
}

static void put_times(sqlite3 *db, FILE *out) {
    struct ls_human date, length;
    char *start = ls_query_meta(db, "start_real_ns"), *ending = ls_ending_text(db);
    put_label("recorded", out);
    fprintf(out, "from %s for %s; the program %s\n",
            start ? ls_human_date(&date, strtoll(start, NULL, 10)) : "an unknown time",
            ls_human_ns(&length, ls_recorded_ns(db)), ending ? ending : "has no end in the trace");
    free(start);
    free(ending);
}

/* All of meta that has no line of its own. */
static int put_meta(sqlite3 *db, FILE *out) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(
        db,
        "SELECT key, value FROM meta WHERE key NOT IN ('schema',"
        " 'layoutspy_version', 'start_real_ns', 'end_ns', 'ended', 'exit_status', 'signal',"
        " 'gpu_clock_pairs', 'gpu_clock_error_ns')"
        " AND key NOT GLOB 'cost.*'"
        " AND value <> '' ORDER BY key",
        -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        char *value = ls_query_meta(db, (const char *)sqlite3_column_text(stmt, 0));
        put_label((const char *)sqlite3_column_text(stmt, 0), out);
        fprintf(out, "%s\n", value ? value : "");
        free(value);
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Lines of "NAME COUNT" under a label. */
static int put_counts(sqlite3 *db, const char *label, const char *sql, FILE *out) {
    sqlite3_stmt *stmt;
    struct ls_human count;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    bool any = false;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        put_label(any ? "" : label, out);
        fprintf(out, "%-16s %12s\n", sqlite3_column_text(stmt, 0),
                ls_human_count(&count, sqlite3_column_int64(stmt, 1)));
        any = true;
    }
    sqlite3_finalize(stmt);
    if (!any) {
        put_label(label, out);
        fputs("none\n", out);
    }
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static const char calls_sql[] =
    "SELECT COALESCE(class, 'unknown'), COUNT(*) FROM call LEFT JOIN api ON api.id = call.api"
    " GROUP BY 1 ORDER BY 2 DESC";
static const char rows_sql[] =
    "SELECT 'call', COUNT(*) FROM call UNION ALL SELECT 'allocation', COUNT(*) FROM allocation"
    " UNION ALL SELECT 'copy', COUNT(*) FROM copy UNION ALL SELECT 'kernel', COUNT(*) FROM kernel"
    " UNION ALL SELECT 'GPU work', COUNT(*) FROM gpu_work"
    " UNION ALL SELECT 'operand', COUNT(*) FROM operand"
    " UNION ALL SELECT 'shape', COUNT(*) FROM shape"
    " UNION ALL SELECT 'stack', COUNT(*) FROM stack_site"
    " UNION ALL SELECT 'thread', COUNT(*) FROM thread"
    " UNION ALL SELECT 'module', COUNT(*) FROM module";
static const char lost_sql[] =
    "SELECT reason, count FROM lost_event WHERE count > 0 ORDER BY 2 DESC";

/* ---- the GPU ---- */

/* The one text that `sql` selects, or `otherwise`. */
static int put_text(sqlite3 *db, const char *sql, const char *otherwise, FILE *out) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    rc = sqlite3_step(stmt);
    const unsigned char *text = rc == SQLITE_ROW ? sqlite3_column_text(stmt, 0) : NULL;
    fprintf(out, "%s\n", text ? (const char *)text : otherwise);
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* Of each kind, how many records found their call. */
static int put_joins(sqlite3 *db, FILE *out) {
    sqlite3_stmt *stmt;
    struct ls_human count, length;
    char last[32] = "";
    int rc = sqlite3_prepare_v2(
        db,
        "SELECT kind, status, count, (SELECT SUM(total_ns) FROM gpu_count AS a WHERE a.kind ="
        " gpu_count.kind) FROM gpu_count ORDER BY kind, count DESC, status",
        -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *kind = (const char *)sqlite3_column_text(stmt, 0);
        if (strcmp(kind, last) != 0) {
            if (*last)
                fputc('\n', out);
            snprintf(last, sizeof last, "%s", kind);
            put_label("", out);
            fprintf(out, "%-9s %9s in all:", kind,
                    ls_human_ns(&length, sqlite3_column_int64(stmt, 3)));
        } else {
            fputc(',', out);
        }
        fprintf(out, " %s %s", ls_human_count(&count, sqlite3_column_int64(stmt, 2)),
                sqlite3_column_text(stmt, 1));
    }
    if (*last)
        fputc('\n', out);
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static void put_gaps(sqlite3 *db, FILE *out) {
    struct ls_human length;
    int64_t gaps = ls_query_int(db, 0, "SELECT COUNT(*) FROM cupti_gap");
    if (gaps == 0)
        return;
    put_label("", out);
    fprintf(out, "without CUPTI for %s, in %lld %s: ",
            ls_human_ns(&length, ls_query_int(db, 0,
                                              "SELECT SUM(MAX(0, COALESCE(end_ns, (SELECT"
                                              " CAST(value AS INTEGER) FROM meta WHERE key ="
                                              " 'end_ns'), start_ns) - start_ns))"
                                              " FROM cupti_gap")),
            (long long)gaps, ls_plural(gaps, "stretch", "stretches"));
    put_text(db, "SELECT group_concat(reason, '; ') FROM (SELECT DISTINCT reason FROM cupti_gap)",
             "", out);
}

static void put_kernel_rows(sqlite3 *db, FILE *out) {
    struct ls_human rows, runs, sums;
    int64_t all = ls_query_int(db, 0, "SELECT SUM(count + untimed) FROM kernel_total"),
            totals = ls_query_int(db, 0, "SELECT COUNT(*) FROM kernel_total");
    if (all == 0)
        return;
    put_label("", out);
    fprintf(out,
            "%s of %s %s of kernels have rows of their own; all are in kernel_total"
            " (%s %s)\n",
            ls_human_count(&rows, ls_query_int(db, 0,
                                               "SELECT COUNT(*) FROM gpu_work"
                                               " WHERE kind = 1")),
            ls_human_count(&runs, all), ls_plural(all, "run", "runs"),
            ls_human_count(&sums, totals), ls_plural(totals, "row", "rows"));
}

static int put_gpu(sqlite3 *db, FILE *out) {
    struct ls_human error;
    put_label("GPU times", out);
    if (ls_query_int(db, 0, "SELECT COUNT(*) FROM gpu_count") == 0) {
        fputs("no: ", out);
        return put_text(db,
                        "SELECT detail FROM coverage WHERE layer = 'cupti' AND state <> 'on'"
                        " AND detail <> '' ORDER BY state, detail LIMIT 1",
                        "CUPTI told of no work", out);
    }
    fprintf(out, "yes, within %s of the host's clock\n",
            ls_human_ns(&error, ls_query_meta_int(db, 0, "gpu_clock_error_ns")));
    int rc = put_joins(db, out);
    put_gaps(db, out);
    put_kernel_rows(db, out);
    return rc;
}

/* Of a forked child, or of another process of the same run: the name does not tell which. */
static void put_beside(const char *path, FILE *out) {
    struct ls_beside beside;
    ls_beside_find(path, &beside);
    for (size_t i = 0; i < beside.count; i++) {
        put_label("beside it", out);
        fprintf(out, "%s\n", beside.path[i]);
    }
    ls_beside_free(&beside);
}

int ls_render_info(const struct ls_trace *trace, FILE *out) {
    ls_render_incomplete(trace, out);
    put_file(trace, out);
    put_times(trace->db, out);
    int rc = put_meta(trace->db, out);
    if (rc == SQLITE_OK)
        rc = put_counts(trace->db, "rows", rows_sql, out);
    if (rc == SQLITE_OK)
        rc = put_counts(trace->db, "calls", calls_sql, out);
    if (rc == SQLITE_OK)
        rc = put_gpu(trace->db, out);
    if (rc == SQLITE_OK)
        rc = put_counts(trace->db, "lost", lost_sql, out);
    if (rc == SQLITE_OK) {
        put_label("cost", out);
        rc = ls_render_cost(trace->db, out);
        ls_render_cost_warning(trace->db, "           ", out);
    }
    if (rc == SQLITE_OK) {
        put_beside(trace->path, out);
        put_label("coverage", out);
        fputc('\n', out);
        rc = ls_render_coverage(trace->db, out);
    }
    return rc;
}
