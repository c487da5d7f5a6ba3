/*
 * ingest_block.h - blocks of a framework's caching allocator, the segments that hold them, and the
 * driver's virtual memory.
 *
 * ingest_block.c   a report makes or ends a block
 * ingest_audit.c   the reported totals are checked against ours
 * ingest_wait.c    blocks that were given back while work of other streams still used them
 * ingest_vmm.c     reserved addresses, physical memory, mappings
 * ingest_caller.c  whose code called: the module of a stack's innermost frame; who called that one
 * ingest_capture.c which streams are being captured
 * ingest_oom.c     requests that failed (ingest_oom.h)
 * ingest_replay.c  the last calls once more, when a recording is taken up again
 *
 * An allocator holds its device's lock while it reports, so the reports of one device come in the
 * order of their events. Everything here can be taken up from the tables and the last calls.
 * One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_INGEST_BLOCK_H
#define LAYOUTSPY_INGEST_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "layoutspy/format.h"
#include "live.h"
#include "modules.h"

struct ls_ingest;
struct ls_timed_call;

/* ---- callers ---- */

#define LS_PYTORCH_ALLOCATOR "*/libc10_cuda.so*" /* for fnmatch() and GLOB */

struct ls_caller {
    union {
        uint64_t *address; /* with a depth: its innermost return addresses */
        uint64_t entry;    /* else: of _PYTORCH, the innermost one outside of libc10_cuda */
    };
    const char *owner; /* a library that called for itself, or NULL; not of settled ones */
    uint32_t modules;  /* their generation */
    uint8_t depth;     /* 0: unknown or resolved */
    uint8_t holder;    /* enum ls_holder */
    bool settled;      /* its frames are in the tables */
};

struct ls_callers {
    struct ls_caller *at; /* by stack number */
    uint32_t room;
};

void ls_caller_add(struct ls_ingest *ingest, const struct ls_rec_stack *record);
/* LS_HOLDER_UNKNOWN, _CALLER or _PYTORCH. */
enum ls_holder ls_caller_of(struct ls_ingest *ingest, uint32_t stack);
/* Of a stack of _PYTORCH: the call into the allocator that it belongs to, as the address that it
 * returns to. 0: unknown, or none. */
uint64_t ls_caller_entry(struct ls_ingest *ingest, uint32_t stack);
/* The library that called for itself, static; NULL: whoever the program is. */
const char *ls_caller_owner(struct ls_ingest *ingest, uint32_t stack);
void ls_caller_load(struct ls_ingest *ingest);
void ls_caller_close(struct ls_callers *callers);

/* ---- blocks ---- */

#define LS_WAITED_UNDECIDED (-1) /* given back during a capture: may be waiting, told later */
#define LS_WAITED_UNKNOWN (-2)

/* A lifetime of a block. `id` is the call that reported it, also the number of its row. */
struct ls_block {
    uint64_t address, size;
    uint64_t segment;
    int64_t id, start_ns;
    int64_t end_ns, end_call;
    int64_t free_ns; /* where `free` */
    uint32_t stack, free_stack, thread;
    int32_t waited;  /* events, or LS_WAITED_* */
    int32_t waiting; /* events that have not passed */
    uint8_t device, end_reason;
    bool ended, free, stored;
    UT_hash_handle hh; /* by address: in `live`, then in `limbo` until it is free */
};

/* An event that a block waits for. */
struct ls_wait {
    uint64_t event;
    struct ls_block *block;
    int64_t id;
    UT_hash_handle hh;
};

#define LS_TRACK_EVENTS 32

/* What a thread did last, as far as a report of the allocator may refer to it. */
struct ls_track {
    bool busy;    /* something below is set */
    bool asked;   /* events were asked for since the last one was recorded */
    bool crowded; /* more events than there is room for */
    uint8_t count;
    uint64_t entry; /* the call into the allocator that recorded the events; 0: unknown */
    struct {
        uint64_t event, stream;
        int64_t id, done_ns; /* done_ns 0: not seen to pass */
        uint8_t device;
    } event[LS_TRACK_EVENTS];
};

/* Of one device: its row in block_audit, and our own sums. */
struct ls_audit {
    int64_t reports;
    int64_t allocated, reserved;               /* sums of live blocks and of segments */
    int64_t allocated_unseen, reserved_unseen; /* reported beyond that */
    int64_t late_allocated, late_reserved;     /* the same at the first report */
    int64_t allocated_breaks, allocated_worst;
    int64_t reserved_breaks, reserved_worst;
    int64_t unattributed;
    int64_t native, expandable, async, uncached;
    int64_t async_bytes;      /* live */
    struct ls_live undecided; /* parts of struct ls_undecided */
    bool dirty;
};

/* A stream or event that takes part in the capture that began on the stream `origin`. */
struct ls_captured {
    uint64_t handle, origin;
    bool event;
};

struct ls_capture {
    struct ls_captured *at;
    size_t count, room;
};

