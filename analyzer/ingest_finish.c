/*
 * ingest_finish.c - what the start and the end of a recording add to its trace. See ingest.h.
 * One thread; not async-signal-safe.
 *
 * Everything here can be done twice: a collector may be killed between this and the removal of
 * the spool.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "image_copies.h"
#include "ingest_internal.h"
#include "layoutspy/table.h"
#include "moments.h"
#include "now.h"
#include "phases.h"
#include "steps.h"

#define NAMING_MS 1000 /* for names that are still missing at the end */

/* What reports look rows up by. Late: one live index makes inserts five times slower. And few: the
 * trace must be there within seconds of the program's end, and whole tables are read in one. */
static const char indexes[] =
    "CREATE INDEX IF NOT EXISTS allocation_live ON allocation(start_ns) WHERE end_ns IS NULL;"
    "CREATE INDEX IF NOT EXISTS allocation_stack ON allocation(stack);"
    "CREATE INDEX IF NOT EXISTS gpu_work_under ON gpu_work(under) WHERE under IS NOT NULL;"
    "CREATE INDEX IF NOT EXISTS library_handle_handle ON library_handle(handle);"
    "DROP TABLE IF EXISTS raw_operand; DROP TABLE IF EXISTS raw_gpu; DROP TABLE IF EXISTS raw_stack; DROP TABLE IF EXISTS raw_python; DROP TABLE IF EXISTS raw_code;";

void ls_ingest_put_number(struct ls_ingest *ingest, const char *key, int64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, number);
    ls_db_put(&ingest->db, LS_PUT_META, "ss", key, text);
}

void ls_ingest_put_start(struct ls_ingest *ingest) {
    const struct ls_spool_header *start = &ingest->spool->start;
    ls_ingest_put_number(ingest, "start_real_ns", (int64_t)ingest->clock.origin_real);
    ls_ingest_put_number(ingest, "pid", start->pid);
    ls_db_put(&ingest->db, LS_PUT_META, "ss", "boot_id", start->boot_id);
    ls_db_put(&ingest->db, LS_PUT_META, "ss", "spool", ingest->spool->path);
    ls_db_put(&ingest->db, LS_PUT_META, "ss", "clock", ingest->clock.tsc ? "tsc" : "monotonic");
    ls_ingest_put_number(ingest, "clock_error_ns", ls_clock_error_ns(&ingest->clock));
}

/* Losses that the header counted and no LOST record told: the thread had no room to. */
static void put_untold_losses(struct ls_ingest *ingest) {
    for (int i = 0; i < LS_LOST_COUNT; i++) {
        char sql[128];
        snprintf(sql, sizeof sql, "SELECT SUM(count) FROM lost WHERE reason='%s'", ls_lost_name[i]);
        uint64_t counted = atomic_load(&ingest->spool->header->lost[i]);
        uint64_t told = (uint64_t)ls_db_number(&ingest->db, sql);
        if (counted > told)
            ls_db_put(&ingest->db, LS_PUT_LOST, "sunn", ls_lost_name[i], counted - told, (int64_t)0,
                      (int64_t)0);
    }
}

bool ls_ingest_exited(const struct ls_ingest *ingest) {
    return atomic_load(&ingest->spool->header->state) >= LS_RUN_CLOSING;
}

void ls_ingest_put_end(struct ls_ingest *ingest) {
    bool exited = ls_ingest_exited(ingest);
    put_untold_losses(ingest);
    ls_ingest_put_number(ingest, "end_ns", ingest->end_ns);
    ls_cost_put(ingest);
    ls_ingest_put_number(ingest, "clock_error_ns", ls_clock_error_ns(&ingest->clock));
    ls_db_put(&ingest->db, LS_PUT_META, "ss", "ended",
              ingest->replaced ? "exec"
              : exited         ? "exit"
                               : "unknown");
    if (!ingest->replaced && !exited)
        ls_db_put(&ingest->db, LS_PUT_COVERAGE, "sss", "end", "partial",
                  "the program ended without its exit handlers (a signal, abort or _exit): every "
                  "call that had returned is here");
}

static void name_stacks(struct ls_ingest *ingest) {
    int64_t end = ls_now_ms() + NAMING_MS, left = NAMING_MS;
    while (left > 0 && ls_stacks_symbolize(&ingest->stacks, (int)left))
        left = end - ls_now_ms();
}

static bool commit(struct ls_ingest *ingest, char *why, size_t size) {
    if (ls_db_commit(&ingest->db))
        return true;
    snprintf(why, size, "cannot be written: %s; the recording is kept in %s",
             ls_db_error(&ingest->db), ingest->spool->path);
    return false;
}

bool ls_ingest_name(struct ls_ingest *ingest, char *why, size_t size) {
    /* The stacks of the last drain: what they consist of is sure to be known after one more. */
    if (!ingest->finished && ls_ingest_drain(ingest, false, why, size) < 0)
        return false;
    name_stacks(ingest);
    return commit(ingest, why, size);
}

bool ls_ingest_finish(struct ls_ingest *ingest, char *why, size_t size) {
    struct ls_trace_db *db = &ingest->db;
    if (!ingest->finished) {
        ls_stacks_settle(&ingest->stacks, true);
        name_stacks(ingest);
        ls_stacks_give_up(&ingest->stacks);
        ls_ingest_end_reused(ingest);
        ls_ingest_store_born(ingest);
        ls_census_finish(ingest);
        ls_gpu_finish(ingest);
        ls_audit_put_end(ingest);
        ls_device_use_finish(ingest);
        ls_phases_build(db);
        ls_steps_build(db);
        ls_ingest_put_end(ingest);
        ls_moments_build(db);
        ls_db_exec(db, indexes); /* in the transaction that says that it ended */
        ls_image_copies_build(db);
    }
    if (!commit(ingest, why, size))
        return false;
    ls_db_settle(db);
    return true;
}
