/*
 * ingest_gpu.c - a record of the GPU to its row. See ingest_gpu.h. One thread; not
 * async-signal-safe.
 */
#include "ingest_gpu.h"

#include <inttypes.h>
#include <stdlib.h>

#include "clamp.h"
#include "classify.h"
#include "ingest_internal.h"
#include "settings.h"

#define CALLS_IN_FLIGHT 1000                /* all that may lie in a call that has not returned */
#define LONGEST_NS INT64_C(100000000000000) /* no work takes a day: only of a damaged record */

const char *const ls_gpu_kind_name[LS_GPU_KINDS] = {
#define GPU(ID, name, what) [LS_GPU_##ID] = name,
#include "layoutspy/gpu.def"
};

const char *const ls_gpu_join_name[LS_GPU_JOINS] = {
    [LS_GPU_NO_CALL] = "no call",     [LS_GPU_MATCHED] = "matched", [LS_GPU_GRAPHED] = "graph",
    [LS_GPU_UNMATCHED] = "unmatched", [LS_GPU_INVALID] = "invalid",
};

/* ---- clock and state ---- */

void ls_gpu_pair(struct ls_ingest *ingest, const struct ls_rec_gpu_clock *record) {
    int64_t ns = ls_clock_ns(&ingest->clock, record->ticks);
    int64_t width = ls_minus(ls_clock_ns(&ingest->clock, record->ticks + record->width), ns);
    struct ls_gpu_pair pair = {(int64_t)record->gpu_ns, ns, width < 0 ? 0 : width};
    if (!ls_gpu_clock_add(&ingest->gpu.clock, pair))
        ingest->out_of_memory = true;
    ls_db_put(&ingest->db, LS_PUT_GPU_CLOCK, "iii", pair.gpu_ns, pair.ns, pair.width);
    ingest->gpu.dated = true;
}

void ls_gpu_state(struct ls_ingest *ingest, const struct ls_rec_gpu_state *record) {
    int64_t ns = ls_clock_ns(&ingest->clock, record->ticks);
    ls_db_put(&ingest->db, LS_PUT_GPU_STATE, "iis", ns, (int64_t)record->state, record->text);
}

/* ---- rows ---- */

/* What LS_GPU_MEMORY_* is among the sides of a copy; LS_SIDE_UNKNOWN: CUPTI does not say. */
static int64_t side_of(unsigned memory) {
    static const uint8_t side[] = {
        [LS_GPU_MEMORY_UNKNOWN] = LS_SIDE_UNKNOWN,
        [LS_GPU_MEMORY_PAGEABLE] = LS_SIDE_PAGEABLE,
        [LS_GPU_MEMORY_PINNED] = LS_SIDE_PINNED,
        [LS_GPU_MEMORY_DEVICE] = LS_SIDE_DEVICE,
        [LS_GPU_MEMORY_ARRAY] = LS_SIDE_ARRAY,
        [LS_GPU_MEMORY_MANAGED] = LS_SIDE_MANAGED,
        [LS_GPU_MEMORY_DEVICE_STATIC] = LS_SIDE_DEVICE,
        [LS_GPU_MEMORY_MANAGED_STATIC] = LS_SIDE_MANAGED,
    };
    return memory < sizeof side ? side[memory] : LS_SIDE_UNKNOWN;
}

/* By CUPTI's kind of a copy: HtoD, DtoH, HtoA, AtoH, AtoA, AtoD, DtoA, DtoD, HtoH, PtoP. */
static int64_t direction_of(uint64_t kind) {
    static const uint8_t direction[] = {
        LS_DIRECTION_UNKNOWN, LS_DIRECTION_H2D, LS_DIRECTION_D2H, LS_DIRECTION_H2D,
        LS_DIRECTION_D2H,     LS_DIRECTION_D2D, LS_DIRECTION_D2D, LS_DIRECTION_D2D,
        LS_DIRECTION_D2D,     LS_DIRECTION_H2H, LS_DIRECTION_P2P,
    };
    return kind < sizeof direction ? direction[kind] : LS_DIRECTION_UNKNOWN;
}

static void tell_copy(struct ls_ingest *ingest, const struct ls_gpu_work *work, int64_t copy) {
    ls_db_put(&ingest->db, LS_PUT_COPY_GPU, work->timed ? "iiiii" : "iniii", copy,
              work->end_ns - work->start_ns, side_of(work->kinds & 15), side_of(work->kinds >> 4),
              direction_of(work->value[1]));
}

