/*
 * ingest.h - records of a spool into rows of a trace, exactly once.
 *
 * A transaction holds the rows and how far each chunk was read; chunks are handed back only after
 * its COMMIT. A process that is killed at any instruction leaves a spool and a trace that another
 * one continues from. One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_INGEST_H
#define LAYOUTSPY_INGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "device_use.h"
#include "ingest_block.h"
#include "ingest_gpu.h"
#include "ingest_oom.h"
#include "ingest_shape.h"
#include "live.h"
#include "merge.h"
#include "modules.h"
#include "spool_read.h"
#include "stacks.h"
#include "trace_db.h"

struct ls_ingest {
    struct ls_spool *spool; /* not owned */
    struct ls_trace_db db;
    struct ls_clock clock;
    struct ls_live memory, arrays;
    bool array_levels; /* `arrays` had some */
    struct ls_blocks blocks;
    struct ls_ooms ooms;
    struct ls_handle *handles; /* of libraries (ingest_library.c) */
    struct ls_library_gpu {
        int64_t call, gpu_ns; /* since the last row of `library_gpu`; call 0: none */
    } library_gpu;
    struct ls_shapes shapes;
    struct ls_operands operands;
    struct ls_modules modules;
    struct ls_stacks stacks;
    struct ls_symbolizer names; /* of kernels: a worker apart from that of the stacks */
    struct ls_progress progress[LS_CHUNK_MAX];
    struct ls_passed { /* by thread: the last copy that was made inside another call */
        int64_t start_ns;
        int64_t id; /* of its row */
        bool cupti; /* it is of a call that CUPTI alone saw */
    } * passed_copy;
    uint32_t passed_threads;
    struct ls_freed *freed; /* by thread (ingest_memory.c) */
    uint32_t freed_threads;
    int64_t copy_row; /* of the call that is being taken in */
    struct ls_gpu gpu;
    struct ls_device_use use;
    int64_t next_call;
    struct ls_censuses {
        uint32_t last; /* whose tensors were numbered last, and how far; 0: none yet */
        int64_t tensors;
        struct ls_census_oom *waiting; /* for the oom that each was made for to be known */
        size_t waiting_count, waiting_room;
    } census;
    int64_t end_ns;        /* of the last record */
    struct ls_life **born; /* lifetimes that began since the last commit */
    size_t born_count, born_room;
    bool idle;     /* there is nothing to name, or somebody else is at work on it */
    bool finished; /* was finished by an earlier process: only the spool is left */
    bool replaced; /* the target's process runs another program now */
    bool out_of_memory;
};

/*
 * Open the trace that the spool names, or take it up. False: `why` gets the rest of an error line
 * about the trace. To be released with ls_ingest_close(), also after a failure.
 */
bool ls_ingest_open(struct ls_ingest *ingest, struct ls_spool *spool, char *why, size_t size);

/*
 * Take what has completed by now, or with `all` everything that was committed (the target is
 * dead), commit it and hand the chunks back. Returns the number of records taken, or -1 and
 * `why`: what was not committed stays in the spool.
 */
int64_t ls_ingest_drain(struct ls_ingest *ingest, bool all, char *why, size_t size);

/* Name a few stacks, without waiting, some 10 ms at most; `idle` tells whether there are more. */
bool ls_ingest_idle(struct ls_ingest *ingest, char *why, size_t size);

/* Name what stacks there are, within about a second: the target runs on, a reader is waiting. Takes
 * what has come since the drain before it. */
bool ls_ingest_name(struct ls_ingest *ingest, char *why, size_t size);

/* After the last drain: names, indexes, how it ended; one file. False: as above. */
bool ls_ingest_finish(struct ls_ingest *ingest, char *why, size_t size);

void ls_ingest_close(struct ls_ingest *ingest);

#endif
