/*
 * classify.h - what the two sides of a copy are, which way it goes, and how much it moves.
 *
 * From the live set first, then from what the target asked the runtime, then from the kind that
 * the program passed. One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_CLASSIFY_H
#define LAYOUTSPY_CLASSIFY_H

#include <stdint.h>

#include "layoutspy/format.h"
#include "live.h"

enum ls_side_kind { /* copy.src_kind and dst_kind in the schema */
                    LS_SIDE_UNKNOWN,
                    LS_SIDE_PAGEABLE,
                    LS_SIDE_PINNED,
                    LS_SIDE_DEVICE,
                    LS_SIDE_MANAGED,
                    LS_SIDE_ARRAY,
};

enum ls_direction { /* copy.direction in the schema */
                    LS_DIRECTION_UNKNOWN,
                    LS_DIRECTION_H2D,
                    LS_DIRECTION_D2H,
                    LS_DIRECTION_D2D,
                    LS_DIRECTION_H2H,
                    LS_DIRECTION_P2P,
};

struct ls_copy {
    uint64_t dst, src; /* address, array handle or symbol */
    enum ls_side_kind dst_kind, src_kind;
    enum ls_direction direction;
    uint64_t bytes;
    /* Of copies in rows, else 0: bytes of a row, and from one to the next in linear memory. */
    uint64_t width, dst_pitch, src_pitch;
};

/* `call` is one of class COPY. */
void ls_classify(const struct ls_rec_call *call, const struct ls_live *memory,
                 const struct ls_live *arrays, struct ls_copy *copy);

#endif
