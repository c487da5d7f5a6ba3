/*
 * ending.c - how long a recording is, and how it ended. See ending.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "ending.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "query.h"

bool ls_ending_known(sqlite3 *db) {
    return ls_query_int(db, 0, "SELECT EXISTS(SELECT 1 FROM meta WHERE key = 'ended')") != 0;
}

int64_t ls_recorded_ns(sqlite3 *db) {
    int64_t end = ls_query_meta_int(db, -1, "end_ns");
    return end >= 0 ? end : ls_query_int(db, 0, "SELECT MAX(start_ns + duration_ns) FROM call");
}

/* Of a recording without an end: is there a process of that number, since the same boot? */
static bool is_running(sqlite3 *db) {
    char now[64] = "", *then = ls_query_meta(db, "boot_id");
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool same = file && then && fscanf(file, "%63s", now) == 1 && strcmp(now, then) == 0;
    int64_t pid = ls_query_meta_int(db, 0, "pid");
    if (file)
        fclose(file);
    free(then);
    return same && pid > 0 && (kill((pid_t)pid, 0) == 0 || errno == EPERM);
}

static char *words(sqlite3 *db, const char *ended, const char *status, const char *number) {
    char *text = NULL;
    int size;
    if (!ended)
        return strdup(is_running(db) ? "is still running" : "has no end in the trace yet");
    if (strcmp(ended, "exec") == 0) /* the status is that of what it became */
        return strdup("went on to run another program (exec)");
    if (number)
        size = asprintf(&text, "was killed by signal %s", number);
    else if (strcmp(ended, "killed") == 0)
        size = asprintf(&text, "was killed by a signal");
    else if (strcmp(ended, "exit") == 0)
        size = asprintf(&text, status ? "exited with status %s" : "exited", status);
    else if (status)
        size = asprintf(&text, "exited with status %s, without its exit handlers (_exit)", status);
    else
        size = asprintf(&text, "ended without its exit handlers (killed, aborted or by _exit)");
    return size < 0 ? NULL : text;
}

char *ls_ending_text(sqlite3 *db) {
    char *ended = ls_query_meta(db, "ended"), *status = ls_query_meta(db, "exit_status");
    char *number = ls_query_meta(db, "signal");
    char *text = words(db, ended, status, number);
    free(ended);
    free(status);
    free(number);
    return text;
}
