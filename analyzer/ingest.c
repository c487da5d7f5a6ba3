/*
 * ingest.c - opening, draining and committing. See ingest.h. One thread; not async-signal-safe.
 */
#include "ingest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/roles.h"
#include "ingest_internal.h"
#include "layoutspy/table.h"
#include "now.h"
#include "term.h"

#define RECORDS_PER_COMMIT 200000
#define OOM_COMMIT_MS 10      /* between commits for the sake of an oom alone */
#define RECORDS_PER_TICK 4096 /* of the progress line, where one was started */

static void load_progress(sqlite3_stmt *stmt, void *context) {
    struct ls_ingest *ingest = context;
    int64_t slot = sqlite3_column_int64(stmt, 0), offset = sqlite3_column_int64(stmt, 2);
    if (slot < 0 || slot >= LS_CHUNK_MAX || offset < 0 || offset > LS_CHUNK_LARGEST ||
        offset % 8 != 0)
        return;
    ingest->progress[slot].generation = (uint32_t)sqlite3_column_int64(stmt, 1);
    ingest->progress[slot].offset = (uint32_t)offset;
}

/* A name for the spool that no other recording has. */
static void recording_name(const struct ls_spool *spool, char *name, size_t size) {
    const struct ls_spool_header *start = &spool->start;
    snprintf(name, size, "%s/%u/%llu/%llu", start->boot_id, start->pid,
             (unsigned long long)start->pid_start, (unsigned long long)start->clock[0].real_ns);
}

static bool failed(const struct ls_ingest *ingest, char *why, size_t size) {
    const char *error = ls_db_error(&ingest->db);
    if (error)
        snprintf(why, size, "cannot be written: %s; the rest of the recording is kept in %s", error,
                 ingest->spool->path);
    else if (ingest->out_of_memory)
        snprintf(why, size, "out of memory; the rest of the recording is kept in %s",
                 ingest->spool->path);
    else
        return false;
    return true;
}

bool ls_ingest_open(struct ls_ingest *ingest, struct ls_spool *spool, char *why, size_t size) {
    char name[160];
    memset(ingest, 0, sizeof *ingest);
    ls_roles_init();
    ingest->spool = spool;
    recording_name(spool, name, sizeof name);
    if (!ls_db_open(&ingest->db, spool->start.trace_path, name, why, size))
        return false;
    struct ls_trace_db *db = &ingest->db;
    if (!ls_clock_init(&ingest->clock, spool)) {
        ingest->out_of_memory = true;
        failed(ingest, why, size);
        return false;
    }
    ls_stacks_init(&ingest->stacks, db, &ingest->modules);
    ingest->finished = ls_db_number(db, "SELECT COUNT(*) FROM meta WHERE key='ended'");
    if (ingest->finished)
        return true;
    ingest->next_call = ls_db_number(db, "SELECT MAX(id) FROM call") + 1;
    ingest->end_ns =
        ls_db_number(db, "SELECT start_ns+duration_ns FROM call ORDER BY id DESC LIMIT 1");
    ls_db_each(db, "SELECT slot,generation,offset FROM ingest", load_progress, ingest);
    ls_vmm_load(ingest);
    ls_ingest_load_live(ingest);
    ls_modules_load(&ingest->modules, db);
    ls_stacks_load(&ingest->stacks);
    ls_block_load(ingest);
    ls_library_load(ingest);
    ls_shape_load(ingest);
    ls_operand_load(ingest);
    ls_gpu_load(ingest);
    ls_ingest_put_start(ingest);
    ls_db_commit(db);
    return !failed(ingest, why, size);
}

static void put_progress(struct ls_ingest *ingest) {
    for (int64_t slot = 0; slot < LS_CHUNK_MAX; slot++) {
        struct ls_progress *progress = &ingest->progress[slot];
        if (progress->dirty)
            ls_db_put(&ingest->db, LS_PUT_INGEST, "iii", slot, (int64_t)progress->generation,
                      (int64_t)progress->offset);
        progress->dirty = false;
    }
}

