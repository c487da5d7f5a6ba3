/*
 * cmd_run.c - `layoutspy run`: records a command and tells in a few lines what was found.
 *
 * One thread, never in a signal handler.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "beside.h"
#include "common/pattern.h"
#include "common/setting.h"
#include "detect/detect.h"
#include "human.h"
#include "launch.h"
#include "options.h"
#include "query.h"
#include "render/render.h"
#include "trace.h"
#include "verbs.h"

#define OTHERS_SHOWN 8 /* traces of other processes, each of which is read */

struct run_options {
    const char *out; /* NULL: not given */
    bool quiet;
    char **argv;
};

static const struct argp_option run_options[] = {
    {"output", 'o', "TRACE", 0,
     "The trace's name, which must not exist; %p is the command's pid, %h the host, %r the rank, "
     "%n the program's name, %% a percent sign (default: $LAYOUTSPY_OUT, or layoutspy.%p.db)",
     0},
    {"quiet", 'q', NULL, 0, "No summary at the end", 0},
    {0},
};

static error_t parse_run(int key, char *arg, struct argp_state *state) {
    struct run_options *options = state->input;
    switch (key) {
    case 'o':
        options->out = arg;
        return 0;
    case 'q':
        options->quiet = true;
        return 0;
    case ARGP_KEY_ARG: /* the first word of the command: the rest is not ours */
        options->argv = &state->argv[state->next - 1];
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (!options->argv)
            ls_usage_error(state, "no COMMAND given");
        return 0;
    default:
        return ls_options_other(key, state);
    }
}

static const struct argp run_argp = {
    .options = run_options,
    .parser = parse_run,
    .args_doc = "[--] COMMAND...",
    .doc = "Runs COMMAND with every CUDA call recorded into TRACE, and sums up what was found on "
           "stderr.\v"
           "The exit status is COMMAND's own; 128 + N where signal N ended it; 127 where it is not "
           "found, 126 where it cannot be run; 2 for wrong usage, 4 where no trace can be written.",
};

/* Returns a status, or LS_EXIT_OK. */
static int check_pattern(const char *pattern) {
    static const struct ls_pattern_values any = {0};
    int error = ls_pattern_expand(NULL, LS_PATH_MAX, pattern, &any);
    switch (error) {
    case 0:
        return LS_EXIT_OK;
    case LS_PATTERN_TRAILING:
        fprintf(stderr, "layoutspy: %s: ends in a lone %%; write %%%% for a percent sign\n",
                pattern);
        break;
    case LS_PATTERN_TOO_LONG:
        fprintf(stderr, "layoutspy: %.40s...: too long for a file's name\n", pattern);
        break;
    case LS_PATTERN_EMPTY:
        fprintf(stderr, "layoutspy: '%s': names no file; give the trace's name\n", pattern);
        break;
    default:
        fprintf(stderr,
                "layoutspy: %s: unknown %%%c; known are %%p pid, %%h host, %%r rank, %%n program "
                "and %%%%\n",
                pattern, ls_pattern_unknown_letter(error));
    }
    return LS_EXIT_USAGE;
}

/* The library takes its default for a wrong value, and tells the trace alone. */
static int check_settings(void) {
    char name[LS_SETTING_NAME], wrong[LS_SETTING_WRONG];
    uint64_t unused;
    int status = LS_EXIT_OK;
    for (enum ls_setting i = 0; i < LS_SETTINGS; i++) {
        ls_setting_name(i, name);
        const char *text = getenv(name);
        if (ls_setting_parse(i, text, &unused))
            continue;
        ls_setting_wrong(i, text, wrong);
        fprintf(stderr, "layoutspy: %s\n", wrong);
        status = LS_EXIT_USAGE;
    }
    return status;
}

/* The path as the user would type it: relative where it lies below here. */
static const char *short_path(const char *path) {
    static char cwd[LS_PATH_MAX];
    size_t length;
    if (getcwd(cwd, sizeof cwd) && (length = strlen(cwd)) > 1 && strncmp(path, cwd, length) == 0 &&
        path[length] == '/')
        return path + length + 1;
    return path;
}

static bool was_recorded(const char *path) {
    char spool[LS_PATH_MAX + 8];
    snprintf(spool, sizeof spool, "%s.spool", path);
    return access(path, F_OK) == 0 || access(spool, F_OK) == 0;
}

/* What the collector could not see, since the command is our child: its status. */
static void note_ending(struct ls_trace *trace, const struct ls_launch *launch) {
    bool by_signal = WIFSIGNALED(launch->status);
    char sql[512];
    snprintf(sql, sizeof sql,
             "UPDATE meta SET value = 'killed' WHERE %d AND key = 'ended' AND value = 'unknown' "
             "AND (SELECT value FROM meta WHERE key = 'pid') = '%d';"
             "INSERT OR REPLACE INTO meta SELECT '%s', '%d' FROM meta WHERE key = 'pid' AND "
             "value = '%d'",
             by_signal, (int)launch->pid, by_signal ? "signal" : "exit_status",
             by_signal ? WTERMSIG(launch->status) : WEXITSTATUS(launch->status), (int)launch->pid);
    if (trace->writable)
        sqlite3_exec(trace->db, sql, NULL, NULL, NULL); /* it is a nicety: no word if it fails */
}

