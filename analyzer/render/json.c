/*
 * json.c - the report as JSON. See render.h.
 *
 * Main thread only; not for signal handlers.
 */
#include <string.h>

#include "render.h"

int ls_render_json_array(const struct ls_trace *trace, const char *name, const char *sql,
                         FILE *out) {
    sqlite3_stmt *stmt;
    sqlite3 *db = trace->db;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return rc;
    if (sqlite3_bind_parameter_count(stmt))
        sqlite3_bind_int(stmt, 1, trace->partial);
    fprintf(out, " \"%s\": [", name);
    const char *before = "\n  {";
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        fputs(before, out);
        for (int c = 0; c < sqlite3_column_count(stmt); c++) {
            const char *column = sqlite3_column_name(stmt, c);
            fprintf(out, "%s\"%s\": ", c ? ", " : "", column);
            const char *text = (const char *)sqlite3_column_text(stmt, c);
            if (strcmp(column, "evidence") == 0)
                fputs(text ? text : "{}", out);
            else
                ls_render_json_value(stmt, c, out);
        }
        fputs("}", out);
        before = ",\n  {";
    }
    fputs(before[0] == ',' ? "\n ]" : "]", out);
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

int ls_render_json(const struct ls_trace *trace, FILE *out) {
    static const struct {
        const char *name, *sql;
    } part[] = {
        {"findings", "SELECT " LS_FINDING_COLUMNS " FROM finding ORDER BY id"},
        {"skipped", "SELECT kind, reason FROM skipped ORDER BY kind"},
        /* Lost events are a hole in what was seen. */
        {"coverage",
         "SELECT layer, state, detail FROM coverage UNION ALL SELECT 'events', 'partial',"
         " printf('%d lost: %s', count, reason) FROM lost_event WHERE count > 0"
         " UNION ALL SELECT 'recording', 'partial', 'part of it could not be taken into the trace'"
         " WHERE ?1"
         " ORDER BY layer, state, detail"},
    };
    const char *before = "{\n";
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        fputs(before, out);
        int rc = ls_render_json_array(trace, part[i].name, part[i].sql, out);
        if (rc != SQLITE_OK)
            return rc;
        before = ",\n";
    }
    fputs("\n}\n", out);
    return SQLITE_OK;
}
