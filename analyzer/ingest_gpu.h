/*
 * ingest_gpu.h - what the GPU did: records of CUPTI to rows, each with its call.
 *
 * ingest_gpu.c        a record is dated, finds its call, and becomes a row
 * ingest_gpu_wait.c   records whose call has not come, or has not returned from what it was made in
 * ingest_gpu_total.c  what is counted over all records; what the end says of them
 * gpu_clock.h         CUPTI's clock
 * gpu_calls.h         the last calls by their numbers
 *
 * A row is final when it is put, and all that it counts in changes in the same transaction: a
 * reader never sees half of it. One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_INGEST_GPU_H
#define LAYOUTSPY_INGEST_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "gpu_calls.h"
#include "gpu_clock.h"
#include "layoutspy/format.h"

struct ls_ingest;

/* How a record is joined to a call: gpu_work.status in the schema. */
enum ls_gpu_join {
    LS_GPU_NO_CALL,   /* it names none */
    LS_GPU_MATCHED,   /* */
    LS_GPU_GRAPHED,   /* part of the launch of a graph */
    LS_GPU_UNMATCHED, /* its call is not here */
    LS_GPU_INVALID,   /* no times are known: it counts in no sum */
    LS_GPU_JOINS
};
extern const char *const ls_gpu_join_name[LS_GPU_JOINS];
extern const char *const ls_gpu_kind_name[LS_GPU_KINDS];

/* A record, dated. */
struct ls_gpu_work {
    int64_t start_ns, end_ns; /* where `timed` */
    uint64_t node;
    uint64_t value[4];
    uint32_t correlation, context, stream, graph;
    uint8_t kind, flags, kinds, device;
    bool timed;
};

/* One that waits for its call. */
struct ls_gpu_waiting {
    struct ls_gpu_work work;
    int64_t id;         /* of its row in raw_gpu, where `stored` */
    bool stored, found; /* found: `call` is the nearest so far, when all are gone through */
    struct ls_gpu_call call;
    struct ls_gpu_waiting *same; /* the next of its number */
    UT_hash_handle hh;           /* by correlation; of the first of that number */
};

/* kernel_total: runs of one kernel, on one stream, under one function of a library. */
struct ls_gpu_total {
    struct ls_gpu_total_key {
        uint32_t kernel, stream;
        uint16_t device, under_api;
    } key;
    int64_t count, untimed, total_ns, min_ns, max_ns;
    bool dirty;
    UT_hash_handle hh;
};

struct ls_gpu {
    struct ls_gpu_clock clock;
    struct ls_gpu_calls calls;
    struct ls_gpu_waiting *waiting;
    int64_t waits, last_id;
    int64_t scan_from; /* older calls are not looked through again for what waits, until the end */
    bool waits_new;    /* some have no row in raw_gpu yet */
    bool gone;         /* there are calls from before this collector that `calls` never had */
    struct ls_gpu_total *totals;
    struct ls_gpu_total **dirty; /* since the last commit */
    size_t dirty_count, dirty_room;
    int64_t count[LS_GPU_KINDS][LS_GPU_JOINS], total_ns[LS_GPU_KINDS][LS_GPU_JOINS];
    bool counted, dated;     /* since the last commit: counts, pairs of the clock */
    int64_t rows_most, rows; /* of kernels */
    int64_t latest_ns;       /* end of what the GPU did, as far as CUPTI told */
};

/* ---- records ---- */

void ls_gpu_record(struct ls_ingest *ingest, const struct ls_rec_gpu *record);
void ls_gpu_pair(struct ls_ingest *ingest, const struct ls_rec_gpu_clock *record);
void ls_gpu_state(struct ls_ingest *ingest, const struct ls_rec_gpu_state *record);
/* After a call's own rows: work may wait for it. */
void ls_gpu_call(struct ls_ingest *ingest, const struct ls_timed_call *call, int64_t copy);
/* The row, and what it counts in. `call`: NULL, none. */
void ls_gpu_settle(struct ls_ingest *ingest, const struct ls_gpu_work *work,
                   const struct ls_gpu_call *call);

void ls_gpu_load(struct ls_ingest *ingest);
void ls_gpu_store(struct ls_ingest *ingest); /* before each commit */
void ls_gpu_finish(struct ls_ingest *ingest);
void ls_gpu_close(struct ls_ingest *ingest);

/* ---- waiting ---- */

void ls_gpu_wait_add(struct ls_ingest *ingest, const struct ls_gpu_work *work);
/* A call is complete: ls_gpu_calls.closed. */
void ls_gpu_wait_closed(const struct ls_gpu_call *call, void *ingest);
void ls_gpu_wait_store(struct ls_ingest *ingest);
void ls_gpu_wait_load(struct ls_ingest *ingest);
/* All get what call there is. */
void ls_gpu_wait_end(struct ls_ingest *ingest);
void ls_gpu_wait_close(struct ls_gpu *gpu);

/* ---- totals ---- */

void ls_gpu_count(struct ls_ingest *ingest, const struct ls_gpu_work *work, enum ls_gpu_join join,
                  uint16_t under_api);
void ls_gpu_total_store(struct ls_ingest *ingest);
void ls_gpu_total_load(struct ls_ingest *ingest);
/* Coverage. */
void ls_gpu_total_end(struct ls_ingest *ingest);
void ls_gpu_total_close(struct ls_gpu *gpu);

#endif
