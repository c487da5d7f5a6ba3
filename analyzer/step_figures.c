/*
 * step_figures.c - what happened in each step: the rows of `step`. See step_stream.h.
 * One thread; not async-signal-safe.
 */
#include <stdlib.h>
#include <string.h>

#include "begun.h"
#include "classify.h"
#include "layoutspy/table.h"
#include "live.h"
#include "step_stream.h"

struct figures {
    int64_t calls, launches, copies, h2d, d2h, d2d, other, blocked;
    int64_t allocations, allocated, blocks, block_bytes;
    int64_t peak_allocated; /* -1: nothing said */
    int64_t peak_memory;
};

struct change {
    int64_t ns, bytes;
};

struct counting {
    const struct ls_step_list *list;
    struct figures *figures;
    struct change *change; /* of device memory */
    uint32_t changes, room;
    bool out_of_memory;
};

/* The figures of the step that holds the instant, NULL: outside of all. */
static struct figures *at(const struct counting *c, int64_t ns) {
    size_t n = LS_BEGUN(c->list->step, c->list->count, start_ns, ns);
    return n && ns < c->list->step[n - 1].end_ns ? &c->figures[n - 1] : NULL;
}

static void take_calls(struct counting *c, const struct ls_step_streams *all) {
    for (uint32_t i = 0; i < all->count; i++) {
        for (uint32_t n = 0; n < all->stream[i].count; n++) {
            const struct ls_step_call *call = &all->stream[i].call[n];
            struct figures *f = at(c, call->start_ns);
            if (!f)
                continue;
            f->calls++;
            f->launches += all->symbol[call->symbol].launch;
        }
        for (uint32_t n = 0; n < all->stream[i].owns; n++) {
            struct figures *f = at(c, all->stream[i].own_ns[n]);
            if (f)
                f->calls++;
        }
    }
}

static void take_copy(sqlite3_stmt *stmt, void *context) {
    struct figures *f = at(context, sqlite3_column_int64(stmt, 0));
    int64_t bytes = sqlite3_column_int64(stmt, 2);
    if (!f)
        return;
    f->copies++;
    f->blocked += sqlite3_column_int64(stmt, 3);
    switch (sqlite3_column_int(stmt, 1)) {
    case LS_DIRECTION_H2D:
        f->h2d += bytes;
        break;
    case LS_DIRECTION_D2H:
        f->d2h += bytes;
        break;
    case LS_DIRECTION_D2D:
        f->d2d += bytes;
        break;
    default:
        f->other += bytes;
    }
}

static void change(struct counting *c, int64_t ns, int64_t bytes) {
    if (c->changes == c->room) {
        uint32_t room = c->room ? 2 * c->room : 1024;
        struct change *more = realloc(c->change, room * sizeof *more);
        if (!more) {
            c->out_of_memory = true;
            return;
        }
        c->change = more;
        c->room = room;
    }
    c->change[c->changes++] = (struct change){ns, bytes};
}

static void take_allocation(sqlite3_stmt *stmt, void *context) {
    struct counting *c = context;
    int64_t start = sqlite3_column_int64(stmt, 0), size = sqlite3_column_int64(stmt, 3);
    struct figures *f = at(c, start);
    if (f) {
        f->allocations++;
        f->allocated += size;
    }
    if (!ls_on_device((enum ls_memory)sqlite3_column_int(stmt, 2)))
        return;
    change(c, start, size);
    if (sqlite3_column_type(stmt, 1) != SQLITE_NULL)
        change(c, sqlite3_column_int64(stmt, 1), -size);
}

static void take_block(sqlite3_stmt *stmt, void *context) {
    struct figures *f = at(context, sqlite3_column_int64(stmt, 0));
    if (!f)
        return;
    f->blocks++;
    f->block_bytes += sqlite3_column_int64(stmt, 1);
}

static void take_memory(sqlite3_stmt *stmt, void *context) {
    struct figures *f = at(context, sqlite3_column_int64(stmt, 0));
    int64_t allocated = sqlite3_column_int64(stmt, 1);
    if (f && allocated > f->peak_allocated)
        f->peak_allocated = allocated;
}

/* Frees before allocations of the same instant. */
static int by_time(const void *a, const void *b) {
    const struct change *x = a, *y = b;
    if (x->ns != y->ns)
        return x->ns < y->ns ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static void find_peaks(struct counting *c) {
    int64_t held = 0;
    uint32_t next = 0;
    if (c->changes)
        qsort(c->change, c->changes, sizeof *c->change, by_time);
    for (uint32_t i = 0; i < c->list->count; i++) {
        const struct ls_step *step = &c->list->step[i];
        for (; next < c->changes && c->change[next].ns < step->start_ns; next++)
            held += c->change[next].bytes;
        c->figures[i].peak_memory = held;
        for (; next < c->changes && c->change[next].ns < step->end_ns; next++) {
            held += c->change[next].bytes;
            if (held > c->figures[i].peak_memory)
                c->figures[i].peak_memory = held;
        }
    }
}

void ls_steps_put(const struct ls_step_streams *all, const struct ls_step_list *list,
                  const char *source, struct ls_trace_db *db) {
    struct counting c = {.list = list, .figures = calloc(list->count + 1, sizeof *c.figures)};
    if (!c.figures || !list->count) {
        free(c.figures);
        return;
    }
    for (uint32_t i = 0; i < list->count; i++)
        c.figures[i].peak_allocated = -1;
    take_calls(&c, all);
    ls_db_each(db, "SELECT start_ns, direction, bytes, blocked_ns FROM copy WHERE status = 0",
               take_copy, &c);
    ls_db_each(db, "SELECT start_ns, end_ns, kind, size FROM allocation", take_allocation, &c);
    ls_db_each(db, "SELECT start_ns, size FROM block", take_block, &c);
    ls_db_each(db, "SELECT ts_ns, allocated FROM memory WHERE allocated IS NOT NULL", take_memory,
               &c);
    find_peaks(&c);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct ls_step *step = &list->step[i];
        const struct figures *f = &c.figures[i];
        ls_db_put(db, LS_PUT_STEP,
                  f->peak_allocated >= 0 ? "iisziiiiiiiiiiiiiiii" : "iisziiiiiiiiiiiiiini",
                  (int64_t)i + 1, (int64_t)step->loop, source, step->thread, step->start_ns,
                  step->end_ns, f->calls, f->launches, f->copies, f->h2d, f->d2h, f->d2d, f->other,
                  f->blocked, f->allocations, f->allocated, f->blocks, f->block_bytes,
                  f->peak_allocated, f->peak_memory);
    }
    free(c.figures);
    free(c.change);
}
