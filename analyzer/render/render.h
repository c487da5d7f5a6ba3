/*
 * render.h - what a person or a program reads: findings and query results written to a stream.
 *
 * Renderers of findings read the trace's `finding`, `skipped`, `coverage` and `lost` rows and
 * nothing else; ls_detect_run() has made them. Write errors show in the stream, see output.h.
 * Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_RENDER_H
#define LAYOUTSPY_RENDER_H

#include <jansson.h>
#include <sqlite3.h>
#include <stdio.h>

#include "../census.h"
#include "../memory/story.h"
#include "../trace.h"

/* All return SQLITE_OK, or the code of a query that failed. */

/* The report: header, findings by rank, what was skipped, what was not seen. */
int ls_render_text(const struct ls_trace *trace, FILE *out);

/* {"findings": [...], "skipped": [...], "coverage": [...]} */
int ls_render_json(const struct ls_trace *trace, FILE *out);

/* The few lines at the end of `run`: what was recorded, the first findings, the first sites. */
int ls_render_summary(const struct ls_trace *trace, FILE *out);

/* An out-of-memory error on one screen: request, figures, what was tried, who held the memory, what
 * changed, what followed, what to do. `all`: every holder and finding, however many lines. */
int ls_render_oom(const struct ls_trace *trace, const struct ls_story *story, bool all, FILE *out);
/* {"events": [...], "holders": [...], "census": [...], "cascade": [...], "findings": [...], ...} */
int ls_render_oom_json(const struct ls_trace *trace, const struct ls_story *story, FILE *out);

/* What a trace holds and how it was made. */
int ls_render_info(const struct ls_trace *trace, FILE *out);

/* The census of this number, or every one: storages by bytes, their tensors, shapes, paths, and
 * what a graph holds. JSON: {"census": [...]}. */
#define LS_EVERY_CENSUS (-1)
int ls_render_census(const struct ls_trace *trace, int64_t id, FILE *out);
int ls_render_census_json(const struct ls_trace *trace, int64_t id, FILE *out);

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

/* No finding at all: not the whole truth where something went wrong that no detector looks for
 * (`trouble`), and none where nothing was recorded. */
#define LS_NONE_TEXT 400
const char *ls_render_none(sqlite3 *db, bool trouble, char text[LS_NONE_TEXT]);

/* Coverage as text, indented by two; lost events, a line each. */
int ls_render_coverage(sqlite3 *db, FILE *out);
int ls_render_lost(sqlite3 *db, FILE *out);

/* What recording cost the program: a line. And one where that was much, else nothing. */
int ls_render_cost(sqlite3 *db, FILE *out);
void ls_render_cost_warning(sqlite3 *db, const char *indent, FILE *out);

/* The storages of a census, like ones together, the `most` that hold the most; all, one by one. */
void ls_render_census_storages(const struct ls_census *census, size_t most, FILE *out);
json_t *ls_census_storages_json(const struct ls_census *census);

/* "problem" and so on as a coloured word. */
void ls_render_severity(const char *severity, FILE *out);

/*
 * `"name": [...]`, the rows of a query as objects. A column named "evidence" holds JSON already,
 * and goes out as it is: detect.c made it. A query's parameter is whether the trace is partial.
 */
int ls_render_json_array(const struct ls_trace *trace, const char *name, const char *sql,
                         FILE *out);

/* What a finding is in JSON. */
#define LS_FINDING_COLUMNS                                                                         \
    "kind, severity, title, site, count, bytes, time_ns, gain_ns, gain_bytes, evidence, advice"

/* One row's column as JSON text, whatever its type. */
void ls_render_json_value(sqlite3_stmt *stmt, int column, FILE *out);
void ls_render_json_string(const char *text, FILE *out);

#endif
