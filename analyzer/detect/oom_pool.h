/*
 * oom_pool.h - which pool of PyTorch's allocator a block or a request belongs to.
 *
 * Its blocks belong to the stream that was current when they were made, and only requests of that
 * stream may have them. Nobody tells the streams; they show in what the program does next. Main
 * thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_OOM_POOL_H
#define LAYOUTSPY_OOM_POOL_H

#include "oom_facts.h"

/* Whether the failed request could have had the hole that came to be inside the call. */
bool ls_oom_fitting_usable(const struct ls_oom *oom);

/* The piece that has the hole which fits; NULL: none, or no state. */
const struct ls_piece *ls_oom_fitting_piece(const struct ls_oom *oom);

/* Whether blocks of this memory were made while a stream captured: a graph's private pool. */
bool ls_piece_of_graph(const struct ls_oom *oom, const struct ls_piece *piece);

#endif
