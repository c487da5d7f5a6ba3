/*
 * oom_census.c - reads the census after an oom. See oom_census.h.
 *
 * Main thread only; not for signal handlers.
 */
#include "oom_census.h"

#include <stdlib.h>

#include "../query.h"
#include "../room.h"

/* census_tensor.held */
enum { BY_MODULE = 1, BY_FRAME = 2, BY_EXCEPTION = 4, BY_GRAPH = 8 };

struct storage {
    uint64_t address;
    int held; /* bits of all its tensors */
};

struct ls_oom_census {
    struct storage *storage; /* by address */
    size_t count;
    bool graph; /* of a tensor that an exception holds */
};

static void read_storages(sqlite3 *db, int64_t id, int device, struct ls_oom_census *census) {
    sqlite3_stmt *stmt;
    size_t room = 0;
    if (sqlite3_prepare_v2(db,
                           "SELECT s.address, MAX(t.held & 1) + MAX(t.held & 2) + MAX(t.held & 4) +"
                           " MAX(t.held & 8), s.held_by_graph FROM census_storage AS s JOIN"
                           " census_tensor AS t ON t.census = s.census AND t.storage = s.id"
                           " WHERE s.census = ? AND s.device = ? GROUP BY s.id ORDER BY s.address",
                           -1, &stmt, NULL) != SQLITE_OK)
        return;
    sqlite3_bind_int64(stmt, 1, id);
    sqlite3_bind_int(stmt, 2, device);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        census->storage = ls_room(census->storage, census->count, &room, sizeof *census->storage);
        int held = sqlite3_column_int(stmt, 1);
        census->storage[census->count++] =
            (struct storage){(uint64_t)sqlite3_column_int64(stmt, 0), held};
        if (held & BY_EXCEPTION && sqlite3_column_int64(stmt, 2) > 0)
            census->graph = true;
    }
    sqlite3_finalize(stmt);
}

struct ls_oom_census *ls_oom_census_load(sqlite3 *db, const struct ls_oom *oom) {
    char *sql = sqlite3_mprintf(
        "SELECT id FROM census WHERE oom = %lld AND state IN (2, 3) ORDER BY id LIMIT 1",
        (long long)oom->id);
    int64_t id = sql ? ls_query_int(db, 0, sql) : 0;
    sqlite3_free(sql);
    if (id == 0)
        return NULL;
    struct ls_oom_census *census = calloc(1, sizeof *census);
    if (!census)
        ls_detect_no_memory();
    read_storages(db, id, oom->device, census);
    return census;
}

void ls_oom_census_free(struct ls_oom_census *census) {
    if (census)
        free(census->storage);
    free(census);
}

static int by_address(const void *key, const void *element) {
    uint64_t address = *(const uint64_t *)key;
    const struct storage *s = element;
    return address < s->address ? -1 : address > s->address;
}

enum ls_oom_held ls_oom_census_held(const struct ls_oom_census *census, uint64_t address) {
    const struct storage *s =
        census && census->count
            ? bsearch(&address, census->storage, census->count, sizeof *census->storage, by_address)
            : NULL;
    if (!s)
        return LS_OOM_HELD_UNKNOWN;
    if (s->held & (BY_MODULE | BY_FRAME))
        return LS_OOM_HELD_OTHERWISE;
    if (s->held & BY_EXCEPTION || (s->held & BY_GRAPH && census->graph))
        return LS_OOM_HELD_EXCEPTION;
    return LS_OOM_HELD_UNKNOWN;
}
