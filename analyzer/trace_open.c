/*
 * trace_open.c - see trace.h. One thread; not async-signal-safe.
 */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collect.h"
#include "complain.h"
#include "layoutspy/format.h"
#include "term.h"
#include "trace_db.h"

#define WAIT_MS 5000 /* for a collector that is about to end */

/* Take in a spool that was left behind. What cannot be taken in is said, and does not stop the
 * reading of what is there. True: the trace is all there is to know, or `why` was said. */
static void take_spool(const char *path, bool *said) {
    char spool[LS_PATH_MAX], why[512];
    *said = false;
    if (!ls_spool_find(path, spool, sizeof spool))
        return;
    ls_progress_start("taking in the recording");
    enum ls_collected result = ls_collect_once(spool, path, WAIT_MS, why, sizeof why);
    ls_progress_stop();
    switch (result) {
    case LS_COLLECTED_FAILED:
        ls_complain(path, "%s is not in the trace yet: %s", spool, why);
        *said = true;
        break;
    case LS_COLLECTED_BUSY:
        ls_complain(path, "its collector is still at work; this is what is there so far");
        break;
    case LS_COLLECTED_LIVE:
        ls_complain(path, "the program is still running; this is what it has done so far");
        break;
    case LS_COLLECTED_ELSEWHERE:
        ls_complain(path, "was recorded in another container, and may be still; this is what is "
                          "there so far");
        break;
    case LS_COLLECTED:
    case LS_COLLECTED_NOTHING:
        break;
    }
}

/* What is wrong with the file itself, or NULL. */
static const char *file_fault(const char *path) {
    struct stat st;
    if (stat(path, &st) != 0)
        return errno == ENOENT ? "there is no such trace" : strerror(errno);
    if (S_ISDIR(st.st_mode))
        return "is a directory, not a trace";
    if (!S_ISREG(st.st_mode))
        return "is not a regular file, so not a trace";
    if (st.st_size == 0)
        return "is empty: nothing was recorded into it";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return strerror(errno);
    close(fd);
    return NULL;
}

static int number(sqlite3 *db, const char *sql, int *value) {
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        *value = sqlite3_column_int(stmt, 0);
        rc = SQLITE_OK;
    }
    sqlite3_finalize(stmt);
    return rc;
}

/* Open read-only; where not even the files beside it can be made (a read-only folder and a trace
 * left in WAL mode), as one that nobody changes. */
static int open_read_only(const char *path, sqlite3 **db) {
    int tables, rc = sqlite3_open_v2(path, db, SQLITE_OPEN_READONLY, NULL);
    if (rc == SQLITE_OK)
        rc = number(*db, "SELECT COUNT(*) FROM sqlite_master", &tables);
    if ((rc & 255) != SQLITE_CANTOPEN && (rc & 255) != SQLITE_READONLY)
        return rc;
    sqlite3_close(*db);
    *db = NULL;
    char *uri = malloc(3 * strlen(path) + 32), *p = uri;
    if (!uri)
        return SQLITE_NOMEM;
    p += sprintf(p, "file:");
    for (; *path; path++)
        p += sprintf(p, strchr("?#%", *path) ? "%%%02x" : "%c", (unsigned char)*path);
    sprintf(p, "?immutable=1");
    rc = sqlite3_open_v2(uri, db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    free(uri);
    return rc;
}

#define SCHEMA_OLDEST 5 /* that can be read: earlier ones, before any release, lack tables */

/* A trace of this version or an older one; else `why`. */
static bool check_trace(sqlite3 *db, char *why, size_t size) {
    int id = 0, version = 0;
    int rc = number(db, "PRAGMA application_id", &id);
    if (rc == SQLITE_OK)
        rc = number(db, "PRAGMA user_version", &version);
    if ((rc & 255) == SQLITE_NOTADB)
        snprintf(why, size, "is not a layoutspy trace (not an SQLite file)");
    else if (rc != SQLITE_OK)
        snprintf(why, size, "cannot be read: %s", sqlite3_errmsg(db));
    else if (id != ls_schema_number("application_id"))
        snprintf(why, size, "is not a layoutspy trace (an SQLite file of something else)");
    else if (version > ls_schema_number("user_version"))
        snprintf(why, size, "comes from a newer layoutspy (schema %d; this one reads up to %d)",
                 version, ls_schema_number("user_version"));
    else if (version < SCHEMA_OLDEST)
        snprintf(why, size,
                 "comes from an older layoutspy (schema %d; this one reads %d to %d): record anew",
                 version, SCHEMA_OLDEST, ls_schema_number("user_version"));
    else
        return true;
    return false;
}

/* Whether findings can be stored; else they go to tables that end with the connection. */
static bool prepare_findings(sqlite3 *db) {
    if (!sqlite3_db_readonly(db, "main") &&
        sqlite3_exec(db, "BEGIN IMMEDIATE; COMMIT", NULL, NULL, NULL) == SQLITE_OK)
        return true;
    sqlite3_exec(db,
                 "PRAGMA temp_store=MEMORY;"
                 "CREATE TEMP TABLE finding AS SELECT * FROM main.finding WHERE 0;"
                 "CREATE TEMP TABLE skipped AS SELECT * FROM main.skipped WHERE 0",
                 NULL, NULL, NULL);
    return false;
}

static bool open_database(struct ls_trace *trace, char *why, size_t size) {
    int rc = SQLITE_READONLY;
    ls_db_configure();
    if (access(trace->path, W_OK) == 0)
        rc = sqlite3_open_v2(trace->path, &trace->db, SQLITE_OPEN_READWRITE, NULL);
    int tables;
    if (trace->db) /* before the first read: others may be taking a spool in */
        sqlite3_busy_timeout(trace->db, WAIT_MS);
    if (rc == SQLITE_OK)
        rc = number(trace->db, "SELECT COUNT(*) FROM sqlite_master", &tables);
    if (rc == SQLITE_READONLY || (rc & 255) == SQLITE_CANTOPEN) {
        sqlite3_close(trace->db);
        trace->db = NULL;
        rc = open_read_only(trace->path, &trace->db);
    }
    if (rc != SQLITE_OK && (rc & 255) != SQLITE_NOTADB) {
        snprintf(why, size, "cannot be read: %s", sqlite3_errmsg(trace->db));
        return false;
    }
    sqlite3_busy_timeout(trace->db, WAIT_MS); /* it may be another connection by now */
    if (!check_trace(trace->db, why, size))
        return false;
    trace->writable = prepare_findings(trace->db);
    return true;
}

int ls_trace_open(struct ls_trace *trace, const char *path) {
    char why[512];
    bool said;
    *trace = (struct ls_trace){.path = path};
    take_spool(path, &said);
    trace->partial = said;
    const char *fault = file_fault(path);
    if (!fault && open_database(trace, why, sizeof why))
        return LS_EXIT_OK;
    if (!said)
        ls_complain(path, "%s", fault ? fault : why);
    ls_trace_close(trace);
    return LS_EXIT_INPUT;
}

void ls_trace_close(struct ls_trace *trace) {
    sqlite3_close(trace->db);
    trace->db = NULL;
}