static bool commit(struct ls_ingest *ingest, struct ls_merge *merge) {
    uint64_t damage = ls_merge_damage(merge);
    if (damage)
        ls_db_put(&ingest->db, LS_PUT_LOST, "sunn", ls_lost_name[LS_LOST_DAMAGED], damage,
                  (int64_t)0, (int64_t)0);
    if (damage)
        ls_db_put(&ingest->db, LS_PUT_COVERAGE, "sss", "spool", "partial",
                  "the spool was cut off or damaged: its sound part is here");
    if (ls_merge_checksum_failed(merge))
        ls_db_put(&ingest->db, LS_PUT_COVERAGE, "sss", "spool", "partial",
                  "a chunk's checksum is wrong: its well-formed records are here, not all may be "
                  "true");
    ls_ingest_store_born(ingest);
    ls_block_store(ingest);
    ls_oom_store(ingest);
    ls_census_store(ingest);
    ls_operand_store(ingest);
    ls_gpu_store(ingest);
    put_progress(ingest);
    ingest->ooms.urgent = false;
    if (!ls_db_commit(&ingest->db))
        return false;
    for (uint32_t slot = 0; slot < LS_CHUNK_MAX; slot++) {
        if (ingest->progress[slot].hand_back)
            ls_spool_free_chunk(ingest->spool, slot);
        ingest->progress[slot].hand_back = false;
    }
    return true;
}

/* An oom is to be in the trace at once, whatever else there is to read; but where they come in
 * thousands, not each by itself. */
static bool oom_is_urgent(struct ls_ingest *ingest) {
    if (!ingest->ooms.urgent)
        return false;
    int64_t now = ls_now_ms();
    if (now - ingest->ooms.committed_ms < OOM_COMMIT_MS)
        return false;
    ingest->ooms.committed_ms = now;
    return true;
}

int64_t ls_ingest_drain(struct ls_ingest *ingest, bool all, char *why, size_t size) {
    int64_t count = 0;
    uint32_t thread;
    const struct ls_record *record;
    uint64_t now = ls_clock_sample(&ingest->clock, ingest->spool);
    struct ls_merge *merge =
        ls_merge_begin(ingest->spool, ingest->progress, all ? UINT64_MAX : now);
    bool good = merge != NULL;
    ingest->out_of_memory |= !good;
    while (good && (record = ls_merge_next(merge, &thread))) {
        ls_ingest_record(ingest, record, thread);
        if (++count % RECORDS_PER_COMMIT == 0 || oom_is_urgent(ingest))
            good = commit(ingest, merge);
        if (count % RECORDS_PER_TICK == 0)
            ls_progress_tick();
        if (ls_db_error(&ingest->db) || ingest->out_of_memory)
            good = false;
    }
    if (good) {
        ls_stacks_settle(&ingest->stacks, false);
        commit(ingest, merge);
    }
    if (merge)
        ls_merge_end(merge);
    return failed(ingest, why, size) ? -1 : count;
}

bool ls_ingest_idle(struct ls_ingest *ingest, char *why, size_t size) {
    ls_stacks_symbolize(&ingest->stacks, 0);
    ingest->idle = !ls_stacks_busy(&ingest->stacks);
    ls_db_commit(&ingest->db);
    return !failed(ingest, why, size);
}

void ls_ingest_close(struct ls_ingest *ingest) {
    for (size_t i = 0; i < ingest->born_count; i++)
        if (ingest->born[i]->ended)
            free(ingest->born[i]);
    free(ingest->born);
    free(ingest->passed_copy);
    free(ingest->freed);
    free(ingest->census.waiting);
    ls_block_close(ingest);
    ls_oom_close(&ingest->ooms);
    ls_library_close(ingest);
    ls_shape_close(&ingest->shapes);
    ls_operand_close(&ingest->operands);
    ls_gpu_close(ingest);
    ls_device_use_close(&ingest->use);
    ls_live_destroy(&ingest->memory);
    ls_live_destroy(&ingest->arrays);
    if (ingest->stacks.db)
        ls_stacks_destroy(&ingest->stacks);
    ls_symbolizer_stop(&ingest->names);
    ls_modules_destroy(&ingest->modules);
    ls_clock_destroy(&ingest->clock);
    ls_db_close(&ingest->db);
}
