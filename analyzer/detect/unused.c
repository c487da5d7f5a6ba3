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
#include "../room.h"
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

/* Memory that something lay in. */
struct used {
    uint64_t from, to; /* `to` 0: a free slot of the table */
};

/* By its begin, as a hash table: memory is handed out again and again, and of what begins at one
 * address only how far it goes at most matters. */
struct used_table {
    struct used *slot;
    size_t slots, count; /* slots: a power of two */
};

static struct used *slot_of(const struct used_table *table, uint64_t from) {
    size_t at = (size_t)((from >> 9) * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    while (table->slot[at & (table->slots - 1)].to &&
           table->slot[at & (table->slots - 1)].from != from)
        at++;
    return &table->slot[at & (table->slots - 1)];
}

static void grow(struct used_table *table) {
    struct used_table more = {.slots = table->slots ? 2 * table->slots : 1024};
    more.slot = ls_new(more.slots, sizeof *more.slot);
    for (size_t i = 0; i < table->slots; i++)
        if (table->slot[i].to)
            *slot_of(&more, table->slot[i].from) = table->slot[i];
    more.count = table->count;
    free(table->slot);
    *table = more;
}

static void add_used(struct used_table *table, uint64_t from, uint64_t to) {
    if (to <= from)
        return;
    if (2 * table->count >= table->slots)
        grow(table);
    struct used *slot = slot_of(table, from);
    table->count += slot->to == 0;
    slot->from = from;
    if (to > slot->to)
        slot->to = to;
}

static int by_address(const void *a, const void *b) {
    const struct used *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

/* What lay on the device at some time in [from_ns, to_ns), by address; to be freed. */
static struct used *find_used(const struct ls_history *h, int64_t from_ns, int64_t to_ns,
                              size_t *count) {
    struct used_table table = {0};
    size_t kept = 0;
    grow(&table);
    for (size_t i = 0; i < h->spans && h->span[i].start_ns < to_ns; i++)
        if (h->span[i].free_ns > from_ns)
            add_used(&table, h->span[i].address, h->span[i].address + h->span[i].size);
    for (size_t i = 0; i < table.slots; i++)
        if (table.slot[i].to)
            table.slot[kept++] = table.slot[i];
    qsort(table.slot, kept, sizeof *table.slot, by_address);
    *count = kept;
    return table.slot;
}

static int piece_by_address(const void *a, const void *b) {
    const struct ls_piece *x = ((const struct ls_unused_piece *)a)->piece;
    const struct ls_piece *y = ((const struct ls_unused_piece *)b)->piece;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* What of a piece nothing lay in. Returns the first one behind it. */
static size_t cover(struct ls_unused_piece *u, const struct used *used, size_t i, size_t count) {
    uint64_t at = u->piece->address, end = u->piece->address + u->piece->size;
    u->bytes = 0;
    for (; i < count && used[i].from < end; i++) {
        if (used[i].to <= u->piece->address)
            continue;
        u->touched = true;
        if (used[i].from > at)
            u->bytes += used[i].from - at;
        if (used[i].to > at)
            at = used[i].to;
    }
    if (at < end)
        u->bytes += end - at;
    return i;
}

void ls_unused_find(const struct ls_history *h, int64_t from_ns, int64_t to_ns,
                    struct ls_unused *unused) {
    size_t count, next = 0;
    struct used *used = find_used(h, from_ns, to_ns, &count);
    memset(unused, 0, sizeof *unused);
    ls_state_at(h, from_ns, &unused->state);
    unused->piece = ls_new(unused->state.pieces, sizeof *unused->piece);
    for (size_t i = 0; i < unused->state.pieces; i++)
        if (unused->state.piece[i].segment->end_ns >= to_ns)
            unused->piece[unused->pieces++].piece = &unused->state.piece[i];
    qsort(unused->piece, unused->pieces, sizeof *unused->piece, piece_by_address);
    for (size_t i = 0; i < unused->pieces; i++) {
        struct ls_unused_piece *u = &unused->piece[i];
        next = cover(u, used, next, count);
        *(u->touched ? &unused->rest : &unused->whole) += u->bytes;
    }
    free(used);
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
