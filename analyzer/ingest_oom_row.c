/*
 * ingest_oom_row.c - the row of an episode, and what is taken up from it and from the last calls.
 * See ingest_oom.h. One thread; not async-signal-safe.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clamp.h"
#include "common/roles.h"
#include "ingest_internal.h"
#include "ingest_oom.h"

/* ---- rows ---- */

static uint64_t at_least_zero(int64_t bytes) {
    return bytes > 0 ? (uint64_t)bytes : 0;
}

static uint64_t pending_on(struct ls_ingest *ingest, uint8_t device) {
    uint64_t bytes = 0;
    struct ls_block *block, *next;
    HASH_ITER(hh, ingest->blocks.limbo, block, next)
    if (block->device == device)
        bytes += block->size;
    return bytes;
}

void ls_oom_told(struct ls_oom *oom, uint64_t allocated, uint64_t reserved) {
    uint64_t used = allocated + oom->pending;
    oom->framework = true;
    oom->allocated = allocated;
    oom->reserved = reserved;
    oom->cached = reserved > used ? reserved - used : 0;
}

void ls_oom_measure(struct ls_ingest *ingest, struct ls_oom *oom) {
    const struct ls_audit *audit = ingest->blocks.audit[oom->device];
    oom->allocated = at_least_zero(ingest->ooms.held[oom->device]);
    oom->pending = pending_on(ingest, oom->device);
    if (audit && audit->reports > 0)
        ls_oom_told(oom, at_least_zero(ls_plus(audit->allocated, audit->allocated_unseen)),
                    at_least_zero(ls_plus(audit->reserved, audit->reserved_unseen)));
}

void ls_oom_put(struct ls_ingest *ingest, struct ls_oom *oom) {
    /* id ts device requested allocated reserved free total stack thread source asked recovered
     * attempts first last flushed_calls bytes ns waited owner pending cached */
    char types[] = "iiizunnnziiziiiiiuiisnn";
    types[5] = oom->framework ? 'u' : 'n';
    types[6] = types[7] = oom->told ? 'u' : 'n';
    types[21] = types[22] = oom->framework ? 'u' : 'n';
    ls_db_put(&ingest->db, LS_PUT_OOM, types, oom->id, oom->ts_ns, (int64_t)oom->device,
              oom->requested, oom->allocated, oom->reserved, oom->device_free, oom->device_total,
              (int64_t)oom->stack, (int64_t)oom->thread, (int64_t)oom->source, oom->asked,
              (int64_t)oom->recovered, oom->attempts, oom->first_call, oom->last_call,
              oom->flushed_calls, oom->flushed_bytes, oom->flush_ns, oom->waited_ns,
              oom->owner[0] ? oom->owner : NULL, oom->pending, oom->cached);
    oom->dirty = false;
}

void ls_oom_renumber(struct ls_ingest *ingest, struct ls_oom *oom, int64_t id) {
    char sql[280];
    snprintf(
        sql, sizeof sql,
        "DELETE FROM oom WHERE id=%lld; UPDATE oom_call SET oom=%lld WHERE id BETWEEN %lld AND "
        "%lld AND oom=%lld; UPDATE census SET oom=%lld WHERE oom=%lld",
        (long long)oom->id, (long long)id, (long long)oom->first_call, (long long)oom->last_call,
        (long long)oom->id, (long long)id, (long long)oom->id);
    ls_db_exec(&ingest->db, sql);
    oom->id = id;
}

/* ---- taking up what is in the tables ---- */

