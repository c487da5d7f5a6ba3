/*
 * jump_calls.c - see jump_calls.h. Main thread only; not for signal handlers.
 *
 * `call` has no index by time: its ids are in the order of completion, which is close enough to
 * find a moment by halving.
 */
#include "jump_calls.h"

#include "../json_text.h"
#include "../query.h"
#include "thresholds.h"

#define CALLS_MOST 500000 /* that are looked at, of one time */

void ls_jump_calls_begin(struct ls_jump_calls *calls, sqlite3 *db) {
    *calls = (struct ls_jump_calls){.db = db};
    calls->last = ls_query_int(db, 0, "SELECT MAX(id) FROM call");
    sqlite3_prepare_v2(db, "SELECT start_ns FROM call WHERE id >= ? ORDER BY id LIMIT 1", -1,
                       &calls->at, NULL);
    calls->counted =
        sqlite3_exec(db,
                     "CREATE TEMP TABLE IF NOT EXISTS api_calls(api INTEGER PRIMARY KEY, count);"
                     "DELETE FROM temp.api_calls;"
                     "INSERT INTO temp.api_calls SELECT api, COUNT(*) FROM call GROUP BY api",
                     NULL, NULL, NULL) == SQLITE_OK;
    sqlite3_prepare_v2(db,
                       "SELECT (SELECT name FROM api WHERE id = c.api), COUNT(*),"
                       " (SELECT count FROM temp.api_calls AS a WHERE a.api = c.api) AS all_of_it"
                       " FROM call AS c WHERE id BETWEEN ? AND ? AND start_ns BETWEEN ? AND ?"
                       " GROUP BY api ORDER BY COUNT(*) * 1.0 / all_of_it DESC, COUNT(*) DESC"
                       " LIMIT ?",
                       -1, &calls->between, NULL);
}

/* The first call that began at `ts_ns` or later, nearly. */
static int64_t call_at(struct ls_jump_calls *calls, int64_t ts_ns) {
    int64_t low = 1, high = calls->last + 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2, start = INT64_MAX;
        sqlite3_bind_int64(calls->at, 1, middle);
        if (sqlite3_step(calls->at) == SQLITE_ROW)
            start = sqlite3_column_int64(calls->at, 0);
        sqlite3_reset(calls->at);
        if (start < ts_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

json_t *ls_jump_calls_json(struct ls_jump_calls *calls, int64_t from_ns, int64_t to_ns) {
    json_t *array = json_array();
    if (!calls->at || !calls->between)
        return array;
    int64_t from = call_at(calls, from_ns), to = call_at(calls, to_ns);
    if (to - from > CALLS_MOST)
        from = to - CALLS_MOST;
    sqlite3_bind_int64(calls->between, 1, from);
    sqlite3_bind_int64(calls->between, 2, to);
    sqlite3_bind_int64(calls->between, 3, from_ns);
    sqlite3_bind_int64(calls->between, 4, to_ns);
    sqlite3_bind_int(calls->between, 5, LS_SITES_SHOWN);
    while (sqlite3_step(calls->between) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(calls->between, 0);
        json_array_append_new(
            array, json_pack("{s:o, s:I, s:I}", "api", ls_json_text(name ? name : "unknown"),
                             "count", (json_int_t)sqlite3_column_int64(calls->between, 1), "of",
                             (json_int_t)sqlite3_column_int64(calls->between, 2)));
    }
    sqlite3_reset(calls->between);
    return array;
}

void ls_jump_calls_end(struct ls_jump_calls *calls) {
    sqlite3_finalize(calls->at);
    sqlite3_finalize(calls->between);
    if (calls->counted)
        sqlite3_exec(calls->db, "DROP TABLE IF EXISTS temp.api_calls", NULL, NULL, NULL);
}
