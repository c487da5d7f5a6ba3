/*
 * ingest_oom.h - requests for device memory that failed, and what the thread then did about it.
 *
 * An episode begins at a request that fails and goes on through whatever makes room: memory given
 * back, waits, questions, further attempts. It ends when a request succeeds, when a framework's
 * allocator says that it gives up, or when the thread goes on with something else. One per thread
 * at a time. Its row is in the trace from the first commit on and changes as it goes on. One
 * thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_INGEST_OOM_H
#define LAYOUTSPY_INGEST_OOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "live.h"

struct ls_ingest;
struct ls_rec_call;
struct ls_timed_call;

enum ls_oom_kind { /* oom_call.kind in the schema */
                   LS_OOM_FAILED = 1,
                   LS_OOM_GIVEN_BACK,
                   LS_OOM_WAITED,
                   LS_OOM_ASKED,
                   LS_OOM_SUCCEEDED,
                   LS_OOM_REPORT,
};

enum ls_oom_source { LS_OOM_ALLOCATOR = 1, LS_OOM_DRIVER }; /* oom.source in the schema */

enum ls_oom_state {
    LS_OOM_NONE,
    LS_OOM_PRELUDE,   /* nothing failed yet: what an allocator does before it gives up unasked */
    LS_OOM_OPEN,      /* a request failed */
    LS_OOM_RECOVERED, /* the driver gave; whether that is all of the request is told by what follows
                       */
};

/* A call that belongs to what may become an episode. */
struct ls_oom_step {
    int64_t id;
    enum ls_oom_kind kind;
    uint64_t bytes;
};

/* Of a thread: the episode and what it is judged by. */
struct ls_oom {
    enum ls_oom_state state;
    int64_t id; /* of its row */
    int64_t ts_ns;
    int64_t first_call, last_call;
    int64_t last_start_ns; /* of last_call */
    int64_t attempts, flushed_calls, flush_ns, waited_ns;
    uint64_t requested, asked, flushed_bytes;
    uint64_t unit;  /* of the call that failed first: a retry asks for as much */
    uint64_t entry; /* the call into PyTorch's allocator; 0: unknown, or another's */
    uint64_t allocated, reserved, pending, cached;
    uint64_t device_free, device_total;
    uint32_t stack, thread;
    uint8_t device, source;
    bool recovered;
    bool framework; /* reserved, pending and cached are known */
    bool told;      /* device_free and device_total are */
    bool final;     /* whoever asked does not ask again: the program has got the error */
    bool returning; /* the last thing that it did was to give memory back */
    bool mapped;    /* what the driver gave was mapped: the request is complete */
    bool dirty;     /* the row is not up to date */
    char owner[40];
    int64_t gave_id; /* the driver gave: its step, all pieces in one */
    uint64_t gave_bytes;
    uint64_t run_bytes; /* physical memory that the thread has created in a row */
    struct ls_oom_step *prelude;
    size_t prelude_count, prelude_room;
};

/* Device memory that a call gave back, as the table has it. */
struct ls_oom_return {
    int64_t call;
    uint64_t bytes;
};

struct ls_ooms {
    struct ls_oom *at; /* by thread */
    uint32_t threads;
    bool dirty;
    bool taking_up;                 /* the rows of episodes have the times of the calls at hand */
    bool urgent;                    /* something failed since the last commit */
    int64_t committed_ms;           /* when that was seen to last */
    uint64_t ended_bytes;           /* device memory that the call at hand gave back */
    int64_t held[256];              /* by device: device memory that is live */
    struct ls_oom_return *returned; /* while taking up: by call, and how many are behind us */
    size_t returned_count, returned_room, returned_past;
};

/* Any call, after it made its rows; ended_bytes is what it gave back. */
void ls_oom_track(struct ls_ingest *ingest, const struct ls_timed_call *call);

void ls_oom_store(struct ls_ingest *ingest); /* before each commit */

/* Take up the episodes that may be open, and then the calls since. */
void ls_oom_load(struct ls_ingest *ingest);
void ls_oom_take_up(struct ls_ingest *ingest, const struct ls_timed_call *call);
void ls_oom_taken_up(struct ls_ingest *ingest); /* after the last of them */

void ls_oom_close(struct ls_ooms *ooms);

/* Of a request of PyTorch's that goes past its cache there is no second attempt. uncached: its
 * allocator made no report before, but requests. */
bool ls_oom_is_final(struct ls_ingest *ingest, uint16_t api, uint32_t stack, bool uncached);

/* ---- ingest_oom_step.c ---- */

/* Device memory began to be held or ended. */
void ls_oom_life_began(struct ls_ooms *ooms, const struct ls_life *life);
void ls_oom_life_ended(struct ls_ooms *ooms, const struct ls_life *life);

/* The thread's, or NULL: damage, or no memory. */
struct ls_oom *ls_oom_of_thread(struct ls_ooms *ooms, uint32_t thread);

/* As new, but for its buffer and what the thread did last. */
void ls_oom_clear(struct ls_oom *oom);
/* The call is a step of it. */
void ls_oom_take(struct ls_ingest *ingest, struct ls_oom *oom, const struct ls_timed_call *call,
                 enum ls_oom_kind kind, uint64_t bytes);
/* The steps from before anything failed belong to it. */
void ls_oom_put_prelude(struct ls_ingest *ingest, struct ls_oom *oom);
/* The pieces that the driver gave were not enough. */
void ls_oom_reopen(struct ls_ingest *ingest, struct ls_oom *oom);
void ls_oom_end(struct ls_ingest *ingest, struct ls_oom *oom);
/* Physical memory that the thread creates in a row, after each of its calls. */
void ls_oom_note_run(struct ls_oom *oom, const struct ls_rec_call *record);

/* ---- ingest_oom_row.c ---- */

/* What the device's memory was like at this point of the merge. */
void ls_oom_measure(struct ls_ingest *ingest, struct ls_oom *oom);
/* What a framework's allocator says of it, beside what is pending. */
void ls_oom_told(struct ls_oom *oom, uint64_t allocated, uint64_t reserved);
void ls_oom_put(struct ls_ingest *ingest, struct ls_oom *oom);
/* The same under another number. */
void ls_oom_renumber(struct ls_ingest *ingest, struct ls_oom *oom, int64_t id);

#endif
