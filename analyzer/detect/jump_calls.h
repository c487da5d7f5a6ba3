/*
 * jump_calls.h - what was called between two moments, and seldom else. Main thread only; not for
 * signal handlers.
 */
#ifndef LAYOUTSPY_JUMP_CALLS_H
#define LAYOUTSPY_JUMP_CALLS_H

#include <jansson.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

struct ls_jump_calls {
    sqlite3 *db;
    sqlite3_stmt *at, *between;
    int64_t last; /* call.id */
    bool counted; /* TEMP table api_calls is there */
};

void ls_jump_calls_begin(struct ls_jump_calls *calls, sqlite3 *db);

/* Array of {"api", "count", "of"}: the functions that were called then, and of how many calls in
 * all; those with most of theirs in this time first. */
json_t *ls_jump_calls_json(struct ls_jump_calls *calls, int64_t from_ns, int64_t to_ns);

void ls_jump_calls_end(struct ls_jump_calls *calls);

#endif
