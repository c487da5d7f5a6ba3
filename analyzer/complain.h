/*
 * complain.h - the one line on stderr that says what is wrong with a file, and what to do.
 *
 * Any thread; not for signal handlers.
 */
#ifndef LAYOUTSPY_COMPLAIN_H
#define LAYOUTSPY_COMPLAIN_H

/* "layoutspy: PATH: MESSAGE\n" in one write. */
void ls_complain(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
