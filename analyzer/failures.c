/*
 * failures.c - calls that returned an error to the program. See failures.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "failures.h"

#include <stdio.h>
#include <stdlib.h>

#include "human.h"
#include "query.h"

#define KINDS_SHOWN 5

/* The statuses of cudaError_t that programs meet. */
static const struct {
    int64_t status;
    const char *name;
} statuses[] = {
    {1, "invalid value"},
    {2, "out of memory"},
    {3, "not initialised"},
    {35, "driver too old"},
    {46, "devices busy or unavailable"},
    {98, "invalid device function"},
    {100, "no device"},
    {101, "invalid device"},
    {400, "invalid handle"},
    {700, "illegal address on the device"},
    {719, "a kernel failed"},
};

#define FAILED "status NOT IN (0, 600) AND flags & 1 = 0"

static const char *name_of(int64_t status) {
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (statuses[i].status == status)
            return statuses[i].name;
    return NULL;
}

static void put_kind(FILE *out, sqlite3_stmt *row) {
    struct ls_human count;
    int64_t status = sqlite3_column_int64(row, 1);
    const char *name = name_of(status);
    fprintf(out, "%s %s (status %lld%s%s)", sqlite3_column_text(row, 0),
            ls_human_count(&count, sqlite3_column_int64(row, 2)), (long long)status,
            name ? ", " : "", name ? name : "");
}

char *ls_failures_text(sqlite3 *db) {
    struct ls_human count;
    sqlite3_stmt *stmt;
    char *text = NULL;
    size_t size;
    int kinds = 0;
    int64_t total = ls_query_int(db, 0, "SELECT COUNT(*) FROM call WHERE " FAILED);
    if (total == 0 ||
        sqlite3_prepare_v2(db,
                           "SELECT COALESCE((SELECT name FROM api WHERE api.id ="
                           " call.api), 'unknown'), status, COUNT(*) FROM call"
                           " WHERE " FAILED " GROUP BY api, status ORDER BY 3 DESC, 1",
                           -1, &stmt, NULL) != SQLITE_OK)
        return NULL;
    FILE *out = open_memstream(&text, &size);
    if (out)
        fprintf(out, "%s %s failed: ", ls_human_count(&count, total),
                ls_plural(total, "call", "calls"));
    while (out && sqlite3_step(stmt) == SQLITE_ROW) {
        if (kinds < KINDS_SHOWN) {
            fputs(kinds ? ", " : "", out);
            put_kind(out, stmt);
        }
        kinds++;
    }
    if (out && kinds > KINDS_SHOWN)
        fprintf(out, ", and %d other %s", kinds - KINDS_SHOWN,
                ls_plural(kinds - KINDS_SHOWN, "kind", "kinds"));
    if (out)
        fclose(out);
    sqlite3_finalize(stmt);
    return text;
}
