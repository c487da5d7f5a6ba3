/*
 * render.h - what a person or a program reads: findings and query results written to a stream.
 *
 * Renderers of findings read the trace's `finding`, `skipped`, `coverage` and `lost` rows and
 * nothing else; ls_detect_run() has made them. Write errors show in the stream, see output.h.
 * Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_RENDER_H
#define LAYOUTSPY_RENDER_H

#include <sqlite3.h>
#include <stdio.h>

#include "../trace.h"

/* All return SQLITE_OK, or the code of a query that failed. */

/* The report: header, findings by rank, what was skipped, what was not seen. */
int ls_render_text(const struct ls_trace *trace, FILE *out);

/* {"findings": [...], "skipped": [...], "coverage": [...]} */
int ls_render_json(const struct ls_trace *trace, FILE *out);

/* The few lines at the end of `run`: what was recorded, the first findings, the first sites. */
int ls_render_summary(const struct ls_trace *trace, FILE *out);

/* What a trace holds and how it was made. */
int ls_render_info(const struct ls_trace *trace, FILE *out);

/* The rows of a prepared query; columns are named in the first line, or in each object. */
int ls_render_rows_table(sqlite3_stmt *stmt, FILE *out);
int ls_render_rows_csv(sqlite3_stmt *stmt, FILE *out);
int ls_render_rows_json(sqlite3_stmt *stmt, FILE *out);

/* --- shared by renderers ------------------------------------------------------------------- */

/* `text` wrapped to `width` columns, each line indented by `indent`, the first by `first`. */
void ls_render_wrapped(FILE *out, const char *first, const char *indent, const char *text,
                       int width);

/* A red line where some of the recording is not in the trace. */
void ls_render_incomplete(const struct ls_trace *trace, FILE *out);

/* No finding at all: not the whole truth where something went wrong that no detector looks for. */
#define LS_NO_PROBLEMS(trouble)                                                                    \
    ((trouble) ? "No problems found among what this version looks for" : "No problems found")

/* Coverage as text, indented by two; lost events, a line each. */
int ls_render_coverage(sqlite3 *db, FILE *out);
int ls_render_lost(sqlite3 *db, FILE *out);

/* One row's column as JSON text, whatever its type. */
void ls_render_json_value(sqlite3_stmt *stmt, int column, FILE *out);
void ls_render_json_string(const char *text, FILE *out);

#endif
