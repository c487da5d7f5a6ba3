/*
 * state.c - what a device's memory was at a moment, and when the most was in use. See history.h.
 *
 * One thread; not async-signal-safe.
 */
#include <stdlib.h>
#include <string.h>

#include "../room.h"
#include "history.h"
#include "history_own.h"

/* ---- pieces ---- */

static bool segment_at(const struct ls_segment *s, int64_t ts_ns) {
    return s->start_ns <= ts_ns && ts_ns < s->end_ns;
}

/* A mapping right behind the piece before it is part of that. */
static bool continues(const struct ls_piece *piece, const struct ls_segment *s) {
    return s->expandable && piece->segment->expandable &&
           piece->segment->reservation == s->reservation &&
           piece->address + piece->size == s->address;
}

static void find_pieces(const struct ls_history *h, struct ls_state *state) {
    size_t room = 0;
    for (size_t i = 0; i < h->segments; i++) {
        const struct ls_segment *s = &h->segment[i];
        if (!segment_at(s, state->ts_ns))
            continue;
        state->reserved += s->size;
        if (state->pieces && continues(&state->piece[state->pieces - 1], s)) {
            state->piece[state->pieces - 1].size += s->size;
            continue;
        }
        state->piece = ls_room(state->piece, state->pieces, &room, sizeof *state->piece);
        state->piece[state->pieces++] =
            (struct ls_piece){.address = s->address, .size = s->size, .segment = s};
    }
}

