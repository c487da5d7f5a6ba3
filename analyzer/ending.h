/*
 * ending.h - how long a recording is, and how it ended.
 *
 * Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_ENDING_H
#define LAYOUTSPY_ENDING_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether the trace says how the recording ended; else its program may still run. */
bool ls_ending_known(sqlite3 *db);

/* ns from its start to its end; to the end of the last call so far where there is no end yet. */
int64_t ls_recorded_ns(sqlite3 *db);

/*
 * What became of the program, to go on with "the program ...": "exited with status 1", "was killed
 * by signal 9", "is still running". To be freed; NULL where there is no memory.
 */
char *ls_ending_text(sqlite3 *db);

#endif