static void put_row(struct ls_ingest *ingest, const struct ls_gpu_work *work, enum ls_gpu_join join,
                    const struct ls_gpu_call *call) {
    char types[] = "iinniiiuzzzziiuuuu";
    if (work->timed)
        types[2] = types[3] = 'i';
    types[7] = work->correlation ? 'i' : 'n';
    types[11] = work->node ? 'u' : 'n';
    ls_db_put(&ingest->db, LS_PUT_GPU_WORK, types, (int64_t)work->kind, (int64_t)join,
              work->start_ns, work->end_ns, (int64_t)work->device, (int64_t)work->context,
              (int64_t)work->stream, (int64_t)work->correlation, call ? call->id : (int64_t)0,
              call ? call->under : (int64_t)0, (int64_t)work->graph, (int64_t)work->node,
              (int64_t)work->flags, (int64_t)work->kinds, work->value[0], work->value[1],
              work->value[2], work->value[3]);
}

static enum ls_gpu_join join_of(const struct ls_gpu_work *work, const struct ls_gpu_call *call) {
    if (!work->timed)
        return LS_GPU_INVALID;
    if (call)
        return work->graph || call->graph ? LS_GPU_GRAPHED : LS_GPU_MATCHED;
    return work->correlation ? LS_GPU_UNMATCHED : LS_GPU_NO_CALL;
}

void ls_gpu_settle(struct ls_ingest *ingest, const struct ls_gpu_work *work,
                   const struct ls_gpu_call *call) {
    struct ls_gpu *gpu = &ingest->gpu;
    enum ls_gpu_join join = join_of(work, call);
    ls_gpu_count(ingest, work, join, call ? call->under_api : 0);
    if (work->kind == LS_GPU_COPY && call && call->copy)
        tell_copy(ingest, work, call->copy);
    if (call && call->under && work->timed && work->kind <= LS_GPU_SET)
        ls_library_gpu(ingest, call->under, work->end_ns - work->start_ns);
    if (work->kind == LS_GPU_KERNEL && gpu->rows++ >= gpu->rows_most)
        return;
    put_row(ingest, work, join, call);
}

/* ---- records ---- */

static bool date(struct ls_ingest *ingest, const struct ls_rec_gpu *record,
                 struct ls_gpu_work *work) {
    struct ls_gpu_clock *clock = &ingest->gpu.clock;
    if ((record->start == 0 && record->end == 0) || record->end < record->start ||
        record->end - record->start > (uint64_t)LONGEST_NS)
        return false;
    if (!ls_gpu_clock_ns(clock, (int64_t)record->start, &work->start_ns) ||
        !ls_gpu_clock_ns(clock, (int64_t)record->end, &work->end_ns))
        return false;
    if (work->end_ns < work->start_ns)
        work->end_ns = work->start_ns;
    return true;
}

static void note_end(struct ls_ingest *ingest, int64_t end_ns) {
    if (end_ns > ingest->gpu.latest_ns)
        ingest->gpu.latest_ns = end_ns;
    if (end_ns > ingest->end_ns)
        ingest->end_ns = end_ns;
}

void ls_gpu_record(struct ls_ingest *ingest, const struct ls_rec_gpu *record) {
    struct ls_gpu_work work = {
        .node = record->node,
        .value = {record->value[0], record->value[1], record->value[2], record->value[3]},
        .correlation = record->correlation,
        .context = record->context,
        .stream = record->stream,
        .graph = record->graph,
        .kind = (uint8_t)record->head.api,
        .flags = record->head.flags,
        .kinds = record->head.kinds,
        .device = record->head.device};
    work.timed = date(ingest, record, &work);
    if (!work.timed)
        work.start_ns = work.end_ns = INT64_MAX / 2; /* after every call */
    else
        note_end(ingest, work.end_ns);
    uint64_t *bytes = work.kind == LS_GPU_COPY || work.kind == LS_GPU_SET      ? &work.value[0]
                      : work.kind == LS_GPU_MEMORY || work.kind == LS_GPU_POOL ? &work.value[2]
                                                                               : NULL;
    if (bytes && *bytes > LS_LARGEST) /* only of a damaged record: readers add up */
        *bytes = LS_LARGEST;
    if (work.correlation == 0) {
        ls_gpu_settle(ingest, &work, NULL);
        return;
    }
    const struct ls_gpu_call *call =
        ls_gpu_calls_find(&ingest->gpu.calls, work.correlation, work.start_ns);
    if (call && !call->open)
        ls_gpu_settle(ingest, &work, call);
    else
        ls_gpu_wait_add(ingest, &work);
}

