/*
 * main.c - `layoutspy`: picks the verb and runs it. One thread, never in a signal handler.
 */
#include <stdio.h>
#include <string.h>

#include "output.h"
#include "trace.h"
#include "verbs.h"

static const struct ls_verb *const verbs[] = {
    &ls_verb_run,    &ls_verb_report, &ls_verb_oom,  &ls_verb_memory, &ls_verb_layouts,
    &ls_verb_census, &ls_verb_sql,    &ls_verb_info, &ls_verb_ctl,    &ls_verb_collect,
};
#define VERB_COUNT (sizeof verbs / sizeof verbs[0])

static void print_help(FILE *to) {
    fputs("usage: layoutspy VERB [ARGUMENTS...]\n"
          "\n"
          "Records a CUDA program into an SQLite file, and says what its memory and copies cost.\n"
          "\n",
          to);
    for (size_t i = 0; i < VERB_COUNT; i++)
        fprintf(to, "  %-9s %s\n", verbs[i]->name, verbs[i]->summary);
    fputs("\n"
          "`layoutspy VERB --help` explains one verb; `layoutspy --version` prints the version.\n"
          "Exit status: 0 done, 2 wrong usage, 3 unreadable input, 4 output cannot be written;\n"
          "`run` exits as its command does.\n",
          to);
}

static const struct ls_verb *find_verb(const char *name) {
    for (size_t i = 0; i < VERB_COUNT; i++)
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fputs("layoutspy: no verb given; try `layoutspy --help`\n", stderr);
        return LS_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        ls_output_begin();
        print_help(stdout);
        return ls_output_end();
    }
    if (strcmp(argv[1], "--version") == 0) {
        ls_output_begin();
        puts("layoutspy " LS_VERSION);
        return ls_output_end();
    }
    const struct ls_verb *verb = find_verb(argv[1]);
    if (!verb) {
        fprintf(stderr, "layoutspy: unknown %s '%s'; try `layoutspy --help`\n",
                argv[1][0] == '-' ? "option" : "verb", argv[1]);
        return LS_EXIT_USAGE;
    }
    return verb->run(argc - 1, argv + 1);
}
