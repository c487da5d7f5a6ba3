/*
 * step_stream.c - see step_stream.h. One thread; not async-signal-safe.
 */
#include "step_stream.h"

#include <stdlib.h>
#include <string.h>

#include "layoutspy/table.h"

#define NESTED_MAX 1024 /* calls that one call is looked to have made; more would be damage */
#define THREADS_MAX (1u << 20) /* a higher number is damage */

static uint64_t hash_of(const struct ls_step_symbol *s) {
    uint64_t key = (uint64_t)s->api << 48 ^ (uint64_t)s->kernel << 32 ^ s->stack;
    key = (key ^ key >> 33) * UINT64_C(0xff51afd7ed558ccd);
    return key ^ key >> 33;
}

static bool same(const struct ls_step_symbol *a, const struct ls_step_symbol *b) {
    return a->api == b->api && a->stack == b->stack && a->kernel == b->kernel;
}

/* Twice the slots, so that at most half are in use. */
static bool grow(struct ls_step_streams *all) {
    uint32_t slots = all->slots ? 2 * all->slots : 4096;
    uint32_t *slot = calloc(slots, sizeof *slot);
    struct ls_step_symbol *symbol = realloc(all->symbol, slots / 2 * sizeof *symbol);
    if (symbol)
        all->symbol = symbol;
    if (!slot || !symbol) {
        free(slot);
        return false;
    }
    for (uint32_t i = 0; i < all->symbols; i++) {
        uint32_t at = (uint32_t)hash_of(&symbol[i]) & (slots - 1);
        while (slot[at])
            at = (at + 1) & (slots - 1);
        slot[at] = i + 1;
    }
    free(all->slot);
    all->slot = slot;
    all->slots = slots;
    all->symbol_room = slots / 2;
    return true;
}

static uint32_t symbol_number(struct ls_step_streams *all, const struct ls_step_symbol *wanted) {
    if (all->symbols == all->symbol_room && !grow(all)) {
        all->out_of_memory = true;
        return 0;
    }
    uint32_t at = (uint32_t)hash_of(wanted) & (all->slots - 1);
    for (; all->slot[at]; at = (at + 1) & (all->slots - 1))
        if (same(&all->symbol[all->slot[at] - 1], wanted))
            return all->slot[at] - 1;
    all->symbol[all->symbols] = *wanted;
    all->slot[at] = ++all->symbols;
    return all->symbols - 1;
}

static struct ls_step_stream *stream_of(struct ls_step_streams *all, int64_t thread) {
    if (thread < 0 || thread > THREADS_MAX)
        thread = 0;
    if (thread >= all->count) {
        uint32_t count = (uint32_t)thread + 1;
        struct ls_step_stream *more = realloc(all->stream, count * sizeof *more);
        if (!more)
            return NULL;
        memset(more + all->count, 0, (count - all->count) * sizeof *more);
        for (uint32_t i = all->count; i < count; i++)
            more[i].thread = i;
        all->stream = more;
        all->count = count;
    }
    return &all->stream[thread];
}

static bool make_room(struct ls_step_stream *stream) {
    if (stream->count < stream->room)
        return true;
    uint32_t room = stream->room ? stream->room + stream->room / 2 : 1024;
    struct ls_step_call *more = realloc(stream->call, room * sizeof *more);
    if (!more)
        return false;
    stream->call = more;
    stream->room = room;
    return true;
}

/* Which field of a function is the kernel's number, -1: none. */
static int kernel_field(unsigned api) {
    for (int i = 0; i < ls_api_info[api].field_count; i++)
        if (ls_api_info[api].field[i].type == LS_FIELD_KERNEL)
            return i;
    return -1;
}

enum { COLUMN_START, COLUMN_DURATION, COLUMN_THREAD, COLUMN_API, COLUMN_STACK, COLUMN_FIELD };

