/*
 * query.c - single values out of a trace. See query.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "query.h"

#include <stdlib.h>
#include <string.h>

int64_t ls_query_int(sqlite3 *db, int64_t otherwise, const char *sql) {
    sqlite3_stmt *stmt;
    int64_t value = otherwise;
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return otherwise;
    if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_type(stmt, 0) != SQLITE_NULL)
        value = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return value;
}

char *ls_query_meta(sqlite3 *db, const char *key) {
    sqlite3_stmt *stmt;
    char *value = NULL;
    if (sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE key = ?", -1, &stmt, NULL))
        return NULL;
    sqlite3_bind_text(stmt, 1, key, -1, SQLITE_STATIC);
    if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_type(stmt, 0) != SQLITE_NULL)
        value = strdup((const char *)sqlite3_column_text(stmt, 0));
    sqlite3_finalize(stmt);
    for (char *p = value; p && *p; p++) /* a command line may hold anything */
        if ((unsigned char)*p < ' ')
            *p = ' ';
    return value;
}

int64_t ls_query_meta_int(sqlite3 *db, int64_t otherwise, const char *key) {
    char *text = ls_query_meta(db, key);
    int64_t value = text ? strtoll(text, NULL, 10) : otherwise;
    free(text);
    return value;
}
