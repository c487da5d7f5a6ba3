/*
 * cmd_sql.c - `layoutspy sql`: one query that reads a trace, as a table, CSV or JSON.
 *
 * One thread, never in a signal handler.
 */
#include <stdio.h>
#include <string.h>

#include "complain.h"
#include "options.h"
#include "output.h"
#include "render/render.h"
#include "term.h"
#include "trace.h"
#include "verbs.h"

struct sql_options {
    const char *path, *query;
    int (*render)(sqlite3_stmt *stmt, FILE *out);
};

static const struct argp_option sql_options[] = {
    {"table", 't', NULL, 0, "Write aligned columns (the default)", 0},
    {"csv", 'c', NULL, 0, "Write CSV, names first; NULL is empty, an empty text \"\"", 0},
    {"json", 'j', NULL, 0, "Write an array of objects", 0},
    {0},
};

static error_t parse_sql(int key, char *arg, struct argp_state *state) {
    static const char *const names[] = {"TRACE", "QUERY", NULL};
    struct sql_options *options = state->input;
    switch (key) {
    case 't':
        options->render = ls_render_rows_table;
        return 0;
    case 'c':
        options->render = ls_render_rows_csv;
        return 0;
    case 'j':
        options->render = ls_render_rows_json;
        return 0;
    default:
        return ls_options_words(key, arg, state, names,
                                (const char **[]){&options->path, &options->query});
    }
}

static const struct argp sql_argp = {
    .options = sql_options,
    .parser = parse_sql,
    .args_doc = "TRACE QUERY",
    .doc = "Runs one SQL query that reads TRACE. Its tables and views are in docs/schema.md; "
           "\"SELECT sql FROM sqlite_master\" shows them.\v"
           "Exit status: 0 done; 2 wrong usage or a query that is wrong or would write; 3 TRACE "
           "cannot be read; 4 the output cannot be written.",
};

/* sqlite3_stmt_readonly() lets through what changes the connection, and other files by that. */
static int authorize(void *unused, int action, const char *a, const char *b, const char *c,
                     const char *d) {
    (void)unused, (void)a, (void)b, (void)c, (void)d;
    switch (action) {
    case SQLITE_ATTACH:
    case SQLITE_DETACH:
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
        return SQLITE_DENY;
    default:
        return SQLITE_OK;
    }
}

/* Prepare the one statement of `query`; prints one line and returns NULL where that is not so. */
static sqlite3_stmt *prepare(sqlite3 *db, const char *query) {
    sqlite3_stmt *stmt = NULL, *second = NULL;
    const char *tail = "";
    if (sqlite3_prepare_v2(db, query, -1, &stmt, &tail) != SQLITE_OK) {
        fprintf(stderr, "layoutspy sql: %s\n",
                sqlite3_errcode(db) == SQLITE_AUTH ? "only queries that read are run"
                                                   : sqlite3_errmsg(db));
        return NULL;
    }
    if (!stmt) {
        fputs("layoutspy sql: the query is empty\n", stderr);
        return NULL;
    }
    /* A second statement may not even be valid: any that is no comment counts. */
    bool more = sqlite3_prepare_v2(db, tail, -1, &second, NULL) != SQLITE_OK || second;
    sqlite3_finalize(second);
    if (more || !sqlite3_stmt_readonly(stmt)) {
        fprintf(stderr, "layoutspy sql: only %s\n",
                more ? "one statement at a time is run" : "queries that read are run");
        sqlite3_finalize(stmt);
        return NULL;
    }
    return stmt;
}

static int run_query(struct ls_trace *trace, const struct sql_options *options) {
    sqlite3_exec(trace->db, "PRAGMA query_only = 1", NULL, NULL, NULL);
    sqlite3_set_authorizer(trace->db, authorize, NULL);
    sqlite3_stmt *stmt = prepare(trace->db, options->query);
    if (!stmt)
        return LS_EXIT_USAGE;
    ls_output_begin();
    ls_progress_start("running the query");
    ls_progress_attach(trace->db);
    int rc = sqlite3_column_count(stmt) ? options->render(stmt, stdout) : SQLITE_OK;
    ls_progress_stop();
    int status = ls_output_end();
    if (rc != SQLITE_OK) {
        int base = rc & 0xff; /* without the extended code */
        bool damaged = base == SQLITE_CORRUPT || base == SQLITE_NOTADB || base == SQLITE_IOERR;
        if (damaged)
            ls_complain(options->path, "%s", sqlite3_errmsg(trace->db));
        else
            fprintf(stderr, "layoutspy sql: %s\n", sqlite3_errmsg(trace->db));
        status = damaged ? LS_EXIT_INPUT : LS_EXIT_USAGE;
    }
    sqlite3_finalize(stmt);
    return status;
}

static int sql(int argc, char **argv) {
    struct sql_options options = {.render = ls_render_rows_table};
    struct ls_trace trace;
    ls_options_parse(&sql_argp, "sql", 0, argc, argv, &options);
    int status = ls_trace_open(&trace, options.path);
    if (status != LS_EXIT_OK)
        return status;
    status = run_query(&trace, &options);
    ls_trace_close(&trace);
    return status;
}

const struct ls_verb ls_verb_sql = {"sql", "run a query on a trace", sql};
