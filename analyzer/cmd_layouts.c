/*
 * cmd_layouts.c - `layoutspy layouts`: which layouts reached which library calls, and what was
 * converted for them.
 *
 * One thread, never in a signal handler.
 */
#include <stdbool.h>

#include "complain.h"
#include "layouts.h"
#include "options.h"
#include "output.h"
#include "render/layouts.h"
#include "term.h"
#include "trace.h"
#include "verbs.h"

struct layouts_options {
    const char *path;
    bool all, json;
};

static error_t parse_layouts(int key, char *arg, struct argp_state *state) {
    static const char *const names[] = {"TRACE", NULL};
    struct layouts_options *options = state->input;
    switch (key) {
    case 'a':
        options->all = true;
        return 0;
    case 'j':
        options->json = true;
        return 0;
    default:
        return ls_options_words(key, arg, state, names, (const char **[]){&options->path});
    }
}

static const struct argp layouts_argp = {
    .options =
        (const struct argp_option[]){{"all", 'a', NULL, 0, "Every row, not only one screen", 0},
                                     {"json", 'j', NULL, 0, "Write JSON", 0},
                                     {0}},
    .parser = parse_layouts,
    .args_doc = "TRACE",
    .doc = "Shows, for each line of the program that leads to a call of cuBLAS, cuDNN, NCCL or "
           "cuFFT, what the call was given: sizes, types and layouts of its operands; which "
           "conversions of layouts the GPU ran, for which call, and their share of its time; and "
           "which operators made copies.\v"
           "Exit status: 0 done; 2 wrong usage; 3 TRACE cannot be read; 4 the output cannot be "
           "written.",
};

static int layouts(int argc, char **argv) {
    struct layouts_options options = {0};
    struct ls_trace trace;
    struct ls_layouts layouts;
    ls_options_parse(&layouts_argp, "layouts", 0, argc, argv, &options);
    int status = ls_trace_open(&trace, options.path);
    if (status != LS_EXIT_OK)
        return status;
    ls_progress_start("looking at layouts");
    ls_progress_attach(trace.db);
    int rc = ls_layouts_load(&layouts, trace.db);
    ls_progress_stop();
    if (rc == SQLITE_OK) {
        ls_output_begin();
        if (options.json)
            ls_render_layouts_json(&layouts, stdout);
        else
            ls_render_layouts(&trace, &layouts, options.all, stdout);
        status = ls_output_end();
    } else {
        ls_complain(trace.path, "cannot read the trace: %s", sqlite3_errmsg(trace.db));
        status = LS_EXIT_INPUT;
    }
    ls_layouts_free(&layouts);
    ls_trace_close(&trace);
    return status;
}

const struct ls_verb ls_verb_layouts = {
    "layouts", "which layouts reached which library calls, and what was converted", layouts};
