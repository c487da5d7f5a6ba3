/*
 * oom_facts.h - what was the matter when memory ran out: each oom of the trace with the figures of
 * that moment, and the cause that they tell.
 *
 * For all detectors of ooms: read once per run of the detectors. Only ooms that the program got to
 * see are here; a request that a retry served was a stall. Sizes in bytes, -1 where not known.
 * Everything belongs to the run. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_OOM_FACTS_H
#define LAYOUTSPY_OOM_FACTS_H

#include "detect.h"

enum ls_oom_verdict {
    LS_OOM_FITTING,    /* a fitting block became free inside the failing call, and was not taken */
    LS_OOM_LIMIT,      /* the driver had enough: a limit set in the program */
    LS_OOM_OTHER_POOL, /* a fitting hole lay there all the time, where the allocator may not look */
    LS_OOM_FRAGMENTED, /* enough was free in the allocator's segments, in pieces */
    LS_OOM_PENDING,    /* enough was given back, but other streams still used it */
    LS_OOM_LIBRARY, /* somebody beside the framework's allocator asked, which could have helped */
    LS_OOM_OTHERS,  /* other processes and contexts hold the rest of the device */
    LS_OOM_LIVE,    /* live memory fills the device, or the request is larger than it */
    LS_OOM_UNEXPLAINED /* the driver refused though it said to have enough */
};

struct ls_oom {
    int64_t id, ts_ns; /* of table `oom` */
    int64_t begin_ns;  /* of the first call that belongs to it, at most ts_ns */
    int device;
    uint32_t thread, stack;
    char *site;
    bool backward;     /* the site called the forward operation whose backward asked */
    bool reported;     /* by a framework's allocator; else a call of the runtime or driver failed */
    char *owner;       /* a library that asked for itself, or NULL */
    int64_t attempts;  /* -1: not known */
    int64_t requested; /* by the program */
    int64_t asked;     /* of the driver: rounded up */
    int64_t capacity, allocated, reserved, pending, cached;
    int64_t driver_free;
    bool driver_free_told; /* else it is what is left of the capacity */
    int64_t hole;          /* the largest free piece, where the request could lie */
    int64_t hole_before;   /* of the same segments, when the call began */
    int64_t direct;        /* device memory beside the framework's allocator, of this process */
    int64_t others;        /* of the device, and nobody's in this process */
    int64_t missing;       /* of what was asked, beyond driver_free; at least 0 */
    int64_t releasable;    /* cached in segments without any block in use */
    int64_t flushed_calls, flushed_bytes;
    enum ls_oom_verdict verdict;
    const struct ls_oom *cause; /* the oom whose remains led to this one, or NULL: oom_remains.c */
    bool has_state;
    struct ls_state state;            /* at ts_ns; where has_state */
    const struct ls_history *history; /* of its device, or NULL */
};

struct ls_ooms {
    struct ls_oom *oom; /* by time */
    size_t count;
    bool expandable;                /* the allocator works with expandable segments */
    bool split_limit;               /* max_split_size_mb was set in the environment */
    struct ls_oom_remains *remains; /* oom_remains.c's own */
};

/* At the first wish reads and judges them; NULL: the query failed, *rc tells. */
const struct ls_ooms *ls_ooms_of(struct ls_detect *d, int *rc);
void ls_ooms_free(struct ls_ooms *ooms);

/* The large and the small requests of PyTorch's allocator lie in segments of different pools. */
bool ls_oom_same_pool(const struct ls_oom *oom, const struct ls_piece *piece);

/* Segments whose few live blocks are in the way: without those, `missing` bytes would be there.
 * Where no such segments are: those whose free parts are enough together, if not in one piece. */
struct ls_oom_pins {
    bool parts;                                /* the latter */
    const struct ls_piece *piece[8];           /* the fewest live bytes for their size first */
    size_t pieces;                             /* of `piece` */
    size_t count;                              /* of all that it takes */
    int64_t size, live, pending, free, blocks; /* of all of them */
};

/* False where no segments in use have enough. */
bool ls_oom_pins(const struct ls_oom *oom, struct ls_oom_pins *pins);

/* Who holds live blocks in `pieces`, by bytes: JSON array of site, bytes, blocks, oldest_age_ns.
 * `site` (may be NULL) gets the first one's. */
json_t *ls_oom_pin_sites(const struct ls_history *history, int64_t ts_ns,
                         const struct ls_piece *const *piece, size_t pieces, const char **site);

/* Segments as JSON: address, size, live, pending, free, hole, blocks. */
json_t *ls_pieces_json(const struct ls_piece *const *piece, size_t pieces);

/* The word for evidence.verdict: "fragmented", "live memory", ... */
const char *ls_oom_verdict_name(enum ls_oom_verdict verdict);

#endif
