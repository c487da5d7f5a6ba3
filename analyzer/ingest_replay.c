/*
 * ingest_replay.c - the last calls of the trace, read again: what a collector knew of the program's
 * course and no row says. See ingest_block.h. One thread; not async-signal-safe.
 */
#include <stdio.h>

#include "ingest_internal.h"
#include "layoutspy/table.h"

struct replay {
    struct ls_ingest *ingest;
    void (*take)(struct ls_ingest *ingest, const struct ls_timed_call *call);
};

static void read_call(sqlite3_stmt *stmt, void *context) {
    const struct replay *replay = context;
    struct {
        struct ls_rec_call record;
        uint64_t field[LS_FIELD_MAX + 1];
    } made = {0};
    int64_t api = sqlite3_column_int64(stmt, 2);
    if (api < 1 || api >= LS_API_COUNT)
        return;
    made.record.head.api = (uint16_t)api;
    made.record.head.flags = (uint8_t)sqlite3_column_int(stmt, 4);
    made.record.head.device = (uint8_t)sqlite3_column_int(stmt, 5);
    made.record.status = sqlite3_column_int(stmt, 3);
    made.record.stack = (uint32_t)sqlite3_column_int64(stmt, 6);
    for (int i = 0; i < LS_FIELD_MAX; i++)
        made.field[i] = (uint64_t)sqlite3_column_int64(stmt, 9 + i);
    if (sqlite3_column_type(stmt, 9 + LS_FIELD_MAX) != SQLITE_NULL) {
        made.record.head.flags |= LS_CALL_CORRELATED;
        made.field[ls_api_info[api].field_count] =
            LS_CORRELATION(sqlite3_column_int64(stmt, 9 + LS_FIELD_MAX),
                           sqlite3_column_int64(stmt, 10 + LS_FIELD_MAX));
    }
    struct ls_timed_call call = {&made.record, (uint32_t)sqlite3_column_int64(stmt, 1),
                                 sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 7),
                                 sqlite3_column_int64(stmt, 8)};
    replay->take(replay->ingest, &call);
}

void ls_replay(struct ls_ingest *ingest, int64_t count,
               void (*take)(struct ls_ingest *ingest, const struct ls_timed_call *call)) {
    struct replay replay = {ingest, take};
    char sql[320];
    snprintf(
        sql, sizeof sql,
        "SELECT id,thread,api,status,flags,device,stack,start_ns,start_ns+duration_ns,"
        "f0,f1,f2,f3,f4,f5,f6,f7,f8,f9,f10,f11,correlation,context FROM call WHERE id>%lld ORDER BY id",
        (long long)(ingest->next_call - 1 - count));
    ls_db_each(&ingest->db, sql, read_call, &replay);
}
