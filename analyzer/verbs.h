/*
 * verbs.h - the commands of `layoutspy`, one file each (cmd_VERB.c), joined in main.c's table.
 *
 * One thread, never in a signal handler.
 */
#ifndef LAYOUTSPY_VERBS_H
#define LAYOUTSPY_VERBS_H

struct ls_verb {
    const char *name;
    const char *summary; /* one line for `layoutspy --help` */
    /*
     * argv[0] is the verb. Handles its own `--help` (stdout, LS_EXIT_OK). Returns an enum ls_exit
     * (analyzer/trace.h), or for `run` the command's own status.
     */
    int (*run)(int argc, char **argv);
};

/* Defined by the cmd_*.c files. */
extern const struct ls_verb ls_verb_run;
extern const struct ls_verb ls_verb_collect;
extern const struct ls_verb ls_verb_report;
extern const struct ls_verb ls_verb_oom;
extern const struct ls_verb ls_verb_memory;
extern const struct ls_verb ls_verb_layouts;
extern const struct ls_verb ls_verb_sql;
extern const struct ls_verb ls_verb_info;
extern const struct ls_verb ls_verb_census;
extern const struct ls_verb ls_verb_ctl;

#endif
