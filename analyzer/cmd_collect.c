/*
 * cmd_collect.c - `layoutspy collect`: the collector.
 *
 * Started by liblayoutspy.so at a program's first CUDA call, in a session of its own, with nothing
 * open and whatever signal settings the program had; or by a person, for a spool that was left
 * behind. One thread, never in a signal handler.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define COLLECTOR_NICE 5

#include "collect.h"
#include "complain.h"
#include "nvml.h"
#include "options.h"
#include "trace.h"
#include "verbs.h"

struct arguments {
    const char *spool;
    long pid; /* 0: not given */
};

static error_t parse_collect(int key, char *arg, struct argp_state *state) {
    static const char *const names[] = {"SPOOL", NULL};
    struct arguments *arguments = state->input;
    char *end;
    if (key == 'p') {
        errno = 0;
        arguments->pid = strtol(arg, &end, 10);
        if (errno || *end || arguments->pid <= 0 || arguments->pid > INT_MAX)
            ls_usage_error(state, "'%s' is no process id", arg);
        return 0;
    }
    return ls_options_words(key, arg, state, names, (const char **[]){&arguments->spool});
}

static const struct argp_option collect_options[] = {
    {"pid", 'p', "PID", 0, "the recorded process; the spool names it too", 0},
    {0},
};

static const struct argp collect_argp = {
    .options = collect_options,
    .parser = parse_collect,
    .args_doc = "SPOOL",
    .doc = "Turns the spool of a recording into its trace, an SQLite file that the spool names, "
           "until the recorded process ends. A recording starts its collector by itself; this is "
           "for a spool that was left behind, which every verb that reads the trace takes in as "
           "well.\v"
           "Exit status: 0 done, and the spool is removed; 2 wrong usage; 3 SPOOL cannot be read; "
           "4 the trace cannot be written, and the spool is kept.",
};

/* What is opened next must not land on 0 to 2, where error lines go. */
static void fill_standard_descriptors(void) {
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
}

static void reset_signals(void) {
    sigset_t none;
    sigemptyset(&none);
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error like a full disk */
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Where the cores are all busy the program goes first; the spool holds what waits. Not by more, or
 * its trace would be late where others keep the machine busy. */
static void step_back(void) {
    if (getpriority(PRIO_PROCESS, 0) < COLLECTOR_NICE)
        setpriority(PRIO_PROCESS, 0, COLLECTOR_NICE);
}

static int collect(int argc, char **argv) {
    struct arguments arguments = {0};
    char path[PATH_MAX];
    fill_standard_descriptors();
    reset_signals();
    step_back();
    ls_options_parse(&collect_argp, "collect", 0, argc, argv, &arguments);
    if (!realpath(arguments.spool, path)) {
        ls_complain(arguments.spool, "cannot open the spool: %s", strerror(errno));
        return LS_EXIT_INPUT;
    }
    if (chdir("/") != 0) { /* not to keep a file system busy; all paths are absolute */
    }
    int status = ls_collect_follow(path, (int)arguments.pid);
    if (ls_nvml_hangs()) /* exit handlers might wait for what that thread holds */
        _exit(status);
    return status;
}

const struct ls_verb ls_verb_collect = {"collect", "turn a recording's spool into its trace",
                                        collect};
