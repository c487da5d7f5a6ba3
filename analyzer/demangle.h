/*
 * demangle.h - C++ names as people write them.
 *
 * Any thread; not for signal handlers.
 */
#ifndef LAYOUTSPY_DEMANGLE_H
#define LAYOUTSPY_DEMANGLE_H

/* `name` demangled, or a copy of it where it is not mangled. To be freed; NULL: out of memory. */
char *ls_demangle(const char *name);

#endif
