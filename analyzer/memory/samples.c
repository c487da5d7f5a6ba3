/*
 * samples.c - see samples.h. One thread; not async-signal-safe.
 */
#include "samples.h"

#include <stdlib.h>

#include "../clamp.h"
#include "../query.h"
#include "../room.h"

#define NVML_ENOUGH 16 /* samples, with which nobody else is asked */

size_t ls_samples_devices(sqlite3 *db, int *device, size_t room) {
    sqlite3_stmt *stmt;
    size_t count = 0;
    if (sqlite3_prepare_v2(db, "SELECT DISTINCT device FROM device_memory ORDER BY device", -1,
                           &stmt, NULL) != SQLITE_OK)
        return 0;
    while (count < room && sqlite3_step(stmt) == SQLITE_ROW)
        device[count++] = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return count;
}

static int64_t bytes_or_unknown(sqlite3_stmt *stmt, int column) {
    return sqlite3_column_type(stmt, column) == SQLITE_NULL
               ? -1
               : ls_clamped(sqlite3_column_int64(stmt, column), LS_LARGEST);
}

/* After its last call a program may be on its way out, and what it held is gone piece by piece;
 * after a reset at its end, all at once. Neither says anything of the run. */
static void trim(struct ls_samples *samples, int64_t end_ns) {
    while (samples->count > 1 && (samples->use[samples->count - 1].ts_ns > end_ns ||
                                  samples->use[samples->count - 1].own == 0))
        samples->count--;
}

static void load(struct ls_samples *samples, sqlite3 *db, bool nvml) {
    sqlite3_stmt *stmt;
    size_t room = 0;
    samples->nvml = nvml;
    samples->alone = nvml;
    if (sqlite3_prepare_v2(db,
                           "SELECT ts_ns, used, total, tracked, context, unknown, own_process,"
                           " other_processes, uncertain FROM device_memory WHERE device = ?"
                           " AND source = ? ORDER BY ts_ns, id",
                           -1, &stmt, NULL) != SQLITE_OK)
        return;
    sqlite3_bind_int(stmt, 1, samples->device);
    sqlite3_bind_text(stmt, 2, nvml ? "nvml" : "program", -1, SQLITE_STATIC);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        samples->use = ls_room(samples->use, samples->count, &room, sizeof *samples->use);
        struct ls_use *u = &samples->use[samples->count++];
        u->ts_ns = ls_clamped(sqlite3_column_int64(stmt, 0), LS_LATEST);
        int64_t *const bytes[] = {&u->used,    &u->total, &u->tracked, &u->context,
                                  &u->unknown, &u->own,   &u->others,  &u->uncertain};
        for (int i = 0; i < 8; i++)
            *bytes[i] = bytes_or_unknown(stmt, i + 1);
        samples->alone &= u->own >= 0;
    }
    sqlite3_finalize(stmt);
    trim(samples, ls_query_meta_int(db, INT64_MAX, "end_ns"));
    for (size_t i = 0; i < samples->count; i++) {
        struct ls_use *u = &samples->use[i];
        u->beside = samples->alone ? u->own - u->tracked : u->used - u->tracked;
    }
}

void ls_samples_load(struct ls_samples *samples, sqlite3 *db, int device) {
    struct ls_samples other = {.device = device};
    *samples = (struct ls_samples){.device = device};
    load(samples, db, true);
    if (samples->count >= NVML_ENOUGH)
        return;
    load(&other, db, false);
    if (other.count > samples->count) {
        struct ls_samples fewer = *samples;
        *samples = other;
        other = fewer;
    }
    ls_samples_free(&other);
}

void ls_samples_free(struct ls_samples *samples) {
    free(samples->use);
    samples->use = NULL;
    samples->count = 0;
}

const struct ls_use *ls_samples_near(const struct ls_samples *samples, int64_t ts_ns,
                                     int64_t within_ns) {
    const struct ls_use *nearest = NULL;
    int64_t least = within_ns;
    for (size_t i = 0; i < samples->count; i++) {
        int64_t away = samples->use[i].ts_ns - ts_ns;
        away = away < 0 ? -away : away;
        if (away <= least) {
            nearest = &samples->use[i];
            least = away;
        }
    }
    return nearest;
}

const struct ls_use *ls_samples_fullest(const struct ls_samples *samples) {
    const struct ls_use *fullest = NULL;
    for (size_t i = 0; i < samples->count; i++)
        if (!fullest || samples->use[i].used > fullest->used)
            fullest = &samples->use[i];
    return fullest;
}
