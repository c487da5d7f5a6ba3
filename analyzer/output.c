/*
 * output.c - stdout as a verb's product. See output.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "output.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>

#include "trace.h"

static int first_error; /* errno of the first write that failed */

void ls_output_begin(void) {
    signal(SIGPIPE, SIG_IGN);
}

bool ls_output_good(void) {
    /* errno still tells: this is asked right after each write that may have flushed. */
    if (ferror(stdout) && !first_error)
        first_error = errno ? errno : EIO;
    return !first_error;
}

int ls_output_end(void) {
    errno = 0;
    if (fflush(stdout) != 0 && !first_error)
        first_error = errno ? errno : EIO;
    ls_output_good();
    if (first_error) { /* nobody should try, and complain, again at exit */
        __fpurge(stdout);
        clearerr(stdout);
    }
    if (!first_error || first_error == EPIPE)
        return LS_EXIT_OK;
    fprintf(stderr, "layoutspy: cannot write the output: %s\n", strerror(first_error));
    return LS_EXIT_OUTPUT;
}
