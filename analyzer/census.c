/*
 * census.c - see census.h. Main thread only; not for signal handlers.
 */
#include "census.h"

#include <stdlib.h>
#include <string.h>

#include "query.h"
#include "room.h"
#include "trace.h"

static char *own(struct ls_census *census, const char *text) {
    char *copy = ls_copied(text);
    census->owned =
        ls_room(census->owned, census->owned_count, &census->owned_room, sizeof *census->owned);
    census->owned[census->owned_count++] = copy;
    return copy;
}

static const char *column(struct ls_census *census, sqlite3_stmt *stmt, int c) {
    const char *text = (const char *)sqlite3_column_text(stmt, c);
    return text ? own(census, text) : NULL;
}

/* The few texts that thousands of tensors share are kept once, where they follow each other. */
static const char *shared(struct ls_census *census, sqlite3_stmt *stmt, int c, const char *last) {
    const char *text = (const char *)sqlite3_column_text(stmt, c);
    return last && text && strcmp(last, text) == 0 ? last : own(census, text ? text : "");
}

/* Runs `sql`, with the census's number as its parameters, and hands out rows. */
static bool each(struct ls_census *census, sqlite3 *db, const char *sql,
                 void (*row)(struct ls_census *census, sqlite3_stmt *stmt)) {
    sqlite3_stmt *stmt;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return false;
    sqlite3_bind_int64(stmt, 1, census->id);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        row(census, stmt);
    sqlite3_finalize(stmt);
    return rc == SQLITE_DONE;
}

static void read_head(struct ls_census *census, sqlite3_stmt *stmt) {
    census->ts_ns = sqlite3_column_int64(stmt, 0);
    census->end_ns =
        sqlite3_column_type(stmt, 1) == SQLITE_NULL ? -1 : sqlite3_column_int64(stmt, 1);
    census->reason = (enum ls_census_reason)sqlite3_column_int(stmt, 2);
    census->oom = sqlite3_column_int64(stmt, 3);
    census->state = (enum ls_census_state)sqlite3_column_int(stmt, 4);
    census->objects = sqlite3_column_int64(stmt, 5);
    census->tensors = sqlite3_column_int64(stmt, 6);
    census->nodes = sqlite3_column_int64(stmt, 7);
    census->detail = column(census, stmt, 8);
}

static void read_storage(struct ls_census *census, sqlite3_stmt *stmt) {
    census->storage =
        ls_room(census->storage, census->storages, &census->storage_room, sizeof *census->storage);
    struct ls_counted_storage *s = &census->storage[census->storages++];
    *s = (struct ls_counted_storage){
        .id = sqlite3_column_int64(stmt, 0),
        .device = sqlite3_column_int(stmt, 1),
        .address = (uint64_t)sqlite3_column_int64(stmt, 2),
        .bytes = (uint64_t)sqlite3_column_int64(stmt, 3),
        .held_by_graph = (uint64_t)sqlite3_column_int64(stmt, 4),
        .site = "site unknown",
        .start_ns = -1,
    };
    census->bytes += s->bytes;
}

