/*
 * step_stream.c - see step_stream.h. One thread; not async-signal-safe.
 */
#include "step_stream.h"

#include <stdlib.h>
#include <string.h>

#include "classify.h"
#include "common/roles.h"
#include "layoutspy/table.h"

#define NESTED_MAX 1024 /* calls that one call is looked to have made; more would be damage */
#define THREADS_MAX (1u << 20) /* a higher number is damage */

static uint64_t hash_of(const struct ls_step_symbol *s) {
    uint64_t key = (uint64_t)s->api << 48 ^ (uint64_t)s->kernel << 32 ^ s->stack ^ s->passed;
    key = (key ^ key >> 33) * UINT64_C(0xff51afd7ed558ccd);
    return key ^ key >> 33;
}

static bool same(const struct ls_step_symbol *a, const struct ls_step_symbol *b) {
    return a->api == b->api && a->stack == b->stack && a->kernel == b->kernel &&
           a->passed == b->passed;
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

static bool keep_own(struct ls_step_stream *stream, int64_t start) {
    if (stream->owns == stream->own_room) {
        uint32_t room = stream->own_room ? 2 * stream->own_room : 256;
        int64_t *more = realloc(stream->own_ns, room * sizeof *more);
        if (!more)
            return false;
        stream->own_ns = more;
        stream->own_room = room;
    }
    stream->own_ns[stream->owns++] = start;
    return true;
}

/* Which field of a function is the kernel's number, -1: none. */
static int kernel_field(unsigned api) {
    for (int i = 0; i < ls_api_info[api].field_count; i++)
        if (ls_api_info[api].field[i].type == LS_FIELD_KERNEL)
            return i;
    return -1;
}

enum {
    COLUMN_START,
    COLUMN_DURATION,
    COLUMN_THREAD,
    COLUMN_API,
    COLUMN_STACK,
    COLUMN_ID,
    COLUMN_FIELD
};

/* What the call does, as far as levels of loops are told by it (step_level.c). */
static void describe(struct ls_step_symbol *symbol, sqlite3_stmt *stmt) {
    const struct ls_roles *roles = &ls_roles[symbol->api];
    bool back = false;
    switch (ls_api_info[symbol->api].cls) {
    case LS_CLASS_LAUNCH:
        if (!symbol->stack && kernel_field(symbol->api) >= 0)
            symbol->kernel =
                (uint32_t)sqlite3_column_int64(stmt, COLUMN_FIELD + kernel_field(symbol->api));
        symbol->launch = true;
        return;
    case LS_CLASS_GRAPH:
        symbol->launch = true;
        return;
    case LS_CLASS_MEMSET:
    case LS_CLASS_MEM_INFO:
        symbol->work = true;
        return;
    case LS_CLASS_BLOCK:
        back = roles->size >= 0 && sqlite3_column_int64(stmt, COLUMN_FIELD + roles->size) < 0;
        symbol->gives = !back;
        symbol->takes = back;
        return;
    case LS_CLASS_DEVICE_ALLOC:
    case LS_CLASS_ASYNC_ALLOC:
    case LS_CLASS_MANAGED_ALLOC:
    case LS_CLASS_PINNED_ALLOC:
    case LS_CLASS_ARRAY_ALLOC:
        symbol->gives = true;
        return;
    case LS_CLASS_FREE:
        symbol->takes = true;
        return;
    default:
        return;
    }
}

static bool is_own(const struct ls_step_streams *all, sqlite3_stmt *stmt, unsigned api,
                   int64_t stack) {
    int event = api < LS_API_COUNT ? ls_roles[api].event : -1;
    return ls_step_is_own(&all->own, sqlite3_column_int64(stmt, COLUMN_ID), api, stack,
                          event >= 0 ? sqlite3_column_int64(stmt, COLUMN_FIELD + event) : 0);
}

/* Both of a launch and the one that it was passed on to may be recorded: it is one. */
static void pass_on(struct ls_step_streams *all, struct ls_step_stream *stream, uint32_t at) {
    struct ls_step_symbol symbol = all->symbol[stream->call[at].symbol];
    if (!symbol.launch)
        return;
    symbol.launch = false;
    symbol.passed = true;
    stream->call[at].symbol = symbol_number(all, &symbol);
    stream->launches--;
}

static void take_call(sqlite3_stmt *stmt, void *context) {
    struct ls_step_streams *all = context;
    struct ls_step_symbol symbol = {.stack = (uint32_t)sqlite3_column_int64(stmt, COLUMN_STACK),
                                    .api = (uint16_t)sqlite3_column_int(stmt, COLUMN_API)};
    struct ls_step_stream *stream = stream_of(all, sqlite3_column_int64(stmt, COLUMN_THREAD));
    if (!stream || !make_room(stream) || all->out_of_memory) {
        all->out_of_memory = true;
        return;
    }
    int64_t start = sqlite3_column_int64(stmt, COLUMN_START);
    int64_t duration = sqlite3_column_int64(stmt, COLUMN_DURATION);
    if (duration > UINT32_MAX)
        duration = UINT32_MAX;
    if (start + duration > stream->end_ns)
        stream->end_ns = start + duration;
    if (is_own(all, stmt, symbol.api, symbol.stack)) {
        all->out_of_memory |= !keep_own(stream, start);
        return;
    }
    if (symbol.api < LS_API_COUNT)
        describe(&symbol, stmt);
    uint32_t number = symbol_number(all, &symbol), at = stream->count++;
    /* They come in order of completion: a call goes before those that it made itself. */
    uint32_t first = at > NESTED_MAX ? at - NESTED_MAX : 0;
    for (; at > first && stream->call[at - 1].start_ns > start; at--) {
        stream->call[at] = stream->call[at - 1];
        if (symbol.launch)
            pass_on(all, stream, at);
    }
    stream->call[at] = (struct ls_step_call){start, (uint32_t)duration, number};
    stream->launches += symbol.launch;
}

static void take_copy(sqlite3_stmt *stmt, void *context) {
    struct ls_step_streams *all = context;
    int direction = sqlite3_column_int(stmt, 2);
    struct ls_step_symbol symbol = {.stack = (uint32_t)sqlite3_column_int64(stmt, 1),
                                    .api = (uint16_t)sqlite3_column_int(stmt, 0)};
    uint32_t number = symbol_number(all, &symbol);
    if (all->out_of_memory)
        return;
    all->symbol[number].upload |= direction == LS_DIRECTION_H2D;
    all->symbol[number].download |= direction == LS_DIRECTION_D2H;
    all->symbol[number].work |= direction != LS_DIRECTION_H2D && direction != LS_DIRECTION_D2H;
}

static void take_thread(sqlite3_stmt *stmt, void *context) {
    struct ls_step_streams *all = context;
    int64_t thread = sqlite3_column_int64(stmt, 0);
    if (thread >= 0 && thread < all->count)
        all->stream[thread].tid = sqlite3_column_int64(stmt, 1);
}

void ls_step_streams_load(struct ls_step_streams *all, struct ls_trace_db *db) {
    memset(all, 0, sizeof *all);
    ls_step_own_load(&all->own, db);
    all->out_of_memory = all->own.out_of_memory;
    ls_db_each(db,
               "SELECT start_ns, duration_ns, thread, api, COALESCE(stack, 0), id, f0, f1, f2, f3,"
               " f4, f5, f6, f7, f8, f9, f10, f11 FROM call ORDER BY id",
               take_call, all);
    ls_db_each(db, "SELECT DISTINCT api, COALESCE(stack, 0), direction FROM copy WHERE status = 0",
               take_copy, all);
    ls_db_each(db, "SELECT id, tid FROM thread", take_thread, all);
    ls_step_own_free(&all->own);
}

void ls_step_streams_free(struct ls_step_streams *all) {
    for (uint32_t i = 0; i < all->count; i++) {
        free(all->stream[i].call);
        free(all->stream[i].own_ns);
    }
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
