/*
 * trace.h - opening a trace for reading, whatever state its recording was left in.
 *
 * Every verb goes through ls_trace_open(): it waits up to 5 s for a live collector, ingests a
 * spool that was left behind (TRACE.spool, or where the pointer file there says), refuses what is
 * not a trace or comes from a newer version, and hands back an open database.
 * Analyzer and collector processes only; one thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_TRACE_H
#define LAYOUTSPY_TRACE_H

#include <sqlite3.h>
#include <stdbool.h>

/* The exit statuses of every verb (see README): what a shell script may rely on. */
enum ls_exit {
    LS_EXIT_OK = 0,
    LS_EXIT_BROKEN_RULES = 1,
    LS_EXIT_USAGE = 2,
    LS_EXIT_INPUT = 3,
    LS_EXIT_OUTPUT = 4,
};

struct ls_trace {
    sqlite3 *db;
    const char *path; /* as given; not owned */
    bool partial;     /* some of the recording could not be taken in; that was said on stderr */
    bool writable;    /* findings can be stored; else `finding` and `skipped` are TEMP tables */
};

/*
 * Open `path`. Returns LS_EXIT_OK, or prints one line to stderr ("layoutspy: PATH: what is wrong;
 * what to do") and returns LS_EXIT_INPUT. Close with ls_trace_close().
 */
int ls_trace_open(struct ls_trace *trace, const char *path);
void ls_trace_close(struct ls_trace *trace);

#endif
