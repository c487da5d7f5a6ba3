/*
 * term.h - what depends on a terminal being there: colour, width, the progress line.
 *
 * Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_TERM_H
#define LAYOUTSPY_TERM_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>

enum ls_style { LS_PLAIN, LS_BOLD, LS_DIM, LS_RED, LS_YELLOW, LS_CYAN };

/* True where `stream` is a terminal that takes colours and NO_COLOR is not set. */
bool ls_term_colour(FILE *stream);

/* Switch `stream` to a style, LS_PLAIN to end it. Writes nothing where there is no colour. */
void ls_term_style(FILE *stream, enum ls_style style);

/* Columns to wrap text at: the terminal's, at most 100; 88 elsewhere. */
int ls_term_width(FILE *stream);

/*
 * The progress line, on stderr, only on a terminal and only for what takes over one second:
 * start, tick often (cheap), stop. One at a time. `what` is kept, not copied.
 */
void ls_progress_start(const char *what);
void ls_progress_tick(void);
void ls_progress_stop(void);

/* Let the database tick while it runs a query. */
void ls_progress_attach(sqlite3 *db);

#endif
