/*
 * activity.h - CUPTI's buffers: given out zeroed, taken back full, their records turned into ours.
 *
 * Buffers are of our own pages and lie ready before CUPTI asks for one; a request on a program's
 * thread allocates nothing, takes no lock and makes no system call. What finds no buffer is lost
 * and counted (`gpu-records`); versions before CUDA 12.9, which a refusal may end, then write it
 * into one that nobody reads. Threads: whichever CUPTI calls us in (its own, one that launches
 * work, one that flushes; the latter must not be busy, or what it is handed is lost). Not
 * async-signal-safe, but for ls_activity_requested(). errno is kept.
 */
#ifndef LS_CUPTI_ACTIVITY_H
#define LS_CUPTI_ACTIVITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "names.h"

/*
 * Large enough that a request is rare (512 KiB hold 2,500 kernels) and small enough that records
 * are not held back for long. Memory is used only as far as buffers are: WARM lie ready with their
 * pages, and beyond them pages come at the first touch and go when the buffer comes back. CUPTI
 * keeps one for each thread that makes calls: where more than 256 do, the others get small ones.
 */
#define LS_BUFFER_SIZE (512u << 10)
#define LS_BUFFERS 256
#define LS_BUFFERS_WARM 8
#define LS_SMALL_SIZE (16u << 10)
#define LS_SMALL_BUFFERS 4096

/* Memory for the buffers; before the first ls_activity_requested(), at the start of a recording.
 * False: none. */
bool ls_activity_prepare(void);

/* For cuptiActivityRegisterCallbacks. A buffer that is not ours (of another client that registered
 * its callbacks before) goes to whom it belongs, see ls_activity_foreign(). */
void ls_activity_requested(uint8_t **buffer, size_t *size, size_t *records);
void ls_activity_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                           size_t valid);

/* The callback that another client's buffers belong to, still out when we took over; NULL: none. */
void ls_activity_foreign(void (*completed)(void *, uint32_t, uint8_t *, size_t, size_t));

/* Whose records they are: of a subscriber that is one of several (CUPTI 13.3); NULL: nobody's. */
void ls_activity_reads_as(void *subscriber);

/* Buffers of ours that CUPTI has, whose records are awaited. */
int ls_activity_out(void);

/* CUPTI is gone, and with it what it had: buffers that are out are taken back unread. Nothing of
 * CUPTI's may run. */
void ls_activity_reclaim(void);

/* While a buffer is read. */
struct ls_gpu_reading {
    struct ls_names_seen names;
    uint64_t ignored; /* records of kinds that are none of ours */
};

/* The records of a buffer, one by one, into the spool of `self`, which is busy. `reading` is
 * zeroed. */
void ls_activity_read(struct ls_thread *self, struct ls_gpu_reading *reading, uint8_t *buffer,
                      size_t valid);

/* One of CUPTI's records, of at most `room` bytes, as one of ours. record.c */
void ls_gpu_record(struct ls_thread *self, struct ls_gpu_reading *reading, const void *record,
                   size_t room);

/* A pair of clocks, ahead of what it is to date: at once where a recording or a pause begins or
 * ends, and ahead of each buffer's records unless there was one within the last 10 ms. `self` is
 * busy. gpu_clock.c */
void ls_gpu_clock(struct ls_thread *self);
void ls_gpu_clock_if_due(struct ls_thread *self);

#endif
