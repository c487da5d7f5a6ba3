/*
 * cmd_memory.c - `layoutspy memory`: the devices' memory over time, and who held it at a moment.
 *
 * One thread, never in a signal handler.
 */
#include <errno.h>
#include <stdlib.h>

#include "complain.h"
#include "memory/at.h"
#include "options.h"
#include "output.h"
#include "render/memory.h"
#include "term.h"
#include "trace.h"
#include "verbs.h"

#define DEVICES_MOST 256
#define POINTS_MOST 1000000

struct memory_options {
    const char *path;
    const char *at_text;
    struct ls_memory_view view;
    long device; /* -1: all */
    bool json;
};

static long number(const struct argp_state *state, const char *text, const char *what, long least,
                   long most) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (!*text || *end || errno || value < least || value > most)
        ls_usage_error(state, "'%s' is no number of %s, %ld to %ld", text, what, least, most);
    return value;
}

static error_t parse_memory(int key, char *arg, struct argp_state *state) {
    static const char *const names[] = {"TRACE", NULL};
    struct memory_options *options = state->input;
    switch (key) {
    case 'a':
        options->view.all = true;
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case 'd':
        options->device = number(state, arg, "a device", 0, DEVICES_MOST - 1);
        return 0;
    case 'p':
        options->view.points = (size_t)number(state, arg, "points", 2, POINTS_MOST);
        return 0;
    case 't':
        if (!ls_at_parse(arg, &options->view.at))
            ls_usage_error(state, "'%s' is no moment: %s", arg, LS_AT_FORMS);
        options->at_text = arg;
        return 0;
    default:
        return ls_options_words(key, arg, state, names, (const char **[]){&options->path});
    }
}

static const struct argp memory_argp = {
    .options =
        (const struct argp_option[]){{"all", 'a', NULL, 0, "Every row, not only one screen", 0},
                                     {"at", 't', "WHEN", 0, "What is live then: " LS_AT_FORMS, 0},
                                     {"device", 'd', "N", 0, "Of this device alone", 0},
                                     {"json", 'j', NULL, 0, "Write JSON", 0},
                                     {"points", 'p', "N", 0, "So many rows of the timeline", 0},
                                     {0}},
    .parser = parse_memory,
    .args_doc = "TRACE",
    .doc =
        "Shows each device's memory over time: allocated, reserved by a framework's allocator, "
        "pending, the gap and the peak of each step; and what lies in the allocator's segments "
        "at the peak and at the end. With --at: who held the memory then, and since when.\v"
        "SECONDS count from the recording's start: 12.5. step:N is the begin of the N-th step.\n"
        "Exit status: 0 done; 2 wrong usage, no such device or moment; 3 TRACE cannot be read; 4 "
        "the output cannot be written.",
};

/* Loads one device after another: a recording of eight need not be in memory at once. */
static int show_devices(const struct ls_trace *trace, const struct memory_options *options,
                        const struct ls_oom_events *events, const int *device, size_t devices) {
    int status = LS_EXIT_OK;
    for (size_t i = 0; i < devices && status == LS_EXIT_OK; i++) {
        struct ls_history history;
        char why[100];
        if (!ls_history_load(&history, trace->db, device[i])) {
            ls_complain(trace->path, "cannot read the trace: %s", sqlite3_errmsg(trace->db));
            return LS_EXIT_INPUT;
        }
        int64_t at_ns = options->at_text
                            ? ls_at_find(&options->view.at, &history, events, why, sizeof why)
                            : LS_NO_MOMENT;
        if (options->at_text && at_ns < 0) {
            ls_complain(trace->path, "there is no moment '%s': %s", options->at_text, why);
            status = LS_EXIT_USAGE;
        } else {
            if (i == 0) /* an error is all there is to see */
                ls_render_memory_begin(trace, options->json, devices, stdout);
            if (options->json)
                ls_render_memory_json(&history, &options->view, at_ns, i == 0, stdout);
            else
                ls_render_memory(&history, &options->view, at_ns, stdout);
        }
        ls_history_free(&history);
    }
    return status;
}

/* An error is of one device: without another wish that one is shown. */
static size_t choose_devices(const struct ls_trace *trace, const struct memory_options *options,
                             const struct ls_oom_events *events, int *device) {
    const struct ls_oom_event *oom = ls_oom_events_first_lost(events);
    size_t count = ls_history_devices(trace->db, device, DEVICES_MOST), found = 0;
    int64_t wish = options->device, number_of = options->view.at.number;
    if (number_of && (size_t)number_of <= events->count)
        oom = &events->oom[number_of - 1];
    if (wish < 0 && options->at_text && options->view.at.kind == LS_AT_OOM && oom)
        wish = oom->device;
    for (size_t i = 0; i < count; i++)
        if (wish < 0 || device[i] == wish)
            device[found++] = device[i];
    return found;
}

static int show(const struct ls_trace *trace, struct memory_options *options) {
    struct ls_oom_events events;
    int device[DEVICES_MOST], status = LS_EXIT_INPUT;
    if (!ls_oom_events_load(&events, trace->db)) {
        ls_complain(trace->path, "cannot read the trace: %s", sqlite3_errmsg(trace->db));
        return status;
    }
    size_t devices = choose_devices(trace, options, &events, device);
    options->view.devices = devices;
    if (options->device >= 0 && devices == 0) {
        ls_complain(trace->path, "no memory was recorded on device %ld", options->device);
        status = LS_EXIT_USAGE;
    } else {
        if (devices == 0)
            ls_render_memory_begin(trace, options->json, devices, stdout);
        status = show_devices(trace, options, &events, device, devices);
        if (status == LS_EXIT_OK && options->json)
            ls_render_memory_json_end(stdout);
    }
    ls_oom_events_free(&events);
    return status;
}

static int memory(int argc, char **argv) {
    struct memory_options options = {.device = -1};
    struct ls_trace trace;
    ls_options_parse(&memory_argp, "memory", 0, argc, argv, &options);
    int status = ls_trace_open(&trace, options.path);
    if (status != LS_EXIT_OK)
        return status;
    ls_output_begin();
    ls_progress_start("looking at who held memory");
    ls_progress_attach(trace.db);
    status = show(&trace, &options);
    ls_progress_stop();
    if (status == LS_EXIT_OK)
        status = ls_output_end();
    ls_trace_close(&trace);
    return status;
}

const struct ls_verb ls_verb_memory = {"memory", "memory over time, and who held it when", memory};