/* Storages are in order of their numbers while their tensors are read; NULL: damage. */
static struct ls_counted_storage *storage_of(struct ls_census *census, int64_t id) {
    size_t low = 0, high = census->storages;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (census->storage[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < census->storages && census->storage[low].id == id ? &census->storage[low] : NULL;
}

static void read_tensor(struct ls_census *census, struct ls_counted_tensor *t,
                        const struct ls_counted_tensor *last, sqlite3_stmt *stmt) {
    *t = (struct ls_counted_tensor){
        .id = sqlite3_column_int64(stmt, 0),
        .object = (uint64_t)sqlite3_column_int64(stmt, 2),
        .bytes = (uint64_t)sqlite3_column_int64(stmt, 3),
        .dtype = shared(census, stmt, 4, last ? last->dtype : NULL),
        .class = shared(census, stmt, 5, last ? last->class : NULL),
        .dims = shared(census, stmt, 6, last ? last->dims : NULL),
        .strides = shared(census, stmt, 7, last ? last->strides : NULL),
        .contiguous = sqlite3_column_int(stmt, 8) != 0,
        .requires_grad = sqlite3_column_int(stmt, 9) != 0,
        .view = sqlite3_column_int(stmt, 10) != 0,
        .held = sqlite3_column_int(stmt, 11),
        .paths = sqlite3_column_int64(stmt, 12),
        .offset = (uint64_t)sqlite3_column_int64(stmt, 13),
    };
}

static const char tensors_sql[] =
    "SELECT id, storage, object, bytes, dtype, class, dims, strides, contiguous, requires_grad,"
    " view, held, paths, offset FROM census_tensor WHERE census = ? ORDER BY storage, id";

static bool read_tensors(struct ls_census *census, sqlite3 *db) {
    sqlite3_stmt *stmt;
    struct ls_counted_tensor *last = NULL;
    int rc = sqlite3_prepare_v2(db, tensors_sql, -1, &stmt, NULL);
    size_t count = 0, room_for = 0;
    if (rc != SQLITE_OK)
        return false;
    sqlite3_bind_int64(stmt, 1, census->id);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct ls_counted_storage *s = storage_of(census, sqlite3_column_int64(stmt, 1));
        if (!s)
            continue;
        census->all_tensors = ls_room(census->all_tensors, count, &room_for, sizeof *last);
        struct ls_counted_tensor *t = &census->all_tensors[count++];
        read_tensor(census, t, count > 1 ? t - 1 : NULL, stmt);
        s->tensors++;
        s->views += t->view;
        s->held |= t->held;
    }
    sqlite3_finalize(stmt);
    last = census->all_tensors;
    for (size_t i = 0; i < census->storages; last += census->storage[i++].tensors)
        census->storage[i].tensor = last;
    return rc == SQLITE_DONE;
}

static int by_number(const void *a, const void *b) {
    int64_t x = (*(struct ls_counted_tensor *const *)a)->id;
    int64_t y = (*(struct ls_counted_tensor *const *)b)->id;
    return x < y ? -1 : x > y;
}

/* All tensors by number, as the paths come; NULL-ended. */
static struct ls_counted_tensor **numbered(struct ls_census *census) {
    size_t count = 0, at = 0;
    for (size_t i = 0; i < census->storages; i++)
        count += census->storage[i].tensors;
    struct ls_counted_tensor **tensor = ls_new(count + 1, sizeof *tensor);
    for (; at < count; at++)
        tensor[at] = &census->all_tensors[at];
    if (count)
        qsort(tensor, count, sizeof *tensor, by_number);
    return tensor;
}

static bool read_paths(struct ls_census *census, sqlite3 *db) {
    sqlite3_stmt *stmt;
    size_t count = 0, room_for = 0;
    struct ls_counted_tensor **tensor = numbered(census), **next = tensor;
    int rc = sqlite3_prepare_v2(
        db, "SELECT tensor, path FROM census_path WHERE census = ? ORDER BY tensor, rowid", -1,
        &stmt, NULL);
    sqlite3_bind_int64(stmt, 1, census->id);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        if ((rc = sqlite3_step(stmt)) != SQLITE_ROW)
            break;
        int64_t id = sqlite3_column_int64(stmt, 0);
        while (*next && (*next)->id < id)
            next++;
        if (!*next || (*next)->id != id)
            continue;
        census->all_paths = ls_room(census->all_paths, count, &room_for, sizeof *census->all_paths);
        const char *path = (const char *)sqlite3_column_text(stmt, 1);
        census->all_paths[count++] = own(census, path ? path : "");
        (*next)->path_count++;
    }
    sqlite3_finalize(stmt);
    char **path = census->all_paths;
    for (next = tensor; *next; path += (*next++)->path_count)
        (*next)->path = path;
    free(tensor);
    return rc == SQLITE_DONE;
}

/* ---- where their memory was allocated ---- */

struct place {
    int64_t device;
    uint64_t address, size;
    int64_t stack, start_ns;
};

