/*
 * output.h - stdout as a verb's product: written whole, or the verb fails.
 *
 * Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_OUTPUT_H
#define LAYOUTSPY_OUTPUT_H

#include <stdbool.h>

/* Call before the first byte: a reader that goes away (`| head`) is then an error of write(), not
 * a signal. */
void ls_output_begin(void);

/* True while nothing went wrong: lets a long verb stop early. */
bool ls_output_good(void);

/*
 * Flush. Returns LS_EXIT_OK; also, quietly, where the reader went away. Else prints one line to
 * stderr and returns LS_EXIT_OUTPUT.
 */
int ls_output_end(void);

#endif
