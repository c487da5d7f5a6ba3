/*
 * unused.h - memory that a framework's allocator held through the steady part of a run, and that no
 * block ever lay in meanwhile.
 *
 * Sizes in bytes, times in ns since the recording's start. Main thread only; not for signal
 * handlers.
 */
#ifndef LAYOUTSPY_UNUSED_H
#define LAYOUTSPY_UNUSED_H

#include "../memory/history.h"

/* The part of a run that repeats: the loop with the most steps, without its first ones. */
struct ls_steady {
    int64_t first_ns; /* when the first step began */
    int64_t from_ns, to_ns;
};

/* False: the program has no loop, or one that is too short to tell. */
bool ls_steady_find(const struct ls_history *history, struct ls_steady *steady);

struct ls_unused_piece {
    const struct ls_piece *piece; /* as it was at from_ns */
    uint64_t bytes;               /* that nothing lay in */
    bool touched;                 /* something lay in the rest of it */
};

struct ls_unused {
    struct ls_state state; /* at from_ns */
    struct ls_unused_piece *piece;
    size_t pieces;
    uint64_t whole; /* of pieces that nothing touched */
    uint64_t rest;  /* of the others */
};

/* Of segments that were there all the time from from_ns to to_ns. Free with ls_unused_free(). */
void ls_unused_find(const struct ls_history *history, int64_t from_ns, int64_t to_ns,
                    struct ls_unused *unused);
void ls_unused_free(struct ls_unused *unused);

/* Whether so much, of so much reserved, is worth a warning: a good part of the device, or of what
 * is reserved. */
bool ls_unused_is_large(const struct ls_unused *unused, uint64_t bytes, int64_t capacity);

/* Whether memory that nobody uses was missed in this time: a request failed (at least once), or the
 * device was nearly full. */
bool ls_memory_was_short(const struct ls_history *history, int64_t capacity, int64_t from_ns,
                         int64_t to_ns);

#endif