static void take_call(sqlite3_stmt *stmt, void *context) {
    struct ls_step_streams *all = context;
    struct ls_step_symbol symbol = {.stack = (uint32_t)sqlite3_column_int64(stmt, COLUMN_STACK),
                                    .api = (uint16_t)sqlite3_column_int(stmt, COLUMN_API)};
    struct ls_step_stream *stream = stream_of(all, sqlite3_column_int64(stmt, COLUMN_THREAD));
    if (!stream || !make_room(stream) || all->out_of_memory) {
        all->out_of_memory = true;
        return;
    }
    if (symbol.api < LS_API_COUNT) {
        enum ls_class cls = ls_api_info[symbol.api].cls;
        int kernel = cls == LS_CLASS_LAUNCH && !symbol.stack ? kernel_field(symbol.api) : -1;
        symbol.launch = cls == LS_CLASS_LAUNCH || cls == LS_CLASS_GRAPH;
        if (kernel >= 0)
            symbol.kernel = (uint32_t)sqlite3_column_int64(stmt, COLUMN_FIELD + kernel);
    }
    int64_t start = sqlite3_column_int64(stmt, COLUMN_START);
    int64_t duration = sqlite3_column_int64(stmt, COLUMN_DURATION);
    uint32_t number = symbol_number(all, &symbol), at = stream->count++;
    /* They come in order of completion: a call goes before those that it made itself. */
    uint32_t first = at > NESTED_MAX ? at - NESTED_MAX : 0;
    for (; at > first && stream->call[at - 1].start_ns > start; at--)
        stream->call[at] = stream->call[at - 1];
    stream->call[at] = (struct ls_step_call){
        start, duration > UINT32_MAX ? UINT32_MAX : (uint32_t)duration, number};
    stream->launches += symbol.launch;
}

static void take_host_copy(sqlite3_stmt *stmt, void *context) {
    struct ls_step_streams *all = context;
    struct ls_step_symbol symbol = {.stack = (uint32_t)sqlite3_column_int64(stmt, 1),
                                    .api = (uint16_t)sqlite3_column_int(stmt, 0)};
    uint32_t number = symbol_number(all, &symbol);
    if (!all->out_of_memory)
        all->symbol[number].host_copy = true;
}

static void take_thread(sqlite3_stmt *stmt, void *context) {
    struct ls_step_streams *all = context;
    int64_t thread = sqlite3_column_int64(stmt, 0);
    if (thread >= 0 && thread < all->count)
        all->stream[thread].tid = sqlite3_column_int64(stmt, 1);
}

void ls_step_streams_load(struct ls_step_streams *all, struct ls_trace_db *db) {
    memset(all, 0, sizeof *all);
    ls_db_each(db,
               "SELECT start_ns, duration_ns, thread, api, COALESCE(stack, 0), f0, f1, f2, f3, f4, "
               "f5, f6, f7, f8, f9, f10, f11 FROM call ORDER BY id",
               take_call, all);
    ls_db_each(db,
               "SELECT DISTINCT api, COALESCE(stack, 0) FROM copy WHERE status = 0 AND direction"
               " IN (1, 2)",
               take_host_copy, all);
    ls_db_each(db, "SELECT id, tid FROM thread", take_thread, all);
}

void ls_step_streams_free(struct ls_step_streams *all) {
    for (uint32_t i = 0; i < all->count; i++)
        free(all->stream[i].call);
    free(all->stream);
    free(all->symbol);
    free(all->slot);
    memset(all, 0, sizeof *all);
}

void ls_step_add(struct ls_step_list *list, struct ls_step step) {
    if (list->count == list->room) {
        uint32_t room = list->room ? 2 * list->room : 256;
        struct ls_step *more = realloc(list->step, room * sizeof *more);
        if (!more) {
            list->out_of_memory = true;
            return;
        }
        list->step = more;
        list->room = room;
    }
    list->step[list->count++] = step;
}

uint32_t ls_step_occurrences(const struct ls_step_stream *stream, uint32_t symbol, uint32_t from,
                             uint32_t to) {
    uint32_t count = 0;
    for (uint32_t i = from; i < to; i++)
        count += stream->call[i].symbol == symbol;
    return count;
}

/* Hoare's partition: no number up to where it returns is above any after. */
static uint32_t partition(uint32_t *number, uint32_t low, uint32_t high) {
    uint32_t pivot = number[low + (high - low) / 2], i = low, j = high;
    for (;; i++, j--) {
        while (number[i] < pivot)
            i++;
        while (number[j] > pivot)
            j--;
        if (i >= j)
            return j;
        uint32_t other = number[i];
        number[i] = number[j];
        number[j] = other;
    }
}

uint32_t ls_step_median(uint32_t *number, uint32_t count) {
    uint32_t low = 0, high = count - 1, middle = count / 2;
    while (low < high) {
        uint32_t split = partition(number, low, high);
        if (middle <= split)
            high = split;
        else
            low = split + 1;
    }
    return number[middle];
}
