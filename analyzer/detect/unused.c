/*
 * unused.c - memory that nobody used in the steady part of a run. See unused.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "unused.h"

#include <stdlib.h>
#include <string.h>

#include "../memory/growth.h"
#include "../query.h"
#include "detect.h"
#include "thresholds.h"

bool ls_steady_find(const struct ls_history *h, struct ls_steady *steady) {
    size_t steps, number = 0;
    int loop = ls_growth_loop(h, &steps);
    for (size_t i = 0; i < h->steps && steps; i++) {
        const struct ls_history_step *step = &h->step[i];
        if (step->loop != loop)
            continue;
        if (number == 0)
            steady->first_ns = step->start_ns;
        if (number == LS_WARM_UP_STEPS)
            steady->from_ns = step->start_ns;
        steady->to_ns = step->end_ns;
        number++;
    }
    return number >= LS_WARM_UP_STEPS + LS_STEADY_STEPS;
}

static int by_address(const void *a, const void *b) {
    const struct ls_span *x = *(struct ls_span *const *)a, *y = *(struct ls_span *const *)b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static int piece_by_address(const void *a, const void *b) {
    const struct ls_piece *x = ((const struct ls_unused_piece *)a)->piece;
    const struct ls_piece *y = ((const struct ls_unused_piece *)b)->piece;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* What of a piece none of the spans covers; they come by address. Returns the first span behind. */
static size_t cover(struct ls_unused_piece *u, const struct ls_span *const *span, size_t i,
                    size_t count) {
    uint64_t at = u->piece->address, end = u->piece->address + u->piece->size;
    u->bytes = 0;
    for (; i < count && span[i]->address < end; i++) {
        uint64_t to = span[i]->address + span[i]->size;
        if (to <= u->piece->address)
            continue;
        u->touched = true;
        if (span[i]->address > at)
            u->bytes += span[i]->address - at;
        if (to > at)
            at = to;
    }
    if (at < end)
        u->bytes += end - at;
    return i;
}

void ls_unused_find(const struct ls_history *h, int64_t from_ns, int64_t to_ns,
                    struct ls_unused *unused) {
    const struct ls_span **span = calloc(h->spans + 1, sizeof(const struct ls_span *));
    size_t count = 0, next = 0;
    memset(unused, 0, sizeof *unused);
    ls_state_at(h, from_ns, &unused->state);
    unused->piece = calloc(unused->state.pieces + 1, sizeof *unused->piece);
    if (!span || !unused->piece)
        ls_detect_no_memory();
    for (size_t i = 0; i < unused->state.pieces; i++)
        if (unused->state.piece[i].segment->end_ns >= to_ns)
            unused->piece[unused->pieces++].piece = &unused->state.piece[i];
    for (size_t i = 0; i < h->spans && h->span[i].start_ns < to_ns; i++)
        if (h->span[i].free_ns > from_ns)
            span[count++] = &h->span[i];
    qsort(span, count, sizeof(const struct ls_span *), by_address);
    qsort(unused->piece, unused->pieces, sizeof *unused->piece, piece_by_address);
    for (size_t i = 0; i < unused->pieces; i++) {
        struct ls_unused_piece *u = &unused->piece[i];
        next = cover(u, span, next, count);
        *(u->touched ? &unused->rest : &unused->whole) += u->bytes;
    }
    free(span);
}

void ls_unused_free(struct ls_unused *unused) {
    ls_state_free(&unused->state);
    free(unused->piece);
}

bool ls_unused_is_large(const struct ls_unused *unused, uint64_t bytes, int64_t capacity) {
    if ((double)bytes >= LS_SHARE_PROBLEM * (double)capacity)
        return true;
    return bytes >= LS_GAP_LEAST &&
           (double)bytes >= LS_GAP_OF_RESERVED * (double)unused->state.reserved;
}

bool ls_memory_was_short(const struct ls_history *h, int64_t capacity, int64_t from_ns,
                         int64_t to_ns) {
    uint64_t reserved = 0;
    char *sql = sqlite3_mprintf("SELECT COUNT(*) FROM oom WHERE device = %d AND ts_ns BETWEEN %lld "
                                "AND %lld",
                                h->device, (long long)from_ns, (long long)to_ns);
    bool failed = sql && ls_query_int(h->db, 0, sql) > 0;
    sqlite3_free(sql);
    ls_peak_reserved_ns(h, &reserved);
    return failed || (double)reserved >= LS_NEARLY_FULL * (double)capacity;
}