static int by_place(const void *a, const void *b) {
    const struct place *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* Blocks that were live then, and memory of the runtime: the former lie in the latter. */
static const char *const places_sql[] = {
    "SELECT device, address, size, COALESCE(stack, 0), start_ns FROM block"
    " WHERE start_ns <= ?1 AND (end_ns IS NULL OR end_ns > ?1)",
    "SELECT device, address, size, COALESCE(stack, 0), start_ns FROM allocation"
    " WHERE start_ns <= ?1 AND (end_ns IS NULL OR end_ns > ?1) AND holder IS NOT 3",
};

static bool locate(struct ls_census *census, sqlite3 *db, const char *sql) {
    sqlite3_stmt *stmt;
    struct place *place = NULL;
    size_t count = 0, room_for = 0;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);
    if (rc != SQLITE_OK)
        return false;
    sqlite3_bind_int64(stmt, 1, census->ts_ns);
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        place = ls_room(place, count, &room_for, sizeof *place);
        place[count++] =
            (struct place){sqlite3_column_int64(stmt, 0), (uint64_t)sqlite3_column_int64(stmt, 1),
                           (uint64_t)sqlite3_column_int64(stmt, 2), sqlite3_column_int64(stmt, 3),
                           sqlite3_column_int64(stmt, 4)};
    }
    sqlite3_finalize(stmt);
    if (count)
        qsort(place, count, sizeof *place, by_place);
    for (size_t i = 0; count && i < census->storages; i++) {
        struct ls_counted_storage *s = &census->storage[i];
        struct place key = {.device = s->device, .address = s->address};
        size_t low = 0, high = count; /* the last one that begins at or before it */
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (by_place(&place[middle], &key) <= 0)
                low = middle + 1;
            else
                high = middle;
        }
        const struct place *p = low ? &place[low - 1] : NULL;
        if (s->start_ns < 0 && p && p->device == s->device && s->address - p->address < p->size) {
            s->stack = p->stack;
            s->start_ns = p->start_ns;
        }
    }
    free(place);
    return rc == SQLITE_DONE;
}

static bool name_sites(struct ls_census *census, sqlite3 *db) {
    sqlite3_stmt *stmt;
    const char *last = NULL;
    int rc = sqlite3_prepare_v2(db, "SELECT site FROM stack_site WHERE id = ?", -1, &stmt, NULL);
    for (size_t i = 0; rc == SQLITE_OK && i < census->storages; i++) {
        struct ls_counted_storage *s = &census->storage[i];
        if (!s->stack)
            continue;
        sqlite3_bind_int64(stmt, 1, s->stack);
        if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_type(stmt, 0) != SQLITE_NULL)
            s->site = last = shared(census, stmt, 0, last);
        rc = sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    return rc == SQLITE_OK;
}

static int by_size(const void *a, const void *b) {
    const struct ls_counted_storage *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

bool ls_census_load(struct ls_census *census, sqlite3 *db, int64_t id) {
    *census = (struct ls_census){.id = id};
    bool good = each(census, db,
                     "SELECT ts_ns, end_ns, reason, oom, state, objects, tensors, nodes, detail"
                     " FROM census WHERE id = ?",
                     read_head);
    good = good && census->state &&
           each(census, db,
                "SELECT id, device, address, bytes, held_by_graph FROM census_storage"
                " WHERE census = ? ORDER BY id",
                read_storage) &&
           read_tensors(census, db) && read_paths(census, db);
    for (size_t i = 0; good && i < sizeof places_sql / sizeof places_sql[0]; i++)
        good = locate(census, db, places_sql[i]);
    good = good && name_sites(census, db);
    if (good && census->storages)
        qsort(census->storage, census->storages, sizeof *census->storage, by_size);
    if (!good)
        ls_census_free(census);
    return good;
}

void ls_census_free(struct ls_census *census) {
    for (size_t i = 0; i < census->owned_count; i++)
        free(census->owned[i]);
    free(census->owned);
    free(census->storage);
    free(census->all_tensors);
    free(census->all_paths);
    *census = (struct ls_census){0};
}

int64_t ls_census_last(sqlite3 *db) {
    return ls_query_int(db, 0, "SELECT id FROM census ORDER BY state IN (2, 3) DESC, id DESC");
}

const char *ls_census_path(const struct ls_counted_storage *storage) {
    const char *any = NULL;
    for (size_t i = 0; i < storage->tensors; i++) {
        const struct ls_counted_tensor *t = &storage->tensor[i];
        if (t->path_count && t->held & LS_HELD_GLOBAL)
            return t->path[0];
        if (t->path_count && !any)
            any = t->path[0];
    }
    return any;
}

char *ls_census_pattern(const char *path) {
    char *pattern = ls_copied(path), *out = pattern;
    for (char before = 0; *path; before = *path++) {
        size_t digits = strspn(path, "0123456789");
        char after = path[digits];
        if (digits && ((before == '[' && after == ']') ||
                       (before == '.' && (after == '.' || after == '[' || after == 0)))) {
            *out++ = '*';
            path += digits - 1;
        } else {
            *out++ = *path;
        }
    }
    *out = 0;
    return pattern;
}

const char *ls_census_reason_text(enum ls_census_reason reason) {
    switch (reason) {
    case LS_CENSUS_OOM:
        return "after an out-of-memory error";
    case LS_CENSUS_EXIT:
        return "at exit";
    default:
        return "asked for";
    }
}
