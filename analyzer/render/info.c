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
        " 'layoutspy_version', 'start_real_ns', 'end_ns', 'ended', 'exit_status', 'signal')"
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
    " UNION ALL SELECT 'stack', COUNT(*) FROM stack_site"
    " UNION ALL SELECT 'thread', COUNT(*) FROM thread"
    " UNION ALL SELECT 'module', COUNT(*) FROM module";
static const char lost_sql[] =
    "SELECT reason, count FROM lost_event WHERE count > 0 ORDER BY 2 DESC";

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
        rc = put_counts(trace->db, "lost", lost_sql, out);
    if (rc == SQLITE_OK) {
        put_beside(trace->path, out);
        put_label("coverage", out);
        fputc('\n', out);
        rc = ls_render_coverage(trace->db, out);
    }
    return rc;
}
