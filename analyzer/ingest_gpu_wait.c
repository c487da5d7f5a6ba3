/*
 * ingest_gpu_wait.c - records of the GPU that wait for their call. See ingest_gpu.h.
 *
 * Few, and not for long: a buffer of CUPTI's is taken in after the calls that had completed when it
 * was handed over. Those that are still here at a commit are kept in raw_gpu for a successor. A
 * call may have passed long ago, too, and be among the last ones no more: where records become
 * many, and at the end, the calls of long ago are gone through. One thread; not async-signal-safe.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ingest_internal.h"
#include "layoutspy/table.h"

#define WAITS_MOST 262144
#define AROUND 10000 /* a library's call makes fewer before it returns */
#define FEW 64       /* where less than a 64th of them has a call, none is expected of the others */

static void let_go(struct ls_ingest *ingest, struct ls_gpu_waiting *waiting,
                   const struct ls_gpu_call *call) {
    if (waiting->stored)
        ls_db_put(&ingest->db, LS_PUT_RAW_GPU_DONE, "i", waiting->id);
    ls_gpu_settle(ingest, &waiting->work, call);
    ingest->gpu.waits--;
    free(waiting);
}

static bool put_in(struct ls_gpu *gpu, struct ls_gpu_waiting *waiting) {
    struct ls_gpu_waiting *first;
    HASH_FIND(hh, gpu->waiting, &waiting->work.correlation, sizeof waiting->work.correlation,
              first);
    if (first) { /* the order does not matter */
        waiting->same = first->same;
        first->same = waiting;
        return true;
    }
    waiting->same = NULL;
    HASH_ADD(hh, gpu->waiting, work.correlation, sizeof waiting->work.correlation, waiting);
    return waiting->hh.tbl != NULL;
}

static bool later_than(const struct ls_gpu_call *call, const struct ls_gpu_waiting *waiting) {
    return call->start_ns - LS_GPU_SLACK_NS > waiting->work.start_ns;
}

/* The first of its number, whose place is its: the next one takes that. */
static struct ls_gpu_waiting *take_first(struct ls_gpu *gpu, struct ls_gpu_waiting *first) {
    struct ls_gpu_waiting *next = first->same;
    if (!next) {
        HASH_DEL(gpu->waiting, first);
        return first;
    }
    struct ls_gpu_waiting copy = *first;
    first->work = next->work;
    first->id = next->id;
    first->stored = next->stored;
    first->same = next->same;
    next->work = copy.work;
    next->id = copy.id;
    next->stored = copy.stored;
    return next;
}

void ls_gpu_wait_closed(const struct ls_gpu_call *call, void *context) {
    struct ls_ingest *ingest = context;
    struct ls_gpu_waiting *first, *at;
    if (!ingest->gpu.waiting)
        return;
    HASH_FIND(hh, ingest->gpu.waiting, &call->correlation, sizeof call->correlation, first);
    if (!first)
        return;
    for (struct ls_gpu_waiting **link = &first->same; (at = *link);) {
        if (later_than(call, at)) {
            link = &at->same;
            continue;
        }
        *link = at->same;
        let_go(ingest, at, call);
    }
    if (!later_than(call, first))
        let_go(ingest, take_first(&ingest->gpu, first), call);
}

/* ---- all calls ---- */

/* Going through them: the nearest one is the last of those that began before. */
static void note_closed(const struct ls_gpu_call *call, void *context) {
    struct ls_ingest *ingest = context;
    struct ls_gpu_waiting *at;
    HASH_FIND(hh, ingest->gpu.waiting, &call->correlation, sizeof call->correlation, at);
    for (; at; at = at->same) {
        if (later_than(call, at) || (at->found && at->call.start_ns > call->start_ns))
            continue;
        at->found = true;
        at->call = *call;
    }
}

struct scan {
    struct ls_ingest *ingest;
    struct ls_gpu_calls calls;
};

