/*
 * merge.h - the records of all threads in one order: that in which calls completed.
 *
 * A merge works on a snapshot of how far every chunk was written, taken after the clock value that
 * `limit` is (see "Order" in layoutspy/format.h): calls that completed later wait for the next
 * one. So do readings of CUPTI's clock and what it tells of itself. Other records come as soon as
 * they are at the head of their thread's stream. One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_MERGE_H
#define LAYOUTSPY_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "spool_read.h"

/* How far each chunk has been ingested; what the `ingest` table holds. */
struct ls_progress {
    uint32_t generation;
    uint32_t offset; /* bytes from the chunk's start; 0: nothing yet */
    bool dirty;      /* not in the table yet */
    bool hand_back;  /* sealed and done with: to be freed after the COMMIT */
};

struct ls_merge;

/*
 * Take a snapshot. progress[LS_CHUNK_MAX] is read now, moved on by ls_merge_next(), and must stay.
 * NULL: out of memory. Release with ls_merge_end().
 */
struct ls_merge *ls_merge_begin(struct ls_spool *spool, struct ls_progress *progress,
                                uint64_t limit);

/*
 * The next record, checked and copied out, valid until the next call; NULL when there is none
 * left. `thread` gets its thread's number.
 */
const struct ls_record *ls_merge_next(struct ls_merge *merge, uint32_t *thread);

/* Bytes found damaged since this was last asked. */
uint64_t ls_merge_damage(struct ls_merge *merge);

/* True if a sealed chunk's checksum was wrong: what was well formed in it came all the same. */
bool ls_merge_checksum_failed(const struct ls_merge *merge);

void ls_merge_end(struct ls_merge *merge);

#endif