struct ls_blocks {
    struct ls_callers callers;
    struct ls_audit *audit[256]; /* by device */
    struct ls_block *live, *limbo;
    struct ls_wait *waits;
    struct ls_track *track; /* by thread */
    uint32_t tracks;
    struct ls_block **born; /* began since the last commit */
    size_t born_count, born_room;
    struct ls_life *fresh; /* as life->fresh, of mappings in no reserved range that is known */
    struct ls_capture capture;
    struct ls_live reserved, physical; /* of the driver: addresses, handles */
};

void ls_block_report(struct ls_ingest *ingest, const struct ls_timed_call *call);
void ls_block_device_size(struct ls_ingest *ingest, const struct ls_timed_call *call);
void ls_block_mem_info(struct ls_ingest *ingest, const struct ls_timed_call *call);
void ls_block_pool(struct ls_ingest *ingest, const struct ls_timed_call *call);
/* The live block at exactly this address: its id, or 0. */
int64_t ls_block_at(const struct ls_ingest *ingest, uint64_t address);
/* Memory began or ended: from ingest_memory.c. */
void ls_block_life_began(struct ls_ingest *ingest, struct ls_life *life);
void ls_block_life_ended(struct ls_ingest *ingest, struct ls_life *life);
/* A life that was found in the tables; after the reserved ranges. */
void ls_block_life_loaded(struct ls_ingest *ingest, struct ls_life *life);
/* A reserved range is no more. */
void ls_block_range_ended(struct ls_life *range);
void ls_block_store(struct ls_ingest *ingest); /* before each commit */
void ls_block_load(struct ls_ingest *ingest);  /* after the live memory */
void ls_block_close(struct ls_ingest *ingest);
/* The block's end so far, into its row where there is one. A block that is free may be gone then.
 */
void ls_block_changed(struct ls_ingest *ingest, struct ls_block *block);
/* The block is free since `free_ns`; it may be gone then. */
void ls_block_freed(struct ls_ingest *ingest, struct ls_block *block, int64_t free_ns);

/* ---- totals ---- */

/* The device's, or NULL: out of memory. */
struct ls_audit *ls_audit_of(struct ls_ingest *ingest, uint8_t device);
/* What a report says after it was taken in. */
void ls_audit_report(struct ls_audit *audit, int64_t allocated, int64_t reserved);
void ls_audit_store(struct ls_ingest *ingest); /* the rows that changed */
void ls_audit_load(struct ls_ingest *ingest);
/* The allocator's name, what its blocks' record is worth, and figures, into meta and coverage. */
void ls_audit_put_end(struct ls_ingest *ingest);

/* ---- waits ---- */

/* Any call, before it makes rows: cheap for all but those of events. */
void ls_wait_track(struct ls_ingest *ingest, const struct ls_timed_call *call);
/* The events that the thread recorded in the very call that gave `block` back: it waits for them.
 * Its row is put; it may be gone then. */
void ls_wait_begin(struct ls_ingest *ingest, struct ls_block *block,
                   const struct ls_timed_call *call);
/* The thread's next call after its events: if made in the same call into the allocator, they were
 * recorded for blocks that were given back during a capture. */
void ls_wait_deferred(struct ls_ingest *ingest, struct ls_track *track,
                      const struct ls_timed_call *call);
/* Given back during a capture: waited is LS_WAITED_UNDECIDED until it is known. */
void ls_wait_undecided(struct ls_ingest *ingest, struct ls_audit *audit, struct ls_block *block);
/* During a capture, memory is handed out again: its undecided blocks were free at once. */
void ls_wait_reused(struct ls_ingest *ingest, struct ls_audit *audit, uint64_t address,
                    uint64_t size);
struct ls_track *ls_wait_of_thread(struct ls_ingest *ingest, uint32_t thread);
/* The capture is over: what is still undecided is free by now. */
void ls_wait_decide(struct ls_ingest *ingest, uint8_t device, int64_t now_ns);
/* Nobody will tell of the waits of this block any more. */
void ls_wait_drop(struct ls_ingest *ingest, struct ls_block *block, int64_t done_ns);
void ls_wait_load(struct ls_ingest *ingest);
void ls_wait_close(struct ls_ingest *ingest);

/* ---- captures ---- */

/* Any call; those of class CAPTURE_BEGIN, CAPTURE_END, EVENT and STREAM matter. */
void ls_capture_track(struct ls_ingest *ingest, const struct ls_timed_call *call);
bool ls_capture_has(struct ls_ingest *ingest, uint64_t stream);

/* ---- replay ---- */

/* What threads did last, and captures, are in the last calls. */
#define LS_CALLS_TAKEN_UP 200000

/* The last `count` calls of the trace, in their order. */
void ls_replay(struct ls_ingest *ingest, int64_t count,
               void (*take)(struct ls_ingest *ingest, const struct ls_timed_call *call));

/* ---- virtual memory ---- */

void ls_vmm_range(struct ls_ingest *ingest, const struct ls_timed_call *call);
void ls_vmm_map(struct ls_ingest *ingest, const struct ls_timed_call *call);
void ls_vmm_unmap(struct ls_ingest *ingest, const struct ls_timed_call *call);
/* Where the range of reserved addresses that holds `address` begins, or 0. */
uint64_t ls_vmm_reservation(const struct ls_ingest *ingest, uint64_t address);
void ls_vmm_load(struct ls_ingest *ingest);

#endif
