/*
 * intern.h - numbers for things that are met again and again, by a hash of what they are.
 *
 * The thing itself is written to the spool once, by the thread that meets it first. No lock on the
 * path of a known thing: a slot is claimed by compare-and-swap on its hash, and a slot whose number
 * is not published yet (its owner is writing the record, or died) is not waited for: the thing gets
 * a second number. A table that is half used gives way to an empty one (two take turns): what is
 * met again then gets another number. Any thread, inside a recorded call.
 */
#ifndef LS_INTERN_H
#define LS_INTERN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "layoutspy/format.h"
#include "lock.h"
#include "thread.h"

struct ls_intern_table;

struct ls_intern {
    struct ls_intern_table *_Atomic current; /* NULL: not begun */
    struct ls_intern_table {
        struct ls_intern_slot *slot;
        _Atomic uint32_t used;
    } tables[2];
    _Atomic uint32_t numbers; /* given out, see ls_intern_number() */
};

/* Begin, at the start of a recording. False: no memory. */
bool ls_intern_begin(struct ls_intern *intern);

/*
 * The number of the thing with this hash (not 0). On first sight `define` writes its record and
 * returns the number that it took by ls_intern_number(), or 0 where there was no room. 0: no
 * number; to be counted as lost by the caller.
 */
uint32_t ls_intern(struct ls_intern *intern, struct ls_thread *self, uint64_t hash,
                   uint32_t (*define)(struct ls_thread *self, const void *context),
                   const void *context);

/* The next number, from 1. */
static inline uint32_t ls_intern_number(struct ls_intern *intern) {
    return atomic_fetch_add(&intern->numbers, 1) + 1;
}

/* In a forked child: nothing is known. The tables' memory stays for the next ls_intern_begin(). */
void ls_intern_fork_reset(struct ls_intern *intern);

/* For hashes over words: fold `word` in. Not for hostile input. */
static inline uint64_t ls_hash_word(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9fb21c651e98df25u;
    return hash ^ hash >> 29;
}

#endif
