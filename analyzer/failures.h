/*
 * failures.h - calls that returned an error to the program.
 *
 * Left out: status 600 (not ready), which is an answer, and calls that another recorded call made,
 * whose failure it passes on. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_FAILURES_H
#define LAYOUTSPY_FAILURES_H

#include <sqlite3.h>
#include <stdint.h>

/*
 * "3 calls failed: cudaMalloc 2 (status 2, out of memory), cudaMemcpy 1 (status 1, invalid value)",
 * the most frequent first. To be freed; NULL where no call failed.
 */
char *ls_failures_text(sqlite3 *db);

/* Calls that found no memory, as SQL has it. */
#define LS_FAILED_FOR_MEMORY "status = 2 AND flags & 1 = 0"

#endif
