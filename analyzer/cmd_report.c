/*
 * cmd_report.c - `layoutspy report`: what is wrong in a trace, and what to change.
 *
 * One thread, never in a signal handler.
 */
#include <stdio.h>

#include "complain.h"
#include "detect/detect.h"
#include "options.h"
#include "output.h"
#include "render/render.h"
#include "trace.h"
#include "verbs.h"

struct report_options {
    const char *path;
    bool json;
};

static error_t parse_report(int key, char *arg, struct argp_state *state) {
    static const char *const names[] = {"TRACE", NULL};
    struct report_options *options = state->input;
    if (key == 'j') {
        options->json = true;
        return 0;
    }
    return ls_options_words(key, arg, state, names, (const char **[]){&options->path});
}

static const struct argp report_argp = {
    .options = (const struct argp_option[]){{"json", 'j', NULL, 0, "Write JSON", 0}, {0}},
    .parser = parse_report,
    .args_doc = "TRACE",
    .doc = "Looks for problems in TRACE and tells what they cost, where they are and what to "
           "change, the worst first.\v"
           "Exit status: 0 done, whatever was found; 2 wrong usage; 3 TRACE cannot be read; 4 the "
           "output cannot be written.",
};

static int report(int argc, char **argv) {
    struct report_options options = {0};
    struct ls_trace trace;
    ls_options_parse(&report_argp, "report", 0, argc, argv, &options);
    int status = ls_trace_open(&trace, options.path);
    if (status != LS_EXIT_OK)
        return status;
    ls_output_begin();
    status = ls_detect_run(&trace);
    if (status == LS_EXIT_OK) {
        int rc = options.json ? ls_render_json(&trace, stdout) : ls_render_text(&trace, stdout);
        status = ls_output_end();
        if (rc != SQLITE_OK) {
            ls_complain(options.path, "cannot read the trace: %s", sqlite3_errmsg(trace.db));
            status = LS_EXIT_INPUT;
        }
    }
    ls_trace_close(&trace);
    return status;
}

const struct ls_verb ls_verb_report = {"report", "say what is wrong, and what to change", report};