static void scan_call(sqlite3_stmt *stmt, void *context) {
    struct scan *scan = context;
    struct {
        struct ls_rec_call record;
        uint64_t field[LS_FIELD_MAX + 1];
    } made = {0};
    int64_t api = sqlite3_column_int64(stmt, 4);
    if (api < 1 || api >= LS_API_COUNT)
        return;
    made.record.head.api = (uint16_t)api;
    made.record.head.flags = (uint8_t)sqlite3_column_int(stmt, 5);
    if (sqlite3_column_type(stmt, 6) != SQLITE_NULL) {
        made.record.head.flags |= LS_CALL_CORRELATED;
        made.field[ls_api_info[api].field_count] = (uint32_t)sqlite3_column_int64(stmt, 6);
    }
    struct ls_timed_call call = {&made.record, (uint32_t)sqlite3_column_int64(stmt, 3),
                                 sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                                 sqlite3_column_int64(stmt, 2)};
    if (!ls_gpu_calls_take(&scan->calls, &call, ls_ingest_copy_row(scan->ingest, &call, NULL)))
        scan->ingest->out_of_memory = true;
}

/* The calls from `from` on that are among the last ones no more, and a few of what they may have
 * been made in. Which of their copies are one is found out from the begin, and the latest ones'
 * state is kept. Returns the first call that is not gone. */
static int64_t scan_gone(struct ls_ingest *ingest, int64_t from) {
    int64_t first = ls_gpu_calls_oldest(&ingest->gpu.calls);
    struct scan scan = {ingest, {.closed = note_closed, .context = ingest}};
    struct ls_passed *passed = ingest->passed_copy;
    uint32_t threads = ingest->passed_threads;
    char sql[200];
    if (first > ingest->next_call)
        first = ingest->next_call;
    if (!ingest->gpu.gone && ingest->gpu.calls.first == 0)
        return first;
    snprintf(sql, sizeof sql,
             "SELECT id,start_ns,start_ns+duration_ns,thread,api,flags,correlation FROM call "
             "WHERE id>=%lld AND id<%lld ORDER BY id",
             (long long)from, (long long)(first + AROUND));
    ingest->passed_copy = NULL;
    ingest->passed_threads = 0;
    ls_db_each(&ingest->db, sql, scan_call, &scan);
    free(ingest->passed_copy);
    ingest->passed_copy = passed;
    ingest->passed_threads = threads;
    ls_gpu_calls_destroy(&scan.calls);
    return first;
}

/* Every waiting record gets its call, or none, where its call is older than `from`. */
static void settle_all(struct ls_ingest *ingest, int64_t from) {
    struct ls_gpu *gpu = &ingest->gpu;
    struct ls_gpu_waiting *first, *next;
    int64_t all = gpu->waits, late = 0;
    if (!gpu->waiting)
        return;
    int64_t end = scan_gone(ingest, from), oldest = end;
    HASH_ITER(hh, gpu->waiting, first, next) {
        HASH_DEL(gpu->waiting, first);
        for (struct ls_gpu_waiting *at = first, *same; at; at = same) {
            same = at->same;
            /* One whose outer call has not returned is among the last ones. */
            const struct ls_gpu_call *call =
                ls_gpu_calls_find(&gpu->calls, at->work.correlation, at->work.start_ns);
            if (!call && at->found) {
                call = &at->call;
                late++;
                oldest = call->id < oldest ? call->id : oldest;
            }
            let_go(ingest, at, call);
        }
    }
    /* Where records are late, the next ones may be as late as twice the latest. Where the calls
     * are missing (the spool was full), what was gone through is not gone through again: every one
     * of very many would wait, and all calls be read for each part of them. */
    gpu->scan_from = (late >= all / FEW && late > 0 ? oldest - (end - oldest) : end) - AROUND;
}

void ls_gpu_wait_add(struct ls_ingest *ingest, const struct ls_gpu_work *work) {
    struct ls_gpu_waiting *waiting = calloc(1, sizeof *waiting);
    if (!waiting) {
        ingest->out_of_memory = true;
        return;
    }
    if (ingest->gpu.waits >= WAITS_MOST)
        settle_all(ingest, ingest->gpu.scan_from);
    waiting->work = *work;
    if (!put_in(&ingest->gpu, waiting)) {
        ingest->out_of_memory = true;
        free(waiting);
        return;
    }
    ingest->gpu.waits++;
    ingest->gpu.waits_new = true;
}

