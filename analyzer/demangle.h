/*
 * demangle.h - C++ names as people write them.
 *
 * A name of a few hundred bytes can be made to unfold to gigabytes, so names that come from
 * outside are demangled in the worker (ls_symbolizer_demangle()), where time and memory have
 * limits. Not for signal handlers.
 */
#ifndef LAYOUTSPY_DEMANGLE_H
#define LAYOUTSPY_DEMANGLE_H

/* `name` demangled, or a copy of it where it is not mangled. To be freed; NULL: out of memory. */
char *ls_demangle(const char *name);

/* A function's bare name: without what it returns, its namespaces, arguments and those of its
 * templates. "void at::native::reduce_kernel<512, 1>(int)": "reduce_kernel". By malloc, or NULL. */
char *ls_short_name(const char *demangled);

#endif
