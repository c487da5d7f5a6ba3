/*
 * oom_events.c - the table `oom`, row by row. See oom_events.h.
 *
 * One thread; not async-signal-safe.
 */
#include "oom_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../human.h"
#include "../room.h"
#include "../search.h"
#include "../stack_walk.h"
#include "history_own.h"

#define STACKS_BACK 64 /* ooms before one that are looked at for the same stack */

static int64_t number(sqlite3_stmt *stmt, int column, int64_t most) {
    return sqlite3_column_type(stmt, column) == SQLITE_NULL
               ? LS_OOM_UNKNOWN
               : ls_clamped(sqlite3_column_int64(stmt, column), most);
}

static char *text(sqlite3_stmt *stmt, int column, const char *otherwise) {
    const char *found = (const char *)sqlite3_column_text(stmt, column);
    return found || otherwise ? ls_copied(found ? found : otherwise) : NULL;
}

static const char oom_sql[] =
    "SELECT id, ts_ns, device, requested, asked, allocated, reserved, pending, cached, device_free,"
    " device_total, largest_hole, attempts, first_call, last_call, flushed_calls, flushed_bytes,"
    " flush_ns, waited_ns, COALESCE(stack, 0), COALESCE(thread, 0), COALESCE(source, 1) = 1,"
    " COALESCE(recovered, 0), (SELECT site FROM stack_site WHERE stack_site.id = oom.stack), owner"
    " FROM oom ORDER BY ts_ns, id";

/* A request has no limit: sizes that went below 0 in the program are asked for as well. */
static int64_t request(sqlite3_stmt *stmt, int column) {
    int64_t bytes = sqlite3_column_int64(stmt, column);
    if (sqlite3_column_type(stmt, column) == SQLITE_NULL)
        return LS_OOM_UNKNOWN;
    return bytes < 0 ? INT64_MAX : bytes;
}

static void read_oom(struct ls_oom_event *oom, sqlite3_stmt *stmt) {
    int64_t *const column[] = {
        &oom->id,
        NULL,
        NULL,
        NULL,
        NULL,
        &oom->allocated,
        &oom->reserved,
        &oom->pending,
        &oom->cached,
        &oom->device_free,
        &oom->device_total,
        &oom->largest_hole,
        &oom->attempts,
        &oom->first_call,
        &oom->last_call,
        &oom->flushed_calls,
        &oom->flushed_bytes,
        &oom->flush_ns,
        &oom->waited_ns,
    };
    int next = sizeof column / sizeof column[0];
    for (int i = 0; i < next; i++)
        if (column[i])
            *column[i] = number(stmt, i, LS_LARGEST);
    oom->ts_ns = ls_clamped(sqlite3_column_int64(stmt, 1), LS_LATEST);
    oom->device = sqlite3_column_int(stmt, 2);
    oom->requested = request(stmt, 3);
    oom->asked = request(stmt, 4);
    oom->stack = (uint32_t)sqlite3_column_int64(stmt, next++);
    oom->thread = (uint32_t)sqlite3_column_int64(stmt, next++);
    oom->by_allocator = sqlite3_column_int(stmt, next++) != 0;
    oom->recovered = sqlite3_column_int(stmt, next++) != 0;
    oom->site = text(stmt, next++, "site unknown");
    oom->owner = text(stmt, next, NULL);
}

