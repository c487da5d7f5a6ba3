/*
 * cmd_oom.c - `layoutspy oom`: after an out-of-memory error, who held the memory and what led
 * there.
 *
 * One thread, never in a signal handler.
 */
#include <errno.h>
#include <stdlib.h>

#include "complain.h"
#include "detect/detect.h"
#include "memory/story.h"
#include "options.h"
#include "output.h"
#include "render/render.h"
#include "trace.h"
#include "verbs.h"

struct oom_options {
    const char *path;
    long number;
    bool all, json;
};

static error_t parse_oom(int key, char *arg, struct argp_state *state) {
    static const char *const names[] = {"TRACE", NULL};
    struct oom_options *options = state->input;
    char *end;
    switch (key) {
    case 'a':
        options->all = true;
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case 'e':
        errno = 0;
        options->number = strtol(arg, &end, 10);
        if (!*arg || *end || errno || options->number < 1)
            ls_usage_error(state, "'%s' is no number of an event, from 1", arg);
        return 0;
    default:
        return ls_options_words(key, arg, state, names, (const char **[]){&options->path});
    }
}

static const struct argp oom_argp = {
    .options =
        (const struct argp_option[]){
            {"all", 'a', NULL, 0, "Every holder and every finding, not only one screen", 0},
            {"event", 'e', "N", 0, "The N-th event, errors and stalls; else the first error", 0},
            {"json", 'j', NULL, 0, "Write JSON", 0},
            {0}},
    .parser = parse_oom,
    .args_doc = "TRACE",
    .doc =
        "Tells of an out-of-memory error: what was asked for and where, how the device's memory "
        "was shared then, what was tried, who held it and since when, what changed in the last "
        "steps, what followed, and what to do.\v"
        "Exit status: 0 done, whether memory ran out or not; 2 wrong usage, no such event; 3 TRACE cannot be "
        "read; 4 the output cannot be written.",
};

static int show(const struct ls_trace *trace, const struct oom_options *options,
                struct ls_histories *histories) {
    struct ls_story story;
    int rc = ls_story_load(&story, trace, histories, (size_t)options->number);
    int status = LS_EXIT_OK;
    char words[80];
    bool missing = rc == SQLITE_OK && options->number && !story.oom;
    if (missing)
        ls_complain(trace->path, "there is no event %ld: the recording has %zu (%s)",
                    options->number, story.events.count,
                    ls_oom_events_words(&story.events, words, sizeof words));
    else if (rc == SQLITE_OK)
        rc = options->json ? ls_render_oom_json(trace, &story, stdout)
                           : ls_render_oom(trace, &story, options->all, stdout);
    if (!missing)
        status = ls_output_end();
    if (rc != SQLITE_OK)
        ls_complain(trace->path, "cannot read the trace: %s", sqlite3_errmsg(trace->db));
    ls_story_free(&story);
    return missing ? LS_EXIT_USAGE : rc == SQLITE_OK ? status : LS_EXIT_INPUT;
}

static int oom(int argc, char **argv) {
    struct oom_options options = {0};
    struct ls_histories histories = {0};
    struct ls_trace trace;
    ls_options_parse(&oom_argp, "oom", 0, argc, argv, &options);
    int status = ls_trace_open(&trace, options.path);
    if (status != LS_EXIT_OK)
        return status;
    ls_output_begin();
    status = ls_detect_run_with(&trace, &histories);
    if (status == LS_EXIT_OK)
        status = show(&trace, &options, &histories);
    ls_histories_free(&histories);
    ls_trace_close(&trace);
    return status;
}

const struct ls_verb ls_verb_oom = {"oom", "after an out-of-memory error: who held the memory",
                                    oom};
