/*
 * thread.h - what the library keeps per thread of the target.
 *
 * One TLS pointer (initial-exec, 8 bytes: preloaded libraries share a small static TLS) leads to a
 * block of our own pages. A block belongs to one thread from its first recorded call until its
 * TSD destructor runs; a call from a destructor that runs later still takes a new block.
 */
#ifndef LS_THREAD_H
#define LS_THREAD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "layoutspy/format.h"

#define LS_STACK_CACHE 512 /* entries, a power of two */
#define LS_PYTHON_CACHE 256

struct ls_replay;
struct ls_seen_bytes;

/* What a thread remembers of an interned thing (intern.h). */
struct ls_stack_entry {
    uint64_t hash;
    uint32_t id;
};

/* The recorded call that is running in a thread, as CUPTI's callbacks need it (cupti/callback.h).
 */
struct ls_inside {
    uint16_t api;         /* enum ls_api; 0: none */
    uint16_t claimed;     /* CUPTI has told of this very call; how: cupti/callback.c */
    uint32_t correlation; /* CUPTI's number of it; 0: none */
};
_Static_assert(sizeof(struct ls_inside) == 8, "kept and put back by each recorded call");

struct ls_cupti_call;

struct ls_thread {
    uint64_t epoch;       /* the session this block is attached to: ls_live->epoch, else stale */
    uint64_t cupti_epoch; /* the same for CUPTI's callbacks; with the hooks off, of these alone */
    uintptr_t frame;      /* frame of the recorded call that is running; 0: none */
    bool in_callback;     /* inside a callback of CUPTI's: CUDA must not be called */
    bool busy;            /* inside layoutspy: a call now comes from a signal handler */
    uint8_t device;       /* current device of the thread, as cudaSetDevice said */
    uint32_t tid;
    uint32_t number; /* in the recording, from 1 */
    struct ls_inside inside;
    uint32_t context; /* where inside.correlation is set: CUPTI's number of the current context */
    struct ls_cupti_call
        *cupti; /* calls that CUPTI alone sees (cupti/callback.c); NULL: none yet */

    /* The chunk that is being filled. Owned by spool.c. */
    struct ls_chunk *chunk; /* NULL: none */
    uint32_t position;      /* bytes from its start */
    uint32_t limit;         /* its size */
    uint32_t next_size;
    uint32_t sequence;
    uint64_t retry_at; /* CLOCK_MONOTONIC ns: after a failure, no new chunk is tried before */
    enum ls_lost chunk_error; /* why there is none */
    /* Events lost since the last record that could be written. */
    uint64_t lost_count, lost_start, lost_end;
    enum ls_lost lost_reason;

    /* Operands of the call that has just ended (operand.h); none between calls. */
    uint32_t operand_count;
    struct ls_operand operand[LS_OPERANDS_MOST];

    struct ls_thread *next_free;
    struct ls_replay *replay;   /* owned by stack_native.c; kept from user to user */
    struct ls_seen_bytes *seen; /* owned by stack_python.c; kept likewise */
    struct ls_stack_entry cache[LS_STACK_CACHE];   /* owned by stack.c */
    struct ls_stack_entry python[LS_PYTHON_CACHE]; /* owned by stack_python.c */
};

extern __thread struct ls_thread *ls_self __attribute__((tls_model("initial-exec")));

/* The calling thread's block, attached to the running session; NULL: no memory (counted). `stale`:
 * the block that the thread had before a fork, or NULL. Sets ls_self. */
struct ls_thread *ls_thread_attach(struct ls_thread *stale);

/* In a forked child: forget the parent's threads. The caller's device carries over. */
void ls_thread_fork_reset(void);

#endif
