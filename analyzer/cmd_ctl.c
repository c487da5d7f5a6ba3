/*
 * cmd_ctl.c - `layoutspy ctl`: stops the recording of a running program, goes on with it, or has it
 * hand over what CUPTI holds.
 *
 * By words in the spool's header, as a census is asked for (census_ask.h). One thread, never in a
 * signal handler.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "census_ask.h"
#include "collect.h"
#include "complain.h"
#include "now.h"
#include "options.h"
#include "output.h"
#include "spool_read.h"
#include "trace.h"
#include "verbs.h"
#include "watch.h"

#define ANSWER_MS 5000
#define POLL_MS 50

struct ctl_options {
    const char *word, *action;
};

static error_t parse_ctl(int key, char *arg, struct argp_state *state) {
    static const char *const names[] = {"PID or TRACE", "start, stop or flush", NULL};
    static const char *const actions[] = {"start", "stop", "flush"};
    struct ctl_options *options = state->input;
    error_t error = ls_options_words(key, arg, state, names,
                                     (const char **[]){&options->word, &options->action});
    if (key != ARGP_KEY_END)
        return error;
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        if (strcmp(options->action, actions[i]) == 0)
            return error;
    ls_usage_error(state, "'%s' is none of start, stop and flush", options->action);
    return error;
}

static const struct argp ctl_argp = {
    .parser = parse_ctl,
    .args_doc = "PID|TRACE start|stop|flush",
    .doc =
        "Tells a recorded program that runs what to do. `stop`: record nothing, so that it is as "
        "fast as without layoutspy; `start`: go on; `coverage` says what is missing. `flush`: "
        "hand over the GPU times that CUPTI holds, so that they are in the trace.\v"
        "The program answers at its next CUDA call, or within a second where CUPTI is used; `stop` "
        "and `flush` not while a stream captures (for 10 seconds at most). A file whose name is a "
        "number: ./NUMBER.\n"
        "Exit status: 0 done; 2 wrong usage; 3 the process is not recorded or did not answer "
        "within 5 seconds (it has been asked, and answers when it makes a CUDA call).",
};

/* The spool of a running process, by its number or its trace. NULL: it was said why. */
static struct ls_spool *open_spool(const struct ctl_options *options,
                                   struct ls_recorded *recorded) {
    char why[PATH_MAX + 512] = "out of memory";
    pid_t pid = ls_recorded_pid(options->word);
    if (pid && ls_recorded_find(recorded, pid) != LS_EXIT_OK)
        return NULL;
    if (!pid) {
        snprintf(recorded->trace, sizeof recorded->trace, "%s", options->word);
        if (!ls_spool_find(options->word, recorded->spool, sizeof recorded->spool)) {
            ls_complain(options->word, access(options->word, F_OK) == 0
                                           ? "is over: nothing can be asked of its program"
                                           : "there is no such recording");
            return NULL;
        }
    }
    struct ls_spool *spool = calloc(1, sizeof *spool);
    if (spool && ls_spool_open(spool, recorded->spool, why, sizeof why) == LS_SPOOL_OK) {
        recorded->pid = (pid_t)spool->start.pid;
        if (spool->writable)
            return spool;
        snprintf(why, sizeof why,
                 "cannot be written: ask as the user who runs the program, or as root");
        ls_spool_close(spool);
    }
    free(spool);
    ls_complain(recorded->spool, "%s", why);
    return NULL;
}

static bool is_over(const struct ls_spool *spool) {
    struct ls_watch watch;
    ls_watch_init(&watch, (pid_t)spool->start.pid, spool->start.pid_start, spool->start.image,
                  spool->start.pid_space);
    bool over = ls_watch_dead(&watch);
    ls_watch_destroy(&watch);
    return over;
}

static uint32_t ask(struct ls_spool_header *header, const char *action) {
    if (strcmp(action, "flush") == 0)
        atomic_fetch_add(&header->flush_wanted, 1);
    else
        atomic_store(&header->stop_wanted, strcmp(action, "stop") == 0);
    return atomic_fetch_add(&header->requests, 1) + 1;
}

/* Whether it answered in time. */
static bool is_answered(struct ls_spool *spool, uint32_t request) {
    struct timespec poll = {.tv_nsec = POLL_MS * 1000000L};
    int64_t end = ls_now_ms() + ANSWER_MS;
    for (;;) {
        uint32_t done = atomic_load(&spool->header->requests_done);
        if ((int32_t)(done - request) >= 0)
            return true;
        if (ls_now_ms() >= end || is_over(spool))
            return false;
        syscall(SYS_futex, &spool->header->requests_done, FUTEX_WAIT, done, &poll, NULL, 0);
    }
}

static int answer(const struct ctl_options *options, const struct ls_recorded *recorded,
                  struct ls_spool *spool) {
    char process[32], why[PATH_MAX + 512];
    snprintf(process, sizeof process, "process %d", (int)recorded->pid);
    if (is_over(spool)) {
        ls_complain(process, "has ended: nothing can be asked of it");
        return LS_EXIT_INPUT;
    }
    uint32_t request = ask(spool->header, options->action);
    if (!is_answered(spool, request)) {
        ls_complain(process, is_over(spool)
                                 ? "ended before it answered"
                                 : "did not answer within 5 seconds: it made no CUDA call, or a "
                                   "stream captures. It has been asked, and answers at its next "
                                   "one or when the capture is over");
        return LS_EXIT_INPUT;
    }
    if (strcmp(options->action, "flush") == 0)
        ls_collect_once(recorded->spool, recorded->trace, 0, why, sizeof why);
    ls_output_begin();
    printf("%s: %s\n", process,
           strcmp(options->action, "stop") == 0    ? "recording is stopped"
           : strcmp(options->action, "start") == 0 ? "recording goes on"
                                                   : "what CUPTI held was handed over");
    return ls_output_end();
}

static int ctl(int argc, char **argv) {
    struct ctl_options options = {0};
    struct ls_recorded recorded = {0};
    ls_options_parse(&ctl_argp, "ctl", 0, argc, argv, &options);
    struct ls_spool *spool = open_spool(&options, &recorded);
    if (!spool)
        return LS_EXIT_INPUT;
    int status = answer(&options, &recorded, spool);
    ls_spool_close(spool);
    free(spool);
    return status;
}

const struct ls_verb ls_verb_ctl = {"ctl", "stop or go on recording a program that runs", ctl};
