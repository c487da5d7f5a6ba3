/*
 * pattern.h - names of traces: expanding the pattern in LAYOUTSPY_OUT or `run -o`.
 *
 * The target's library and `layoutspy run` must come to the same name, so both use these. Pure
 * functions: no allocation, no stdio, no locale, no errno; any thread, async-signal-safe.
 */
#ifndef LAYOUTSPY_PATTERN_H
#define LAYOUTSPY_PATTERN_H

#include <stddef.h>

#define LS_PATTERN_DEFAULT "layoutspy.%p.db"

/* What the letters stand for. NULL is taken as "0" (rank) or "unknown". Not owned. */
struct ls_pattern_values {
    unsigned long pid;   /* %p */
    const char *host;    /* %h */
    const char *rank;    /* %r, see ls_pattern_rank() */
    const char *program; /* %n: the program's file name; what is before a last '/' is left out */
};

enum ls_pattern_error {
    LS_PATTERN_TRAILING = -1,  /* the pattern ends in a lone '%' */
    LS_PATTERN_TOO_LONG = -2,  /* the result does not fit */
    LS_PATTERN_EMPTY = -3,     /* the result would be empty, or end in '/' */
    LS_PATTERN_UNKNOWN = -256, /* minus the letter: see ls_pattern_unknown_letter() */
};

/*
 * Expand `pattern` into out[size], NUL-terminated: %p %h %r %n as above, %% is a percent sign. A
 * '/' within a value becomes '_'. Returns 0 or a negative code; `out` is then undefined. With
 * `out` NULL (and `size` a limit all the same) the pattern is only checked.
 */
int ls_pattern_expand(char *out, size_t size, const char *pattern,
                      const struct ls_pattern_values *values);

/* The letter that ls_pattern_expand() did not know, or 0 if the code tells something else. */
static inline char ls_pattern_unknown_letter(int code) {
    return code <= LS_PATTERN_UNKNOWN ? (char)(LS_PATTERN_UNKNOWN - code) : 0;
}

/* The rank that a launcher put into the environment (Open MPI, PMI, Slurm, torchrun), else "0". */
const char *ls_pattern_rank(char *const *envp);

/*
 * `path` with ".N" put in front of its ending: ("a/t.db", 7) gives "a/t.7.db", ("t", 7) "t.7".
 * For a child's trace (N its pid) and for a second default trace. Returns 0 or LS_PATTERN_TOO_LONG.
 */
int ls_pattern_insert(char *out, size_t size, const char *path, unsigned long number);

/* `path` as a pattern that expands to it: every '%' doubled. Returns 0 or LS_PATTERN_TOO_LONG. */
int ls_pattern_escape(char *out, size_t size, const char *path);

#endif