static int by_address(const void *a, const void *b) {
    const struct ls_span *x = *(struct ls_span *const *)a, *y = *(struct ls_span *const *)b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static bool older(const struct ls_span *span, const struct ls_span *than) {
    return !than || span->start_ns < than->start_ns;
}

static void free_run(struct ls_piece *piece, uint64_t bytes) {
    piece->free += bytes;
    if (bytes > piece->hole)
        piece->hole = bytes;
}

/* Goes through the spans of one piece, by address; bytes that two of them claim count once. Returns
 * the first span behind the piece. */
static size_t fill_piece(struct ls_piece *piece, const struct ls_span *const *span, size_t i,
                         size_t count, int64_t ts_ns) {
    uint64_t end = piece->address + piece->size, at = piece->address;
    for (; i < count && span[i]->address < end; i++) {
        const struct ls_span *s = span[i];
        uint64_t from = s->address > at ? s->address : at;
        uint64_t to = s->address + s->size < end ? s->address + s->size : end;
        bool live = ts_ns < s->end_ns;
        if (to <= piece->address)
            continue;
        if (live && s->address >= piece->address) {
            piece->blocks++;
            if (older(s, piece->oldest))
                piece->oldest = s;
        }
        if (to <= from)
            continue;
        free_run(piece, from - at);
        *(live ? &piece->live : &piece->pending) += to - from;
        at = to;
    }
    free_run(piece, end - at);
    return i;
}

static int by_size(const void *a, const void *b) {
    const struct ls_piece *x = a, *y = b;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

static void fill_pieces(struct ls_state *state, const struct ls_span **span, size_t count) {
    size_t i = 0;
    if (count)
        qsort(span, count, sizeof *span, by_address);
    for (size_t p = 0; p < state->pieces; p++) {
        i = fill_piece(&state->piece[p], span, i, count, state->ts_ns);
        if (state->piece[p].hole > state->hole)
            state->hole = state->piece[p].hole;
    }
    if (state->pieces)
        qsort(state->piece, state->pieces, sizeof *state->piece, by_size);
}

/* ---- holders ---- */

static int by_bytes(const void *a, const void *b) {
    const struct ls_holder_of *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->site < y->site ? -1 : x->site > y->site;
}

static void add_holder(struct ls_holder_of *holder, const struct ls_span *s) {
    holder->bytes += s->size;
    holder->blocks++;
    if (older(s, holder->oldest))
        holder->oldest = s;
    if (!holder->largest || s->size > holder->largest->size)
        holder->largest = s;
}

/* From one entry per site to those that hold something. */
static void keep_holders(struct ls_state *state, uint32_t sites) {
    for (uint32_t i = 0; i < sites; i++) {
        if (state->holder[i].blocks == 0)
            continue;
        state->holder[state->holders] = state->holder[i];
        state->holder[state->holders++].site = i;
    }
    if (state->holders)
        qsort(state->holder, state->holders, sizeof *state->holder, by_bytes);
}

/* ---- the whole ---- */

void ls_state_at(const struct ls_history *history, int64_t ts_ns, struct ls_state *state) {
    const struct ls_span **used = NULL;
    size_t count = 0, room = 0;
    uint32_t sites = ls_history_site_count(history);
    *state = (struct ls_state){.ts_ns = ts_ns};
    state->holder = ls_new(sites, sizeof *state->holder);
    for (size_t i = 0; i < history->spans && history->span[i].start_ns <= ts_ns; i++) {
        const struct ls_span *s = &history->span[i];
        if (s->free_ns <= ts_ns)
            continue;
        if (ts_ns < s->end_ns) {
            state->live += s->size;
            add_holder(&state->holder[s->site], s);
        } else
            state->pending += s->size;
        used = ls_room(used, count, &room, sizeof(const struct ls_span *));
        used[count++] = s;
    }
    for (size_t i = 0; i < history->directs && history->direct[i].start_ns <= ts_ns; i++)
        if (ts_ns < history->direct[i].end_ns)
            state->direct += history->direct[i].size;
    keep_holders(state, sites);
    find_pieces(history, state);
    fill_pieces(state, used, count);
    free(used);
    if (!history->framework)
        state->reserved = state->live;
    if (state->reserved > state->live + state->pending)
        state->cached = state->reserved - state->live - state->pending;
}

void ls_state_free(struct ls_state *state) {
    free(state->piece);
    free(state->holder);
    *state = (struct ls_state){0};
}

/* ---- peaks ---- */

struct change {
    int64_t ts_ns;
    uint64_t bytes;
};

static int by_time(const void *a, const void *b) {
    const struct change *x = a, *y = b;
    return x->ts_ns < y->ts_ns ? -1 : x->ts_ns > y->ts_ns;
}

static void sort_changes(struct change *change, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (change[i - 1].ts_ns > change[i].ts_ns) {
            qsort(change, count, sizeof *change, by_time);
            return;
        }
}

/* `up` and `down` have `count` entries, those that never end LS_NEVER; both get sorted. */
static void find_peak(struct change *up, struct change *down, size_t count, struct ls_peak *peak) {
    uint64_t sum = 0;
    size_t ended = 0;
    sort_changes(up, count);
    sort_changes(down, count);
    for (size_t i = 0; i < count;) {
        int64_t now = up[i].ts_ns;
        while (i < count && up[i].ts_ns == now)
            sum += up[i++].bytes;
        while (ended < count && down[ended].ts_ns <= now)
            sum -= down[ended++].bytes;
        if (sum > peak->bytes) {
            peak->bytes = sum;
            peak->ts_ns = now;
        }
    }
}

/* What rises at each start and falls at each end. */
struct changes {
    struct change *up, *down;
    size_t count;
};

static struct changes new_changes(size_t most) {
    return (struct changes){.up = ls_new(most, sizeof(struct change)),
                            .down = ls_new(most, sizeof(struct change))};
}

static void add_change(struct changes *all, int64_t start_ns, int64_t end_ns, uint64_t size) {
    if (end_ns <= start_ns)
        return;
    all->up[all->count] = (struct change){start_ns, size};
    all->down[all->count++] = (struct change){end_ns, size};
}

static void find_peak_of(struct changes all, struct ls_peak *peak) {
    find_peak(all.up, all.down, all.count, peak);
    free(all.up);
    free(all.down);
}

static void peak_of_spans(const struct ls_history *h, struct ls_peak *peak) {
    struct changes all = new_changes(h->spans);
    for (size_t i = 0; i < h->spans; i++)
        add_change(&all, h->span[i].start_ns, h->span[i].end_ns, h->span[i].size);
    find_peak_of(all, peak);
}

static void peak_of_segments(const struct ls_history *h, struct ls_peak *peak) {
    struct changes all = new_changes(h->segments);
    for (size_t i = 0; i < h->segments; i++)
        add_change(&all, h->segment[i].start_ns, h->segment[i].end_ns, h->segment[i].size);
    find_peak_of(all, peak);
}

static int64_t peak(const struct ls_history *h, struct ls_peak *found, bool segments,
                    uint64_t *bytes) {
    if (!found->known) {
        found->known = true;
        found->ts_ns = -1;
        if (segments)
            peak_of_segments(h, found);
        else
            peak_of_spans(h, found);
    }
    if (bytes)
        *bytes = found->bytes;
    return found->ts_ns;
}

int64_t ls_peak_live_ns(const struct ls_history *history, uint64_t *bytes) {
    return peak(history, &history->own->live, false, bytes);
}

int64_t ls_peak_reserved_ns(const struct ls_history *history, uint64_t *bytes) {
    return peak(history, &history->own->reserved, history->framework, bytes);
}
