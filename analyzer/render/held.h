/*
 * held.h - who holds memory and what lies in its pieces, as tables and as JSON: what `oom` and
 * `memory` share.
 *
 * Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_HELD_H
#define LAYOUTSPY_HELD_H

#include <jansson.h>
#include <stdio.h>

#include "../memory/history.h"
#include "../memory/holders.h"

#define LS_EVERY_ROW ((size_t)-1)

/* Findings that are about device memory, as SQL has it. */
#define LS_MEMORY_KINDS                                                                            \
    "('oom', 'oom-cascade', 'oom-fitting-block', 'fragmentation', 'reserved-gap',"                 \
    " 'stranded-remainder', 'pending-free', 'peak-overlap', 'pool-miss', 'ratchet',"               \
    " 'linear-growth', 'delayed-release', 'cache-flush-stall', 'library-workspace',"               \
    " 'stream-keyed-growth', 'storage-held-by-views', 'leak', 'library-memory',"                   \
    " 'unused-allocation', 'early-allocation', 'late-free', 'untracked-growth', 'bounded-cache')"

/* A table of the `most` that hold the most, and a line for the rest; LS_EVERY_ROW: all. */
void ls_render_holders(const struct ls_holders *holders, size_t most, FILE *out);
json_t *ls_render_holders_json(const struct ls_holders *holders);

/* Pieces of an allocator's memory: live bytes, the largest hole, the oldest live block. Text: those
 * with the most free around what pins them first, in `most` lines, of which one may stand for many
 * that are alike (LS_EVERY_ROW: one each); JSON: all, by size. */
void ls_render_pieces(const struct ls_history *history, const struct ls_state *state, size_t most,
                      FILE *out);
json_t *ls_render_pieces_json(const struct ls_history *history, const struct ls_state *state);

/* A site in at most `width` columns: its end says more than its beginning. */
struct ls_clipped {
    char text[256];
};
const char *ls_clip_site(struct ls_clipped *clipped, const char *site, int width);

/* A number, or null where it is LS_OOM_UNKNOWN (or any other below 0). */
json_t *ls_json_known(int64_t value);

/* "12 steps", "1 step"; without steps the time. */
const char *ls_age_text(char *text, size_t size, int64_t steps, int64_t ns);

#endif
