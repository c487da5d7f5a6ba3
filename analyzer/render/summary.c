/*
 * summary.c - the few lines that `layoutspy run` ends with. See render.h.
 *
 * Main thread only; not for signal handlers.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "../ending.h"
#include "../failures.h"
#include "../human.h"
#include "../query.h"
#include "../term.h"
#include "render.h"

#define FINDINGS 5
#define SITES 5

static void put_totals(sqlite3 *db, FILE *out) {
    struct ls_human a, b, c;
    char *ending = ls_ending_text(db);
    int64_t calls = ls_query_int(db, 0, "SELECT COUNT(*) FROM call");
    int64_t allocations = ls_query_int(db, 0, "SELECT COUNT(*) FROM allocation");
    fprintf(out, "layoutspy: %s %s in %s; the program %s\n", ls_human_count(&a, calls),
            ls_plural(calls, "call", "calls"), ls_human_ns(&b, ls_recorded_ns(db)),
            ending ? ending : "has no end in the trace");
    free(ending);
    fprintf(out, "  memory: %s %s, %s; held %s: %s\n", ls_human_count(&a, allocations),
            ls_plural(allocations, "allocation", "allocations"),
            ls_human_bytes(&b, ls_query_int(db, 0, "SELECT SUM(size) FROM allocation")),
            ls_ending_known(db) ? "at the end" : "so far",
            ls_human_bytes(&c, ls_query_int(db, 0,
                                            "SELECT SUM(size) FROM allocation"
                                            " WHERE end_ns IS NULL")));
    fprintf(out, "  copies: %s, %s, %s of host time",
            ls_human_count(&a, ls_query_int(db, 0, "SELECT COUNT(*) FROM copy")),
            ls_human_bytes(&b, ls_query_int(db, 0, "SELECT SUM(bytes) FROM copy")),
            ls_human_ns(&c, ls_query_int(db, 0, "SELECT SUM(blocked_ns) FROM copy")));
    fprintf(out, "; pageable: %s, %s\n",
            ls_human_count(&a, ls_query_int(db, 0, "SELECT COUNT(*) FROM pageable_copy")),
            ls_human_bytes(&b, ls_query_int(db, 0, "SELECT SUM(bytes) FROM pageable_copy")));
}

static int put_findings(sqlite3 *db, const char *none, FILE *out) {
    sqlite3_stmt *stmt;
    int shown = 0, more = 0, rc;
    rc = sqlite3_prepare_v2(db,
                            "SELECT severity, title, COALESCE(site, 'site unknown') FROM finding"
                            " ORDER BY id",
                            -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const char *severity = (const char *)sqlite3_column_text(stmt, 0);
        if (shown == FINDINGS) {
            more++;
            continue;
        }
        shown++;
        ls_term_style(out, *severity == 'p' ? LS_RED : *severity == 'w' ? LS_YELLOW : LS_CYAN);
        fprintf(out, "  %s", *severity == 'i' ? "note" : severity);
        ls_term_style(out, LS_PLAIN);
        fprintf(out, ": %s\n", sqlite3_column_text(stmt, 1));
        fprintf(out, "    at %s\n", sqlite3_column_text(stmt, 2));
    }
    sqlite3_finalize(stmt);
    if (!shown)
        fprintf(out, "  %s\n", none);
    if (more)
        fprintf(out, "  ... and %d more in the report\n", more);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int put_sites(sqlite3 *db, FILE *out) {
    sqlite3_stmt *stmt;
    struct ls_human total, live, calls;
    int shown = 0, rc;
    rc = sqlite3_prepare_v2(db,
                            "SELECT site, bytes_live, bytes_total, calls FROM top_site"
                            " ORDER BY bytes_total DESC LIMIT ?",
                            -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    sqlite3_bind_int(stmt, 1, SITES);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        if (shown++ == 0)
            fputs("  allocated most:\n", out);
        fprintf(out, "    %s in %s %s", ls_human_bytes(&total, sqlite3_column_int64(stmt, 2)),
                ls_human_count(&calls, sqlite3_column_int64(stmt, 3)),
                ls_plural(sqlite3_column_int64(stmt, 3), "call", "calls"));
        if (sqlite3_column_int64(stmt, 1))
            fprintf(out, " (%s still held)", ls_human_bytes(&live, sqlite3_column_int64(stmt, 1)));
        fprintf(out, "  %s\n", sqlite3_column_text(stmt, 0));
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int ls_render_summary(const struct ls_trace *trace, FILE *out) {
    char *failures = ls_failures_text(trace->db), none[LS_NONE_TEXT];
    put_totals(trace->db, out);
    int rc = ls_render_lost(trace->db, out);
    ls_render_cost_warning(trace->db, "  ", out);
    if (failures)
        fprintf(out, "  %s\n", failures);
    if (rc == SQLITE_OK)
        rc = put_findings(trace->db, ls_render_none(trace->db, failures != NULL, none), out);
    free(failures);
    if (rc == SQLITE_OK)
        rc = put_sites(trace->db, out);
    return rc;
}
