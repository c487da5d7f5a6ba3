/*
 * cmd_census.c - `layoutspy census`: which Python objects hold device memory, in a running program
 * or in a trace.
 *
 * One thread, never in a signal handler.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "census.h"
#include "census_ask.h"
#include "complain.h"
#include "options.h"
#include "output.h"
#include "query.h"
#include "render/render.h"
#include "trace.h"
#include "verbs.h"

#define WAIT_S 10
#define WAIT_LONGEST_S 86400

struct census_options {
    const char *word;
    double wait_s;
    bool all, json;
};

static const struct argp_option census_options[] = {
    {"all", 'a', NULL, 0, "Show every census of TRACE, not only the last", 0},
    {"json", 'j', NULL, 0, "Write JSON", 0},
    {"wait", 'w', "SECONDS", 0, "Wait so long for PID to answer (10)", 0},
    {0},
};

static error_t parse_census(int key, char *arg, struct argp_state *state) {
    static const char *const names[] = {"PID or TRACE", NULL};
    struct census_options *options = state->input;
    char *end;
    switch (key) {
    case 'a':
        options->all = true;
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case 'w':
        options->wait_s = strtod(arg, &end);
        if (!*arg || *end || !(options->wait_s >= 0 && options->wait_s <= WAIT_LONGEST_S))
            ls_usage_error(state, "'%s' is no number of seconds, 0 to %d", arg, WAIT_LONGEST_S);
        return 0;
    default:
        return ls_options_words(key, arg, state, names, (const char **[]){&options->word});
    }
}

static const struct argp census_argp = {
    .options = census_options,
    .parser = parse_census,
    .args_doc = "PID|TRACE",
    .doc = "Tells which Python objects hold device memory, by storage: its bytes, its tensors, "
           "their shapes, the paths that lead to them, and what only an autograd graph holds. With "
           "a number it asks that recorded process for a census, which it makes at its next CUDA "
           "call; with TRACE it shows the last one there: of an out-of-memory error, say.\v"
           "A file whose name is a number: ./NUMBER.\n"
           "Exit status: 0 done; 2 wrong usage; 3 the process did not answer, or TRACE cannot be "
           "read; 4 the output cannot be written.",
};

static int show(const struct census_options *options, const struct ls_trace *trace, int64_t id) {
    ls_output_begin();
    int rc = options->json ? ls_render_census_json(trace, id, stdout)
                           : ls_render_census(trace, id, stdout);
    int status = ls_output_end();
    if (rc == SQLITE_OK)
        return status;
    ls_complain(trace->path, "cannot read the trace: %s", sqlite3_errmsg(trace->db));
    return LS_EXIT_INPUT;
}

static bool failed(sqlite3 *db, int64_t id) {
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT state FROM census WHERE id = %" PRId64, id);
    return ls_query_int(db, 0, sql) == LS_CENSUS_FAILED;
}

static int ask(const struct census_options *options, pid_t pid) {
    struct ls_recorded recorded;
    struct ls_trace trace = {0};
    int64_t id;
    int status = ls_recorded_find(&recorded, pid);
    if (status == LS_EXIT_OK)
        status = ls_census_ask(&recorded, (int64_t)(options->wait_s * 1000), &id);
    if (status != LS_EXIT_OK)
        return status;
    /* By hand: ls_trace_open() would say that the program still runs, which is why it was asked. */
    trace.path = recorded.trace;
    if (sqlite3_open_v2(recorded.trace, &trace.db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK) {
        sqlite3_busy_timeout(trace.db, 5000);
        status = show(options, &trace, id);
        if (status == LS_EXIT_OK && failed(trace.db, id))
            status = LS_EXIT_INPUT; /* why is in what was shown */
    } else {
        ls_complain(recorded.trace, "cannot be read: %s", sqlite3_errmsg(trace.db));
        status = LS_EXIT_INPUT;
    }
    ls_trace_close(&trace);
    return status;
}

static int census(int argc, char **argv) {
    struct census_options options = {.wait_s = WAIT_S};
    struct ls_trace trace;
    ls_options_parse(&census_argp, "census", 0, argc, argv, &options);
    pid_t pid = ls_recorded_pid(options.word);
    if (pid)
        return ask(&options, pid);
    int status = ls_trace_open(&trace, options.word);
    if (status != LS_EXIT_OK)
        return status;
    status = show(&options, &trace, options.all ? LS_EVERY_CENSUS : ls_census_last(trace.db));
    ls_trace_close(&trace);
    return status;
}

const struct ls_verb ls_verb_census = {"census", "say which Python objects hold device memory",
                                       census};
