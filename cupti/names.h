/*
 * names.h - kernel names that CUPTI tells, as numbers.
 *
 * A name is a KERNEL record once, however often and from wherever it comes: numbers go by what is
 * written, not by where it lies, since a module that is loaded may get the place of one that has
 * gone. Any thread, busy inside layoutspy; takes a lock only at the first name of a recording and
 * once in 65,000 new ones. Not async-signal-safe; errno may change.
 */
#ifndef LS_CUPTI_NAMES_H
#define LS_CUPTI_NAMES_H

#include <stdint.h>

#include "thread.h"

/* Names of a buffer by their place. More of them at once than fit are read again and again. */
#define LS_NAMES_SEEN 512 /* a power of two */
struct ls_names_seen {
    struct {
        const char *name; /* NULL: free */
        uint32_t id;
    } entry[LS_NAMES_SEEN];
};

/* The number of a mangled name that is there to be read; 0: no room (counted). */
uint32_t ls_kernel_named(struct ls_thread *self, const char *name);

/* The same of a name that a record points to, if there is one: 0 where nothing can be read, or no
 * text. What was `seen` (empty at the begin of a buffer) is not read again. */
uint32_t ls_kernel_told(struct ls_thread *self, struct ls_names_seen *seen, const char *name);

void ls_kernel_names_fork_reset(void);

#endif