void ls_gpu_call(struct ls_ingest *ingest, const struct ls_timed_call *call, int64_t copy) {
    if (!ls_gpu_calls_take(&ingest->gpu.calls, call, copy))
        ingest->out_of_memory = true;
}

/* ---- taking up, storing, ending ---- */

static void load_pair(sqlite3_stmt *stmt, void *context) {
    struct ls_ingest *ingest = context;
    struct ls_gpu_pair pair = {sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                               sqlite3_column_int64(stmt, 2)};
    if (!ls_gpu_clock_add(&ingest->gpu.clock, pair))
        ingest->out_of_memory = true;
}

static void replay_call(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    ls_gpu_call(ingest, call, ls_ingest_copy_row(ingest, call, NULL));
}

void ls_gpu_load(struct ls_ingest *ingest) {
    struct ls_gpu *gpu = &ingest->gpu;
    gpu->calls.closed = ls_gpu_wait_closed;
    gpu->calls.context = ingest;
    gpu->rows_most = ls_setting_kernel_rows();
    ls_db_each(&ingest->db, "SELECT gpu_ns,ts_ns,width_ns FROM gpu_clock ORDER BY rowid", load_pair,
               ingest);
    ls_gpu_total_load(ingest);
    /* Without CUPTI only the copies that are in the making matter. */
    bool numbered = ls_db_number(&ingest->db, "SELECT EXISTS(SELECT 1 FROM gpu_clock)") ||
                    ls_db_number(&ingest->db, "SELECT EXISTS(SELECT 1 FROM gpu_state)");
    ls_replay(ingest, numbered ? LS_CALLS_TAKEN_UP : CALLS_IN_FLIGHT, replay_call);
    gpu->gone = ingest->next_call - 1 > LS_CALLS_TAKEN_UP;
    note_end(ingest, ls_db_number(&ingest->db, "SELECT MAX(end_ns) FROM gpu_work"));
    ls_gpu_wait_load(ingest);
}

void ls_gpu_store(struct ls_ingest *ingest) {
    struct ls_gpu *gpu = &ingest->gpu;
    if (gpu->dated) {
        ls_ingest_put_number(ingest, "gpu_clock_pairs", gpu->clock.pairs);
        ls_ingest_put_number(ingest, "gpu_clock_error_ns", gpu->clock.error_ns);
    }
    gpu->dated = false;
    ls_library_gpu_store(ingest);
    ls_gpu_wait_store(ingest);
    ls_gpu_total_store(ingest);
}

/*
 * Without its exit handlers a program ends, or goes on as another one, with what CUPTI had not
 * handed over: a gap from the last that it told of, or from where it was switched on. Not told a
 * second time: then it is the last state.
 */
static void end_untold(struct ls_ingest *ingest) {
    const char last[] = "SELECT ts_ns FROM gpu_state WHERE id = (SELECT MAX(id) FROM gpu_state) "
                        "AND state = 1 LIMIT 1";
    int64_t since = ls_db_number(&ingest->db, last);
    if (since == 0 || (ls_ingest_exited(ingest) && !ingest->replaced))
        return;
    ls_db_put(&ingest->db, LS_PUT_GPU_STATE, "iis",
              since > ingest->gpu.latest_ns ? since : ingest->gpu.latest_ns,
              (int64_t)LS_GPU_STATE_OFF,
              "the program ended before CUPTI had handed over what came last");
}

void ls_gpu_finish(struct ls_ingest *ingest) {
    ls_gpu_wait_end(ingest);
    ls_gpu_store(ingest);
    end_untold(ingest);
    ls_gpu_total_end(ingest);
}

void ls_gpu_close(struct ls_ingest *ingest) {
    ls_gpu_wait_close(&ingest->gpu);
    ls_gpu_total_close(&ingest->gpu);
    ls_gpu_calls_destroy(&ingest->gpu.calls);
    ls_gpu_clock_destroy(&ingest->gpu.clock);
}
