/*
 * cmd_info.c - `layoutspy info`: what a trace holds and how it was made.
 *
 * One thread, never in a signal handler.
 */
#include <stdio.h>

#include "complain.h"
#include "options.h"
#include "output.h"
#include "render/render.h"
#include "term.h"
#include "trace.h"
#include "verbs.h"

static error_t parse_info(int key, char *arg, struct argp_state *state) {
    static const char *const names[] = {"TRACE", NULL};
    return ls_options_words(key, arg, state, names, (const char **[]){state->input});
}

static const struct argp info_argp = {
    .parser = parse_info,
    .args_doc = "TRACE",
    .doc = "Tells what TRACE holds: the program, the times, the rows, what was lost, what could be "
           "seen.\v"
           "Exit status: 0 done; 2 wrong usage; 3 TRACE cannot be read; 4 the output cannot be "
           "written.",
};

static int info(int argc, char **argv) {
    const char *path = NULL;
    struct ls_trace trace;
    ls_options_parse(&info_argp, "info", 0, argc, argv, &path);
    int status = ls_trace_open(&trace, path);
    if (status != LS_EXIT_OK)
        return status;
    ls_output_begin();
    ls_progress_start("counting rows");
    ls_progress_attach(trace.db);
    int rc = ls_render_info(&trace, stdout);
    ls_progress_stop();
    status = ls_output_end();
    if (rc != SQLITE_OK) {
        ls_complain(path, "cannot read the trace: %s", sqlite3_errmsg(trace.db));
        status = LS_EXIT_INPUT;
    }
    ls_trace_close(&trace);
    return status;
}

const struct ls_verb ls_verb_info = {"info", "say what a trace holds", info};