static bool load_rows(struct ls_oom_events *ooms, sqlite3 *db) {
    sqlite3_stmt *stmt;
    size_t room = 0;
    int rc = sqlite3_prepare_v2(db, oom_sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return false;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        ooms->oom = ls_room(ooms->oom, ooms->count, &room, sizeof *ooms->oom);
        struct ls_oom_event *oom = &ooms->oom[ooms->count++];
        memset(oom, 0, sizeof *oom);
        read_oom(oom, stmt);
        ooms->lost += !oom->recovered;
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE;
}

static const char backward_sql[] = LS_STACK_WALK
    "SELECT kind = 2 FROM walk JOIN stack ON stack.id = node JOIN frame ON frame.id = "
    "stack.frame WHERE kind <> 0 AND file || ':' || COALESCE(line, 0) || ' ' ||"
    " function = (SELECT site FROM stack_site WHERE id = ?) ORDER BY depth LIMIT 1";

/* Whether the frame that the site names is the forward operation's. `stmt`: backward_sql. */
static bool is_backward(sqlite3_stmt *stmt, uint32_t stack) {
    bool backward = false;
    sqlite3_bind_int64(stmt, 1, stack);
    sqlite3_bind_int64(stmt, 2, stack);
    if (sqlite3_step(stmt) == SQLITE_ROW)
        backward = sqlite3_column_int(stmt, 0) != 0;
    sqlite3_reset(stmt);
    return backward;
}

/* A program that fails in a loop does so with few stacks. */
static bool find_backward(struct ls_oom_events *ooms, sqlite3 *db) {
    sqlite3_stmt *stmt;
    if (sqlite3_prepare_v2(db, backward_sql, -1, &stmt, NULL) != SQLITE_OK)
        return false;
    for (size_t i = 0; i < ooms->count; i++) {
        struct ls_oom_event *oom = &ooms->oom[i];
        size_t like = i;
        while (like > 0 && i - like < STACKS_BACK && ooms->oom[like - 1].stack != oom->stack)
            like--;
        if (like > 0 && i - like < STACKS_BACK)
            oom->backward = ooms->oom[like - 1].backward;
        else
            oom->backward = oom->stack && is_backward(stmt, oom->stack);
    }
    sqlite3_finalize(stmt);
    return true;
}

const char *ls_oom_event_at(const struct ls_oom_event *oom) {
    return oom->backward ? "in the backward of" : "at";
}

static int by_oom(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = ((const struct ls_oom_call *)b)->oom;
    return x < y ? -1 : x > y;
}

/* Hands each oom its calls, which are sorted by oom. */
static void share_calls(struct ls_oom_events *ooms, size_t count) {
    for (size_t i = 0; i < ooms->count && count; i++) {
        struct ls_oom_event *oom = &ooms->oom[i];
        const struct ls_oom_call *end = ooms->call + count, *one;
        one = bsearch(&oom->id, ooms->call, count, sizeof *one, by_oom);
        if (!one)
            continue;
        while (one > ooms->call && one[-1].oom == oom->id)
            one--;
        oom->call = one;
        while (one + oom->calls < end && one[oom->calls].oom == oom->id)
            oom->calls++;
    }
}

static bool load_calls(struct ls_oom_events *ooms, sqlite3 *db) {
    sqlite3_stmt *stmt;
    size_t room = 0, count = 0;
    int rc = sqlite3_prepare_v2(db, "SELECT oom, id, kind, bytes FROM oom_call ORDER BY oom, id",
                                -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return false;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        ooms->call = ls_room(ooms->call, count, &room, sizeof *ooms->call);
        ooms->call[count++] =
            (struct ls_oom_call){sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                                 sqlite3_column_int(stmt, 2), request(stmt, 3)};
    }
    sqlite3_finalize(stmt);
    share_calls(ooms, count);
    return rc == SQLITE_DONE;
}

/* From one event's first call on; `reach`: the last call of that one and all before it, for threads
 * may lack memory side by side. */
struct ls_oom_stretch {
    int64_t first, reach;
};

static int by_first(const void *a, const void *b) {
    const struct ls_oom_stretch *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

static void make_stretches(struct ls_oom_events *ooms) {
    struct ls_oom_stretch *stretch = ls_new(ooms->count, sizeof *stretch);
    size_t count = 0;
    for (size_t i = 0; i < ooms->count; i++)
        if (ooms->oom[i].first_call != LS_OOM_UNKNOWN)
            stretch[count++] =
                (struct ls_oom_stretch){ooms->oom[i].first_call, ooms->oom[i].last_call};
    if (count)
        qsort(stretch, count, sizeof *stretch, by_first);
    for (size_t i = 1; i < count; i++)
        if (stretch[i].reach < stretch[i - 1].reach)
            stretch[i].reach = stretch[i - 1].reach;
    ooms->stretch = stretch;
    ooms->stretches = count;
}

bool ls_oom_events_hold(const struct ls_oom_events *ooms, int64_t call) {
    size_t begun = LS_UP_TO(ooms->stretch, ooms->stretches, first, call);
    return begun > 0 && call <= ooms->stretch[begun - 1].reach;
}

bool ls_oom_events_load(struct ls_oom_events *ooms, sqlite3 *db) {
    *ooms = (struct ls_oom_events){0};
    if (load_rows(ooms, db) && find_backward(ooms, db) && load_calls(ooms, db)) {
        make_stretches(ooms);
        return true;
    }
    ls_oom_events_free(ooms);
    return false;
}

void ls_oom_events_free(struct ls_oom_events *ooms) {
    for (size_t i = 0; i < ooms->count; i++) {
        free((char *)ooms->oom[i].site);
        free((char *)ooms->oom[i].owner);
    }
    free(ooms->oom);
    free(ooms->call);
    free(ooms->stretch);
    *ooms = (struct ls_oom_events){0};
}

const struct ls_oom_event *ls_oom_events_first_lost(const struct ls_oom_events *ooms) {
    for (size_t i = 0; i < ooms->count; i++)
        if (!ooms->oom[i].recovered)
            return &ooms->oom[i];
    return NULL;
}

const char *ls_oom_events_words(const struct ls_oom_events *ooms, char *text, size_t size) {
    size_t stalls = ooms->count - ooms->lost;
    const char *error = ls_plural((int64_t)ooms->lost, "error", "errors");
    const char *stall = ls_plural((int64_t)stalls, "stall", "stalls");
    if (ooms->lost && stalls)
        snprintf(text, size, "%zu %s, %zu %s", ooms->lost, error, stalls, stall);
    else if (ooms->count)
        snprintf(text, size, "%zu %s", ooms->count, stalls ? stall : error);
    else
        snprintf(text, size, "none");
    return text;
}

static void fill(int64_t *column, uint64_t value) {
    if (*column < 0)
        *column = (int64_t)value;
}

void ls_oom_event_complete(struct ls_oom_event *oom, const struct ls_history *history,
                           const struct ls_state *state) {
    fill(&oom->asked, (uint64_t)oom->requested);
    fill(&oom->allocated, state->live);
    if (history->framework) {
        fill(&oom->reserved, state->reserved);
        fill(&oom->pending, state->pending);
        fill(&oom->largest_hole, state->hole);
        int64_t cached = oom->reserved - oom->allocated - oom->pending;
        fill(&oom->cached, cached > 0 ? (uint64_t)cached : 0);
    }
    if (oom->device_total < 0 && history->capacity > 0)
        oom->device_total = history->capacity;
}

int64_t ls_oom_event_gap(const struct ls_oom_event *oom) {
    return oom->reserved < 0 || oom->allocated < 0 ? LS_OOM_UNKNOWN
                                                   : oom->reserved - oom->allocated;
}