static void load_oom(sqlite3_stmt *stmt, void *context) {
    struct ls_ingest *ingest = context;
    uint32_t thread = (uint32_t)sqlite3_column_int64(stmt, 9);
    struct ls_oom *oom = ls_oom_of_thread(&ingest->ooms, thread);
    if (!oom)
        return;
    memset(oom, 0, sizeof *oom);
    oom->id = sqlite3_column_int64(stmt, 0);
    oom->ts_ns = sqlite3_column_int64(stmt, 1);
    oom->device = (uint8_t)sqlite3_column_int(stmt, 2);
    oom->requested = (uint64_t)sqlite3_column_int64(stmt, 3);
    oom->allocated = (uint64_t)sqlite3_column_int64(stmt, 4);
    oom->reserved = (uint64_t)sqlite3_column_int64(stmt, 5);
    oom->told = sqlite3_column_type(stmt, 6) != SQLITE_NULL;
    oom->device_free = (uint64_t)sqlite3_column_int64(stmt, 6);
    oom->device_total = (uint64_t)sqlite3_column_int64(stmt, 7);
    oom->stack = (uint32_t)sqlite3_column_int64(stmt, 8);
    oom->thread = thread;
    oom->source = (uint8_t)sqlite3_column_int(stmt, 10);
    oom->asked = (uint64_t)sqlite3_column_int64(stmt, 11);
    oom->recovered = sqlite3_column_int(stmt, 12);
    oom->attempts = sqlite3_column_int64(stmt, 13);
    oom->first_call = sqlite3_column_int64(stmt, 14);
    oom->last_call = sqlite3_column_int64(stmt, 15);
    oom->flushed_calls = sqlite3_column_int64(stmt, 16);
    oom->flushed_bytes = (uint64_t)sqlite3_column_int64(stmt, 17);
    oom->flush_ns = sqlite3_column_int64(stmt, 18);
    oom->waited_ns = sqlite3_column_int64(stmt, 19);
    const char *owner = (const char *)sqlite3_column_text(stmt, 20);
    strncat(oom->owner, owner ? owner : "", sizeof oom->owner - 1);
    oom->framework = sqlite3_column_type(stmt, 21) != SQLITE_NULL;
    oom->pending = (uint64_t)sqlite3_column_int64(stmt, 21);
    oom->cached = (uint64_t)sqlite3_column_int64(stmt, 22);
    if (oom->source == LS_OOM_ALLOCATOR || oom->last_call < ingest->next_call - LS_CALLS_TAKEN_UP)
        return; /* it has ended, or nobody knows */
    int last_api = sqlite3_column_int(stmt, 24);
    if (last_api > 0 && last_api < LS_API_COUNT && ls_api_info[last_api].cls == LS_CLASS_BLOCK)
        return; /* the allocator handed out a block: it has ended, too */
    oom->state = oom->recovered ? LS_OOM_RECOVERED : LS_OOM_OPEN;
    oom->entry = ls_caller_entry(ingest, oom->stack);
    oom->unit = (uint64_t)sqlite3_column_int64(stmt, 23);
    oom->last_start_ns = sqlite3_column_int64(stmt, 25);
    oom->returning = sqlite3_column_int(stmt, 26) == LS_OOM_GIVEN_BACK;
    oom->gave_id = sqlite3_column_int64(stmt, 27);
    oom->gave_bytes = (uint64_t)sqlite3_column_int64(stmt, 28);
}

/* As it was when the request failed: the reports came, or not, before that. */
static void load_final(struct ls_ingest *ingest, struct ls_oom *oom) {
    char sql[160];
    snprintf(sql, sizeof sql, "SELECT api FROM call WHERE id=%lld", (long long)oom->first_call);
    int64_t api = ls_db_number(&ingest->db, sql);
    snprintf(sql, sizeof sql,
             "SELECT EXISTS(SELECT 1 FROM allocation WHERE kind=%d AND holder IN (%d,%d) AND "
             "device=%d AND id<%lld)",
             LS_MEMORY_DEVICE, LS_HOLDER_PYTORCH, LS_HOLDER_SEGMENT, oom->device,
             (long long)oom->first_call);
    bool uncached = !oom->framework && ls_caller_of(ingest, oom->stack) == LS_HOLDER_PYTORCH &&
                    ls_db_number(&ingest->db, sql);
    oom->final = ls_oom_is_final(ingest, (uint16_t)api, oom->stack, uncached);
}

