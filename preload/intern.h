/*
 * intern.h - numbers for things that are met again and again, by a hash of what they are.
 *
 * The thing itself is written to the spool once, by the thread that meets it first. No lock on the
 * path of a known thing: a slot is claimed by compare-and-swap on its hash, and a slot whose number
 * is not published yet (its owner is writing the record, or died) is not waited for: the thing gets
 * a second number. Any thread, inside a recorded call.
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
        uint32_t generation; /* the latest one when it was begun */
    } tables[2];
    _Atomic uint32_t numbers; /* given out, see ls_intern_number() */
};

/* Begin, at the start of a recording. False: no memory. `generation`: see ls_intern_renew(). */
bool ls_intern_begin(struct ls_intern *intern, uint32_t generation);

/*
 * Things of an earlier generation can never be met again: when many are old, go on with an empty
 * table. Two take turns. Any thread.
 */
void ls_intern_renew(struct ls_intern *intern, uint32_t generation);

/*
 * The number of the thing with this hash (not 0). On first sight `define` writes its record and
 * returns the number that it took by ls_intern_number(), or 0 where there was no room. 0: no
 * number, and where the table was full one event is counted as lost for the reason `full`.
 */
uint32_t ls_intern(struct ls_intern *intern, struct ls_thread *self, uint64_t hash,
                   enum ls_lost full,
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