static void say_unseen(int status) {
    const char *disable = getenv("LAYOUTSPY_DISABLE");
    if (disable && *disable && !ls_setting_is_off(disable))
        fprintf(stderr, "layoutspy: nothing was recorded with LAYOUTSPY_DISABLE=%s\n", disable);
    else if (status != 126 && status != 127) /* what a shell, or env, says that started nothing */
        fputs(
            "layoutspy: no CUDA call was seen, so there is no trace (unseen without CUPTI, or where "
            "CUDA_INJECTION64_PATH names another tool, are a statically linked CUDA runtime, "
            "RTLD_DEEPBIND, dlsym on a handle, and the driver API)\n",
            stderr);
}

/* A trace of another process of this run: its name, and how much is wrong in it. */
static void sum_up_other(const struct ls_launch *launch, const char *path) {
    struct ls_trace trace;
    if (ls_trace_open(&trace, path) != LS_EXIT_OK)
        return;
    if (ls_query_meta_int(trace.db, 0, "start_real_ns") >= launch->start_real_ns &&
        ls_detect_run(&trace) == LS_EXIT_OK) {
        int64_t problems =
            ls_query_int(trace.db, 0, "SELECT COUNT(*) FROM finding WHERE severity = 'problem'");
        int64_t warnings =
            ls_query_int(trace.db, 0, "SELECT COUNT(*) FROM finding WHERE severity = 'warning'");
        fprintf(stderr, "  beside it: %s, %lld %s, %lld %s\n", path, (long long)problems,
                ls_plural(problems, "problem", "problems"), (long long)warnings,
                ls_plural(warnings, "warning", "warnings"));
    }
    ls_trace_close(&trace);
}

/* Written during this run? Earlier runs' traces are not even opened. */
static bool is_recent(const char *path, const struct ls_launch *launch) {
    char spool[LS_PATH_MAX + 8];
    struct stat st;
    snprintf(spool, sizeof spool, "%s.spool", path);
    return (stat(path, &st) == 0 || stat(spool, &st) == 0) &&
           st.st_mtime >= launch->start_real_ns / 1000000000;
}

static void sum_up_others(const struct ls_launch *launch, const struct ls_beside *beside) {
    int shown = 0, more = 0;
    for (size_t i = 0; i < beside->count; i++) {
        if (!is_recent(beside->path[i], launch))
            continue;
        if (shown++ < OTHERS_SHOWN)
            sum_up_other(launch, beside->path[i]);
        else
            more++;
    }
    if (more)
        fprintf(stderr, "  ... and %d more beside it: layoutspy info names them\n", more);
}

static bool memory_ran_out(sqlite3 *db) {
    return ls_query_int(db, 0, "SELECT EXISTS(SELECT 1 FROM oom WHERE recovered IS NOT 1)") != 0;
}

/* Also waits for the collector: as the first process of a container we end it by ending. */
static void sum_up(const struct ls_launch *launch, int status, bool quiet) {
    struct ls_trace trace;
    const char *path = short_path(launch->trace);
    if (!was_recorded(path)) {
        if (!quiet)
            say_unseen(status);
        return;
    }
    if (ls_trace_open(&trace, path) != LS_EXIT_OK)
        return;
    note_ending(&trace, launch);
    if (!quiet && !trace.partial && ls_detect_run(&trace) == LS_EXIT_OK &&
        ls_render_summary(&trace, stderr) == SQLITE_OK)
        fprintf(stderr, "  trace: %s; next: %s %s %s\n", path, program_invocation_name,
                memory_ran_out(trace.db) ? "oom" : "report", path);
    ls_trace_close(&trace);
    if (quiet)
        return;
    struct ls_beside beside;
    ls_beside_find(path, &beside);
    sum_up_others(launch, &beside);
    ls_beside_free(&beside);
}

static int run(int argc, char **argv) {
    struct run_options options = {0};
    struct ls_launch launch = {0};
    ls_options_parse(&run_argp, "run", ARGP_IN_ORDER, argc, argv, &options);
    const char *setting = getenv("LAYOUTSPY_OUT");
    if (!options.out && setting && *setting)
        options.out = setting;
    launch.numbered = !options.out;
    launch.pattern = options.out ? options.out : LS_PATTERN_DEFAULT;
    launch.argv = options.argv;
    int status = check_pattern(launch.pattern);
    if (status == LS_EXIT_OK)
        status = check_settings();
    if (status == LS_EXIT_OK)
        status = ls_launch_find_library(&launch);
    if (status == LS_EXIT_OK)
        status = ls_launch_start(&launch);
    if (status != LS_EXIT_OK)
        return status;
    status = ls_launch_wait(&launch);
    sum_up(&launch, status, options.quiet);
    return status;
}

const struct ls_verb ls_verb_run = {"run", "record a command", run};
