/*
 * uses.h - which calls used which memory, and when nobody knows.
 *
 * A use is a copy from or to an address in the memory, a memset, an operand of a library's call, or
 * an address among a kernel's arguments. When work was given to a device of which this is not known
 * (arguments that nobody could read, a graph, an array of addresses) every piece of memory that was
 * there then may have been used. One pass over each of the tables; loaded at the first wish of a
 * detector, kept in `struct ls_detect`. Main thread only.
 */
#ifndef LAYOUTSPY_DETECT_USES_H
#define LAYOUTSPY_DETECT_USES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "detect.h"

/* Of one life of memory. */
struct ls_used {
    int64_t count; /* uses; 0: none is known */
    int64_t first_ns, last_ns;
    int64_t first_call, last_call; /* call.id */
    bool shared;                   /* another process may use it, too */
};

struct ls_unknown {
    int64_t from_ns, to_ns;
};

struct ls_uses_of {
    const struct ls_history *history;
    struct ls_used *span, *direct; /* by the index in history->span and ->direct */
};

struct ls_uses {
    char *why_not; /* not NULL: nothing is known of this recording's uses, and why */
    struct ls_uses_of *of;
    size_t devices;
    struct ls_unknown *unknown; /* when anything may have been used: in order, apart */
    size_t unknowns;
    int64_t *launch_ns; /* of kernels and graphs, in order */
    size_t launches;
    int64_t *table_ns; /* of copies to the device that may have brought addresses there, in order */
    size_t tables;
    int64_t unread, graphs, arrays; /* calls of which uses are not known: what made them so */
};

/* NULL: the trace cannot be read. It belongs to `d`. */
const struct ls_uses *ls_detect_uses(struct ls_detect *d);
void ls_uses_free(struct ls_uses *uses);

/* The first and the last moment in [from_ns, to_ns) of which nothing is known; to_ns, from_ns where
 * all is. */
int64_t ls_uses_known_until(const struct ls_uses *uses, int64_t from_ns, int64_t to_ns);
int64_t ls_uses_known_since(const struct ls_uses *uses, int64_t from_ns, int64_t to_ns);

/* From when on a kernel may find an address of memory, which was made at from_ns, in device memory:
 * the next copy that may have brought it there; LS_NEVER: none. */
int64_t ls_uses_table_after(const struct ls_uses *uses, int64_t from_ns);

/* Launches in [from_ns, to_ns). */
size_t ls_uses_launches(const struct ls_uses *uses, int64_t from_ns, int64_t to_ns);

#endif
