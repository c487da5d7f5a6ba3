/*
 * ingest_oom_step.c - the steps of an episode of running out of memory, and what they add up to;
 * what the devices hold. See ingest_oom.h. One thread; not async-signal-safe.
 */
#include <stdlib.h>
#include <string.h>

#include "clamp.h"
#include "ingest_internal.h"
#include "ingest_oom.h"

#define THREADS_MAX (1u << 20) /* a higher number is damage */

/* ---- device memory ---- */

void ls_oom_life_began(struct ls_ooms *ooms, const struct ls_life *life) {
    if (ls_on_device(life->kind))
        ooms->held[life->device] = ls_plus(ooms->held[life->device], (int64_t)life->size);
}

void ls_oom_life_ended(struct ls_ooms *ooms, const struct ls_life *life) {
    if (!ls_on_device(life->kind))
        return;
    ooms->held[life->device] = ls_minus(ooms->held[life->device], (int64_t)life->size);
    ooms->ended_bytes += life->size;
}

/* ---- steps ---- */

struct ls_oom *ls_oom_of_thread(struct ls_ooms *ooms, uint32_t thread) {
    if (thread >= ooms->threads) {
        if (thread > THREADS_MAX)
            return NULL;
        uint32_t threads = 2 * thread + 16;
        struct ls_oom *more = realloc(ooms->at, threads * sizeof *more);
        if (!more)
            return NULL;
        memset(more + ooms->threads, 0, (threads - ooms->threads) * sizeof *more);
        ooms->at = more;
        ooms->threads = threads;
    }
    return &ooms->at[thread];
}

void ls_oom_clear(struct ls_oom *oom) {
    struct ls_oom empty = {.prelude = oom->prelude,
                           .prelude_room = oom->prelude_room,
                           .run_bytes = oom->run_bytes,
                           .last_call = oom->last_call};
    *oom = empty;
}

static void keep_step(struct ls_ingest *ingest, struct ls_oom *oom, struct ls_oom_step step) {
    struct ls_oom_step *more =
        ls_ingest_room(oom->prelude, oom->prelude_count, &oom->prelude_room, sizeof *more);
    if (!more) {
        ingest->out_of_memory = true;
        return;
    }
    oom->prelude = more;
    more[oom->prelude_count++] = step;
}

static void put_step(struct ls_ingest *ingest, const struct ls_oom *oom, struct ls_oom_step step) {
    ls_db_put(&ingest->db, LS_PUT_OOM_CALL, step.kind == LS_OOM_WAITED ? "iiin" : "iiiu", step.id,
              oom->id, (int64_t)step.kind, step.bytes);
}

void ls_oom_take(struct ls_ingest *ingest, struct ls_oom *oom, const struct ls_timed_call *call,
                 enum ls_oom_kind kind, uint64_t bytes) {
    struct ls_oom_step step = {call->id, kind, bytes};
    if (!oom->first_call)
        oom->first_call = call->id;
    oom->last_call = call->id;
    oom->last_start_ns = call->start_ns;
    oom->returning = kind == LS_OOM_GIVEN_BACK;
    oom->dirty = ingest->ooms.dirty = true;
    if (kind == LS_OOM_FAILED)
        oom->attempts++;
    if (kind == LS_OOM_FAILED || kind == LS_OOM_REPORT)
        ingest->ooms.urgent = true;
    if (kind == LS_OOM_WAITED)
        oom->waited_ns = ls_plus(oom->waited_ns, call->end_ns - call->start_ns);
    if (kind == LS_OOM_GIVEN_BACK) {
        oom->flushed_calls++;
        oom->flushed_bytes += bytes;
        oom->flush_ns = ls_plus(oom->flush_ns, call->end_ns - call->start_ns);
    }
    if (kind == LS_OOM_SUCCEEDED) { /* the pieces of one request are one step */
        oom->gave_id = step.id = oom->gave_id ? oom->gave_id : step.id;
        oom->gave_bytes = step.bytes = oom->gave_bytes + bytes;
    }
    if (oom->state == LS_OOM_PRELUDE)
        keep_step(ingest, oom, step);
    else
        put_step(ingest, oom, step);
}

void ls_oom_reopen(struct ls_ingest *ingest, struct ls_oom *oom) {
    if (oom->gave_id)
        ls_db_put(&ingest->db, LS_PUT_OOM_CALL_GONE, "i", oom->gave_id);
    oom->gave_id = 0;
    oom->gave_bytes = 0;
    oom->state = LS_OOM_OPEN;
    oom->recovered = false;
}

void ls_oom_end(struct ls_ingest *ingest, struct ls_oom *oom) {
    if (oom->state >= LS_OOM_OPEN && oom->dirty)
        ls_oom_put(ingest, oom);
    oom->state = LS_OOM_NONE;
    oom->dirty = false;
}

void ls_oom_put_prelude(struct ls_ingest *ingest, struct ls_oom *oom) {
    for (size_t i = 0; i < oom->prelude_count; i++)
        put_step(ingest, oom, oom->prelude[i]);
    oom->prelude_count = 0;
}

void ls_oom_note_run(struct ls_oom *oom, const struct ls_rec_call *record) {
    if (record->head.api == LS_API_cuMemCreate && record->status == 0)
        oom->run_bytes += ls_ingest_asked_size(record);
    else
        oom->run_bytes = 0;
}
