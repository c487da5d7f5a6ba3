/*
 * owner.h - whose memory an allocation is: the user's, a pool's, a CUDA library's.
 *
 * Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_OWNER_H
#define LAYOUTSPY_OWNER_H

#include <sqlite3.h>
#include <stdint.h>

enum ls_owner_rule { LS_OWNER_USER, LS_OWNER_PASS, LS_OWNER_POOL, LS_OWNER_LIBRARY };

struct ls_owner {
    enum ls_owner_rule rule; /* of a stack never PASS */
    const char *name;        /* static; NULL for the user's */
};

/* Of a module that called, by its path or NULL; PASS: ask for its caller's. */
struct ls_owner ls_owner_of_module(const char *path, int memory_kind);

/* By the stack (stack_site.id; 0 for none, which is the user's) of memory of one kind. */
struct ls_owner ls_owner_of(sqlite3 *db, int64_t stack, int memory_kind);

#endif
