/*
 * query.h - single values out of a trace. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_QUERY_H
#define LAYOUTSPY_QUERY_H

#include <sqlite3.h>
#include <stdint.h>

/* How often graphs were launched, and ns of the GPU of their runs as a whole (0: not known). */
#define LS_GRAPH_LAUNCHES_SQL                                                                      \
    "SELECT COUNT(*) FROM call WHERE api IN (SELECT id FROM api WHERE class = 'graph')"            \
    " AND status = 0 AND flags & 1 = 0"
#define LS_GRAPH_NS_SQL "SELECT SUM(end_ns - start_ns) FROM gpu_work WHERE kind = 8"

/* The first column of the first row; `otherwise` where there is none, or it is NULL. */
int64_t ls_query_int(sqlite3 *db, int64_t otherwise, const char *sql);

/* A value of meta, control characters made blanks, to be freed; NULL where there is none. */
char *ls_query_meta(sqlite3 *db, const char *key);
int64_t ls_query_meta_int(sqlite3 *db, int64_t otherwise, const char *key);

#endif
