/*
 * history.h - a device's memory over a whole recording, as lifetimes; and what it was at a moment.
 *
 * For everything that asks who held what, and when: detectors, `layoutspy oom`, `layoutspy memory`.
 * Loaded once per device from the tables `block`, `allocation`, `vmm_range`, `step`. Sizes in
 * bytes, times in ns since the recording's start. Everything belongs to the history, texts too, and
 * is valid until ls_history_free(). A million blocks take about 100 MB. One thread; not
 * async-signal-safe.
 */
#ifndef LAYOUTSPY_HISTORY_H
#define LAYOUTSPY_HISTORY_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LS_NEVER INT64_MAX /* the end of what has none in the recording */
#define LS_NO_SEGMENT (-1)

/* One lifetime: of a block of a framework's allocator, or of memory from the runtime. At a moment T
 * it is live where start_ns <= T < end_ns, pending where end_ns <= T < free_ns. */
struct ls_span {
    int64_t id; /* block.id or allocation.id */
    int64_t start_ns;
    int64_t end_ns;  /* given back, or LS_NEVER */
    int64_t free_ns; /* usable again: end_ns, or later; LS_NEVER: not in the recording */
    int64_t start_call, end_call; /* call.id; end_call 0: none */
    uint64_t address, size;
    uint32_t stack, free_stack; /* stack_site.id, 0: none */
    uint32_t site, free_site;   /* for ls_history_site() */
    uint32_t thread;            /* thread.id that made it, 0: unknown */
    int32_t segment;            /* index in `segment`, or LS_NO_SEGMENT */
};

/* Memory that a framework's allocator holds: a cudaMalloc, or one mapping in reserved addresses. */
struct ls_segment {
    int64_t id; /* allocation.id */
    int64_t start_ns, end_ns;
    int64_t start_call, end_call;
    uint64_t address, size;
    uint64_t reservation; /* expandable: where the reserved range begins; else `address` */
    uint32_t stack, site;
    bool expandable;
};

struct ls_history_step {
    int64_t id, start_ns, end_ns; /* of table `step` */
    int loop;
    int64_t launches; /* -1: not known */
};

struct ls_history {
    sqlite3 *db;
    int device;
    bool framework;       /* there are blocks: `span` has them and `segment` what holds them */
    int64_t end_ns;       /* of the recording */
    int64_t capacity;     /* bytes of the device as cudaMemGetInfo told; 0: it was never asked */
    struct ls_span *span; /* by start_ns, then id. Blocks; where there are none, allocations on the
                             device (kinds device, async, managed, vmm, array, graph) */
    size_t spans;
    struct ls_segment *segment; /* by address, then start_ns; none without a framework */
    size_t segments;
    struct ls_span *direct; /* with a framework: device memory beside its segments (libraries' own,
                               the program's), by start_ns; else none: all of it is in `span` */
    size_t directs;
    struct ls_history_step *step; /* by start_ns */
    size_t steps;
    struct ls_history_own
        *own; /* history_load.c's and state.c's: texts, what was worked out once */
};

/* False: the query failed (sqlite3_errmsg tells). Exits with one line where there is no memory. */
bool ls_history_load(struct ls_history *history, sqlite3 *db, int device);
void ls_history_free(struct ls_history *history);

/* Devices that memory was recorded on, in ascending order; returns how many, at most `room`. */
size_t ls_history_devices(sqlite3 *db, int *device, size_t room);

/* Site text of a number, "site unknown" for 0. */
const char *ls_history_site(const struct ls_history *history, uint32_t site);
uint32_t ls_history_site_count(const struct ls_history *history); /* numbers are below it */

/* ---- at a moment (state.c) ---- */

/* A piece of a framework's memory: of native segments each one, of expandable ones each run of
 * mappings that touch. live + pending + free == size. */
struct ls_piece {
    uint64_t address, size;
    uint64_t live, pending, free;
    uint64_t hole;                    /* the largest free run of bytes */
    uint32_t blocks;                  /* live ones */
    const struct ls_span *oldest;     /* of the live ones, or NULL */
    const struct ls_segment *segment; /* the first one of it */
};

/* Who holds live memory: spans of one site. */
struct ls_holder_of {
    uint32_t site;
    uint64_t bytes;
    uint32_t blocks;
    const struct ls_span *oldest, *largest;
};

struct ls_state {
    int64_t ts_ns;
    uint64_t live, pending; /* of spans */
    uint64_t reserved;      /* of segments; without a framework == live */
    uint64_t cached;        /* reserved - live - pending */
    uint64_t hole;          /* the largest of any piece */
    uint64_t direct;        /* live bytes of `direct` */
    struct ls_piece *piece; /* by size, largest first */
    size_t pieces;
    struct ls_holder_of *holder; /* by bytes, largest first */
    size_t holders;
};

/* What happened at exactly ts_ns counts as having happened: a call's rows begin at its start. Free
 * with ls_state_free(). */
void ls_state_at(const struct ls_history *history, int64_t ts_ns, struct ls_state *state);
void ls_state_free(struct ls_state *state);

/* The first moment at which the most was live (reserved), or -1 where nothing ever was. Worked out
 * once. */
int64_t ls_peak_live_ns(const struct ls_history *history, uint64_t *bytes);
int64_t ls_peak_reserved_ns(const struct ls_history *history, uint64_t *bytes);

#endif