static void load_return(sqlite3_stmt *stmt, void *context) {
    struct ls_ingest *ingest = context;
    struct ls_ooms *ooms = &ingest->ooms;
    struct ls_oom_return *more =
        ls_ingest_room(ooms->returned, ooms->returned_count, &ooms->returned_room, sizeof *more);
    if (!more) {
        ingest->out_of_memory = true;
        return;
    }
    ooms->returned = more;
    more[ooms->returned_count++] = (struct ls_oom_return){sqlite3_column_int64(stmt, 0),
                                                          (uint64_t)sqlite3_column_int64(stmt, 1)};
}

/* What the calls gave back that are taken up next. */
static void load_returned(struct ls_ingest *ingest) {
    char sql[160];
    snprintf(sql, sizeof sql,
             "SELECT end_call,size FROM allocation WHERE end_call>=%lld AND " LS_ON_DEVICE_SQL
             " ORDER BY end_call",
             (long long)(ingest->next_call - LS_CALLS_TAKEN_UP));
    ls_db_each(&ingest->db, sql, load_return, ingest);
}

void ls_oom_load(struct ls_ingest *ingest) {
    ls_db_each(
        &ingest->db,
        "SELECT id,ts_ns,device,requested,allocated,reserved,device_free,device_total,stack,"
        "thread,source,asked,recovered,attempts,first_call,last_call,flushed_calls,"
        "flushed_bytes,flush_ns,waited_ns,owner,pending,cached,"
        "(SELECT bytes FROM oom_call WHERE oom_call.id=first_call),"
        "(SELECT api FROM call WHERE call.id=last_call),"
        "(SELECT start_ns FROM call WHERE call.id=last_call),"
        "(SELECT kind FROM oom_call WHERE oom_call.id=last_call),"
        "(SELECT MAX(id) FROM oom_call WHERE oom_call.id BETWEEN first_call AND last_call AND "
        "oom_call.oom=oom.id AND kind=5) AS gave,"
        "(SELECT bytes FROM oom_call WHERE oom_call.id=(SELECT MAX(id) FROM oom_call WHERE "
        "oom_call.id BETWEEN first_call AND last_call AND oom_call.oom=oom.id AND kind=5)) "
        "FROM oom ORDER BY id",
        load_oom, ingest);
    for (uint32_t thread = 0; thread < ingest->ooms.threads; thread++)
        if (ingest->ooms.at[thread].state == LS_OOM_OPEN)
            load_final(ingest, &ingest->ooms.at[thread]);
    load_returned(ingest);
}

static uint64_t returned_by(struct ls_ooms *ooms, int64_t call) {
    uint64_t bytes = 0;
    for (; ooms->returned_past < ooms->returned_count; ooms->returned_past++) {
        const struct ls_oom_return *returned = &ooms->returned[ooms->returned_past];
        if (returned->call > call)
            break;
        if (returned->call == call)
            bytes += returned->bytes;
    }
    return bytes;
}

void ls_oom_take_up(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    struct ls_ooms *ooms = &ingest->ooms;
    struct ls_oom *oom = call->thread < ooms->threads ? &ooms->at[call->thread] : NULL;
    if (oom && call->id <= oom->last_call && oom->state != LS_OOM_PRELUDE) {
        ls_oom_note_run(oom, call->record);
        return;
    }
    ooms->ended_bytes = returned_by(ooms, call->id);
    ooms->taking_up = true;
    ls_oom_track(ingest, call);
    ooms->taking_up = false;
}

void ls_oom_taken_up(struct ls_ingest *ingest) {
    struct ls_ooms *ooms = &ingest->ooms;
    free(ooms->returned);
    ooms->returned = NULL;
    ooms->returned_count = ooms->returned_room = ooms->returned_past = 0;
}
