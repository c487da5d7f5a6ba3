/*
 * history_own.h - what history_load.c and state.c keep beside a history. One thread; not
 * async-signal-safe.
 */
#ifndef LAYOUTSPY_HISTORY_OWN_H
#define LAYOUTSPY_HISTORY_OWN_H

#include "../clamp.h"
#include "../hash.h"
#include "history.h"

struct ls_history_text {
    char *text;
    uint32_t number; /* for ls_history_site() */
    UT_hash_handle hh;
};

struct ls_peak {
    bool known;
    int64_t ts_ns;
    uint64_t bytes;
};

struct ls_history_own {
    struct ls_history_text **of_stack; /* by stack_site.id; NULL: no site */
    size_t stacks;
    struct ls_history_text *texts; /* hash by text */
    const char **text;             /* by number */
    uint32_t numbers, room;
    struct ls_peak live, reserved;
};

#endif