void ls_gpu_wait_end(struct ls_ingest *ingest) {
    settle_all(ingest, 0);
}

/* ---- rows ---- */

static void put_raw(struct ls_ingest *ingest, struct ls_gpu_waiting *waiting) {
    const struct ls_gpu_work *work = &waiting->work;
    waiting->id = ++ingest->gpu.last_id;
    waiting->stored = true;
    ls_db_put(&ingest->db, LS_PUT_RAW_GPU, work->timed ? "iiiiiiiiiuiiuuuu" : "iinniiiiiuiiuuuu",
              waiting->id, (int64_t)work->kind, work->start_ns, work->end_ns, (int64_t)work->device,
              (int64_t)work->context, (int64_t)work->stream, (int64_t)work->correlation,
              (int64_t)work->graph, work->node, (int64_t)work->flags, (int64_t)work->kinds,
              work->value[0], work->value[1], work->value[2], work->value[3]);
}

void ls_gpu_wait_store(struct ls_ingest *ingest) {
    struct ls_gpu_waiting *first, *next;
    if (!ingest->gpu.waits_new)
        return;
    ingest->gpu.waits_new = false;
    HASH_ITER(hh, ingest->gpu.waiting, first, next)
    for (struct ls_gpu_waiting *at = first; at; at = at->same)
        if (!at->stored)
            put_raw(ingest, at);
}

static void load_raw(sqlite3_stmt *stmt, void *context) {
    struct ls_ingest *ingest = context;
    struct ls_gpu_waiting *waiting = calloc(1, sizeof *waiting);
    if (!waiting) {
        ingest->out_of_memory = true;
        return;
    }
    struct ls_gpu_work *work = &waiting->work;
    waiting->id = sqlite3_column_int64(stmt, 0);
    waiting->stored = true;
    work->kind = (uint8_t)sqlite3_column_int(stmt, 1);
    work->timed = sqlite3_column_type(stmt, 2) != SQLITE_NULL;
    work->start_ns = work->timed ? sqlite3_column_int64(stmt, 2) : INT64_MAX / 2;
    work->end_ns = work->timed ? sqlite3_column_int64(stmt, 3) : INT64_MAX / 2;
    work->device = (uint8_t)sqlite3_column_int(stmt, 4);
    work->context = (uint32_t)sqlite3_column_int64(stmt, 5);
    work->stream = (uint32_t)sqlite3_column_int64(stmt, 6);
    work->correlation = (uint32_t)sqlite3_column_int64(stmt, 7);
    work->graph = (uint32_t)sqlite3_column_int64(stmt, 8);
    work->node = (uint64_t)sqlite3_column_int64(stmt, 9);
    work->flags = (uint8_t)sqlite3_column_int(stmt, 10);
    work->kinds = (uint8_t)sqlite3_column_int(stmt, 11);
    for (int i = 0; i < 4; i++)
        work->value[i] = (uint64_t)sqlite3_column_int64(stmt, 12 + i);
    if (waiting->id > ingest->gpu.last_id)
        ingest->gpu.last_id = waiting->id;
    if (put_in(&ingest->gpu, waiting)) {
        ingest->gpu.waits++;
    } else {
        ingest->out_of_memory = true;
        free(waiting);
    }
}

void ls_gpu_wait_load(struct ls_ingest *ingest) {
    ls_db_each(&ingest->db, "SELECT * FROM raw_gpu ORDER BY id", load_raw, ingest);
}

void ls_gpu_wait_close(struct ls_gpu *gpu) {
    struct ls_gpu_waiting *first, *next;
    HASH_ITER(hh, gpu->waiting, first, next) {
        HASH_DEL(gpu->waiting, first);
        for (struct ls_gpu_waiting *at = first, *same; at; at = same) {
            same = at->same;
            free(at);
        }
    }
}
