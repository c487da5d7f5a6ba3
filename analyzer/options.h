/*
 * options.h - command lines of the verbs: argp, with errors as one line and status 2.
 *
 * Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_OPTIONS_H
#define LAYOUTSPY_OPTIONS_H

#include <argp.h>

/*
 * Parse a verb's command line with argp_parse() and these additions: help texts call the program
 * "layoutspy VERB", and every wrong use prints one line to stderr and exits with LS_EXIT_USAGE.
 * Parsing stops at the first word that is no option where `flags` has ARGP_IN_ORDER and the parser
 * moves state->next to the end. The parser must hand keys that it does not know to
 * ls_options_other().
 */
void ls_options_parse(const struct argp *argp, const char *verb, unsigned flags, int argc,
                      char **argv, void *input);

/* What a parser returns for keys that are not its own. */
error_t ls_options_other(int key, struct argp_state *state);

/* "layoutspy VERB: MESSAGE; see layoutspy VERB --help" to stderr, then exit(LS_EXIT_USAGE). */
void ls_usage_error(const struct argp_state *state, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

/*
 * A parser for verbs whose words are all required: stores the n-th word into word[n], and refuses
 * too few ("no TRACE given") or too many. names[] in order, NULL-terminated.
 */
error_t ls_options_words(int key, char *arg, struct argp_state *state, const char *const names[],
                         const char **word[]);

#endif
