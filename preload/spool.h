/*
 * spool.h - the writing side of include/layoutspy/format.h.
 *
 * Appending takes no lock, no allocation and no system call while the thread's chunk has room.
 * Any thread; callers hold off signal handlers with ls_self->busy.
 */
#ifndef LS_SPOOL_H
#define LS_SPOOL_H

#include <stdbool.h>
#include <stddef.h>

#include "clock.h"
#include "state.h"
#include "thread.h"

/* Make the spool file for session->trace, beside it or on a local disk, and map its header. */
bool ls_spool_create(struct ls_session *session);

void *ls_spool_reserve_slow(struct ls_thread *self);

/*
 * Room for `size` (at most LS_RECORD_LARGEST) bytes at the head of the thread's records, or NULL:
 * self->chunk_error says why, and the caller counts what it loses by ls_spool_lost().
 */
static inline void *ls_spool_reserve(struct ls_thread *self, uint32_t size) {
    if (__builtin_expect(self->limit - self->position >= size, 1))
        return (char *)self->chunk + self->position;
    return ls_spool_reserve_slow(self);
}

/* The record of `size` bytes that ls_spool_reserve() gave is complete: from here on it counts. */
static inline void ls_spool_commit(struct ls_thread *self, uint32_t size) {
    self->position += size;
    atomic_store_explicit(&self->chunk->committed, self->position, memory_order_release);
}

/* `count` events are missing; told in the header now and by a LOST record when there is room. */
void ls_spool_lost(struct ls_thread *self, enum ls_lost reason, uint64_t count);

/* Seal the thread's chunk and let go of it. */
void ls_spool_release(struct ls_thread *self);

void ls_spool_fork_reset(void);

#endif
