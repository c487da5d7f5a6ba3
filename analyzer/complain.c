/*
 * complain.c - error lines. See complain.h. Any thread; not for signal handlers.
 */
#include "complain.h"

#include <stdarg.h>
#include <stdio.h>

void ls_complain(const char *path, const char *format, ...) {
    char line[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *p = line; *p; p++)
        if (*p == '\n')
            *p = ' '; /* SQLite's messages may have several lines; an error has one */
    fprintf(stderr, "layoutspy: %s: %s\n", path, line);
}
