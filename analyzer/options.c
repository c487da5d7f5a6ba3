/*
 * options.c - command lines of the verbs. See options.h.
 *
 * argp prints its own errors on two lines and getopt's on a third; ARGP_NO_ERRS silences both, and
 * ARGP_KEY_ERROR is where the one line is made. Main thread only; not for signal handlers.
 */
#include "options.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "trace.h"

static const struct argp *current; /* the verb's own; argp wraps it in one of its own */

void ls_usage_error(const struct argp_state *state, const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", state->name);
    vfprintf(stderr, format, args);
    fprintf(stderr, "; see %s --help\n", state->name);
    va_end(args);
    exit(LS_EXIT_USAGE);
}

/* The option that `word` names, by its whole long name or its letter, or NULL. */
static const struct argp_option *find_option(const char *word) {
    const struct argp_option *option = current->options;
    size_t length = strcspn(word, "=");
    for (; option && (option->name || option->key); option++) {
        if (word[1] == '-' && option->name && strlen(option->name) == length - 2 &&
            strncmp(option->name, word + 2, length - 2) == 0)
            return option;
        if (word[1] != '-' && isprint(option->key) && strrchr(word, option->key))
            return option;
    }
    return NULL;
}

static void __attribute__((noreturn)) bad_option(const struct argp_state *state) {
    /* getopt has moved past the word, unless it failed in the middle of a cluster "-xyz". */
    const char *word = NULL;
    if (state->next > 1 && state->next <= state->argc)
        word = state->argv[state->next - 1];
    if ((!word || word[0] != '-') && state->next < state->argc)
        word = state->argv[state->next];
    if (!word || word[0] != '-')
        ls_usage_error(state, "wrong options");
    const struct argp_option *option = find_option(word);
    if (option && option->arg && !strchr(word, '='))
        ls_usage_error(state, "option '%s' needs a value (%s)", word, option->arg);
    if (option && !option->arg && strchr(word, '='))
        ls_usage_error(state, "option '%.*s' takes no value", (int)strcspn(word, "="), word);
    ls_usage_error(state, "unknown option '%s'", word);
}

error_t ls_options_other(int key, struct argp_state *state) {
    if (key == ARGP_KEY_ERROR)
        bad_option(state);
    return ARGP_ERR_UNKNOWN;
}

error_t ls_options_words(int key, char *arg, struct argp_state *state, const char *const names[],
                         const char **word[]) {
    unsigned count = 0;
    while (names[count])
        count++;
    switch (key) {
    case ARGP_KEY_ARG:
        if (state->arg_num >= count)
            ls_usage_error(state, "'%s' is one word too many", arg);
        *word[state->arg_num] = arg;
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num < count)
            ls_usage_error(state, "no %s given", names[state->arg_num]);
        return 0;
    default:
        return ls_options_other(key, state);
    }
}

/* argp's own --help says nothing under ARGP_NO_ERRS. */
static const struct argp_option help_option[] = {
    {"help", '?', NULL, 0, "Give this help", -1},
    {0},
};

static error_t parse_help(int key, char *arg, struct argp_state *state) {
    (void)arg;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = state->input;
    if (key != '?')
        return ARGP_ERR_UNKNOWN;
    ls_output_begin();
    argp_help(state->root_argp, stdout, ARGP_HELP_LONG | ARGP_HELP_DOC | ARGP_HELP_USAGE,
              state->name);
    exit(ls_output_end());
}

void ls_options_parse(const struct argp *argp, const char *verb, unsigned flags, int argc,
                      char **argv, void *input) {
    static char name[64];
    /* The verb's texts go to the outer parser, or argp would print them below the options. */
    const struct argp inner = {.options = argp->options, .parser = argp->parser};
    const struct argp_child children[] = {{.argp = &inner}, {0}};
    const struct argp outer = {.options = help_option,
                               .parser = parse_help,
                               .args_doc = argp->args_doc,
                               .doc = argp->doc,
                               .children = children};
    snprintf(name, sizeof name, "layoutspy %s", verb);
    if (argc > 0)
        argv[0] = name; /* argp takes the program's name in its help from here */
    current = argp;
    error_t error =
        argp_parse(&outer, argc, argv, flags | ARGP_NO_ERRS | ARGP_NO_HELP, NULL, input);
    if (error) { /* no memory, for one: wrong use has exited above */
        fprintf(stderr, "%s: cannot read the command line: %s\n", name, strerror(error));
        exit(LS_EXIT_USAGE);
    }
}
