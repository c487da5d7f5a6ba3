/*
 * step_own.c - see step_own.h. One thread; not async-signal-safe.
 */
#include "step_own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/roles.h"
#include "ingest_block.h"
#include "live.h"
#include "search.h"

#define IDS_MAX (INT64_C(1) << 33) /* a higher number is damage */

static void set(struct ls_step_own *own, struct ls_step_bits *bits, int64_t number) {
    if (number < 0 || number >= IDS_MAX)
        return;
    if (number >= bits->count) {
        int64_t count = (number + number / 2 + 4096) & ~INT64_C(7);
        uint8_t *more = realloc(bits->bit, (size_t)(count / 8));
        if (!more) {
            own->out_of_memory = true;
            return;
        }
        memset(more + bits->count / 8, 0, (size_t)((count - bits->count) / 8));
        bits->bit = more;
        bits->count = count;
    }
    bits->bit[number / 8] |= (uint8_t)(1u << number % 8);
}

static bool has(const struct ls_step_bits *bits, int64_t number) {
    return number >= 0 && number < bits->count && bits->bit[number / 8] >> number % 8 & 1;
}

static void take_call(sqlite3_stmt *stmt, void *context) {
    struct ls_step_own *own = context;
    for (int i = 0; i < sqlite3_column_count(stmt); i++)
        if (sqlite3_column_type(stmt, i) != SQLITE_NULL)
            set(own, &own->calls, sqlite3_column_int64(stmt, i));
}

static void take_stack(sqlite3_stmt *stmt, void *context) {
    struct ls_step_own *own = context;
    set(own, &own->stacks, sqlite3_column_int64(stmt, 0));
}

static void take_event(sqlite3_stmt *stmt, void *context) {
    struct ls_step_own *own = context;
    if (own->events == own->room) {
        size_t room = own->room ? 2 * own->room : 64;
        int64_t *more = realloc(own->event, room * sizeof *more);
        if (!more) {
            own->out_of_memory = true;
            return;
        }
        own->event = more;
        own->room = room;
    }
    own->event[own->events++] = sqlite3_column_int64(stmt, 0);
}

void ls_step_own_load(struct ls_step_own *own, struct ls_trace_db *db) {
    char sql[200];
    memset(own, 0, sizeof *own);
    snprintf(sql, sizeof sql,
             "SELECT start_call, CASE end_reason WHEN 0 THEN end_call END FROM allocation"
             " WHERE holder IN (%d, %d) AND kind IN (%d, %d)",
             LS_HOLDER_PYTORCH, LS_HOLDER_SEGMENT, LS_MEMORY_DEVICE, LS_MEMORY_VMM);
    ls_db_each(db, sql, take_call, own);
    ls_db_each(db, "SELECT id FROM block_wait", take_call, own);
    ls_db_each(db, "SELECT DISTINCT event FROM block_wait ORDER BY event", take_event, own);
    ls_db_each(db,
               "SELECT s.id FROM stack_site AS s JOIN stack AS n ON n.id = s.stack"
               " JOIN frame AS f ON f.id = n.frame JOIN module AS m ON m.id = f.module"
               " WHERE m.path GLOB '" LS_PYTORCH_ALLOCATOR "'",
               take_stack, own);
}

void ls_step_own_free(struct ls_step_own *own) {
    free(own->calls.bit);
    free(own->stacks.bit);
    free(own->event);
    memset(own, 0, sizeof *own);
}

/* Its reports of blocks are the program's requests, one each, and so are those that it passes on to
 * cudaMallocAsync. */
static bool is_memory(enum ls_class cls) {
    return cls == LS_CLASS_DEVICE_ALLOC || cls == LS_CLASS_VMM || cls == LS_CLASS_VMM_MAP ||
           cls == LS_CLASS_VMM_UNMAP;
}

bool ls_step_is_own(const struct ls_step_own *own, int64_t call, unsigned api, int64_t stack,
                    int64_t event) {
    if (api >= LS_API_COUNT)
        return false;
    enum ls_class cls = ls_api_info[api].cls;
    if (ls_roles[api].is_query || has(&own->calls, call))
        return true;
    if (stack && !has(&own->stacks, stack))
        return false;
    if (is_memory(cls))
        return stack != 0;
    size_t at = LS_NUMBERS_UP_TO(own->event, own->events, event);
    return (cls == LS_CLASS_EVENT || cls == LS_CLASS_SYNC) && ls_roles[api].event >= 0 && at > 0 &&
           own->event[at - 1] == event;
}
