/*
 * ingest_record.c - one record of the spool to its rows. See ingest.h.
 * One thread; not async-signal-safe.
 */
#include <stdlib.h>
#include <string.h>

#include "classify.h"
#include "common/kernel_words.h"
#include "common/roles.h"
#include "demangle.h"
#include "ingest_internal.h"
#include "record_check.h"

#define DEMANGLE_MS 500
#define THREADS_MAX (1u << 20) /* a higher number is damage */

const char *const ls_lost_name[LS_LOST_COUNT] = {
#define LOST(ID, name, what) [LS_LOST_##ID] = name,
#include "layoutspy/lost.def"
};

/* The thread's, or NULL: it never made a copy inside another call, or there is no memory. */
static struct ls_passed *passed_of(struct ls_ingest *ingest, uint32_t thread, bool wanted) {
    if (thread < ingest->passed_threads)
        return &ingest->passed_copy[thread];
    if (!wanted || thread > THREADS_MAX)
        return NULL;
    uint32_t threads = 2 * thread + 16;
    struct ls_passed *more = realloc(ingest->passed_copy, threads * sizeof *more);
    if (!more)
        return NULL;
    for (uint32_t i = ingest->passed_threads; i < threads; i++)
        more[i] = (struct ls_passed){.start_ns = INT64_MIN};
    ingest->passed_copy = more;
    ingest->passed_threads = threads;
    return &more[thread];
}

/*
 * An outer call that only passed an inner, recorded one on: cudaMemcpy by cudaMemcpyAsync, say. The
 * inner one's record came first; both would be the same bytes twice. The row is the inner one's,
 * but where CUPTI alone saw that: what the program called says more. Out of memory: both have one.
 */
int64_t ls_ingest_copy_row(struct ls_ingest *ingest, const struct ls_timed_call *call,
                           int64_t *replaces) {
    unsigned flags = call->record->head.flags;
    if (ls_api_info[call->record->head.api].cls != LS_CLASS_COPY)
        return 0;
    struct ls_passed *last = passed_of(ingest, call->thread, flags & LS_CALL_NESTED);
    bool passed = last && last->start_ns >= call->start_ns;
    bool better = passed && last->cupti && !(flags & LS_CALL_CUPTI);
    int64_t row = passed && !better ? last->id : call->id;
    if (replaces)
        *replaces = better ? last->id : 0;
    if (last && (flags & LS_CALL_NESTED))
        *last = (struct ls_passed){call->start_ns, row, (flags & LS_CALL_CUPTI) && row == call->id};
    return row;
}

static void ingest_copy(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    struct ls_copy copy;
    int64_t replaces;
    ingest->copy_row = ls_ingest_copy_row(ingest, call, &replaces);
    if (ingest->copy_row != call->id)
        return;
    if (replaces) {
        ls_db_put(&ingest->db, LS_PUT_COPY_GONE, "i", replaces);
        ls_db_put(&ingest->db, LS_PUT_COPY_ROWS_GONE, "i", replaces);
    }
    ls_classify(record, &ingest->memory, &ingest->arrays, &copy);
    ls_db_put(&ingest->db, LS_PUT_COPY, "iiiiiuiiuiziiuui", call->id, call->start_ns,
              (int64_t)copy.direction, (int64_t)copy.src_kind, (int64_t)copy.dst_kind, copy.bytes,
              (int64_t)record->head.api, (int64_t)roles->is_async,
              ls_role(record, roles->stream, 0), call->end_ns - call->start_ns,
              (int64_t)record->stack, (int64_t)call->thread, (int64_t)record->status, copy.dst,
              copy.src, (int64_t)record->head.device);
    if (copy.width)
        ls_db_put(&ingest->db, LS_PUT_COPY_ROWS, "iuzz", call->id, copy.width,
                  (int64_t)copy.dst_pitch, (int64_t)copy.src_pitch);
}

/* Memory of a graph: its node says by the size whether it allocates or frees. */
static void graph_node(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    if (ls_role(call->record, ls_roles[call->record->head.api].size, 0))
        ls_ingest_alloc(ingest, call);
    else
        ls_ingest_free(ingest, call);
}

static void device_call(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    if (ls_roles[call->record->head.api].is_reset)
        ls_ingest_reset(ingest, call);
    if (ls_roles[call->record->head.api].total >= 0)
        ls_block_device_size(ingest, call);
}

/* What follows from a call, by its class; NULL: nothing but its own row. */
static void (*const derive[LS_CLASS_COUNT])(struct ls_ingest *, const struct ls_timed_call *) = {
    [LS_CLASS_DEVICE_ALLOC] = ls_ingest_alloc,
    [LS_CLASS_ASYNC_ALLOC] = ls_ingest_alloc,
    [LS_CLASS_MANAGED_ALLOC] = ls_ingest_alloc,
    [LS_CLASS_PINNED_ALLOC] = ls_ingest_alloc,
    [LS_CLASS_ARRAY_ALLOC] = ls_ingest_alloc,
    [LS_CLASS_REGISTER] = ls_ingest_alloc,
    [LS_CLASS_IPC_ALLOC] = ls_ingest_alloc,
    [LS_CLASS_FREE] = ls_ingest_free,
    [LS_CLASS_UNREGISTER] = ls_ingest_free,
    [LS_CLASS_GRAPH_NODE] = graph_node,
    [LS_CLASS_ARRAY_LEVEL] = ls_ingest_array_level,
    [LS_CLASS_DEVICE] = device_call,
    [LS_CLASS_CONTEXT] = device_call,
    [LS_CLASS_COPY] = ingest_copy,
    [LS_CLASS_CAPTURE_BEGIN] = ls_capture_track,
    [LS_CLASS_CAPTURE_END] = ls_capture_track,
    [LS_CLASS_EVENT] = ls_capture_track,
    [LS_CLASS_STREAM] = ls_capture_track,
    [LS_CLASS_BLOCK] = ls_block_report,
    [LS_CLASS_MEM_INFO] = ls_block_mem_info,
    [LS_CLASS_POOL] = ls_block_pool,
    [LS_CLASS_LIBRARY] = ls_library_call,
    [LS_CLASS_VMM] = ls_vmm_range,
    [LS_CLASS_VMM_MAP] = ls_vmm_map,
    [LS_CLASS_VMM_UNMAP] = ls_vmm_unmap,
};

static void ingest_call(struct ls_ingest *ingest, const struct ls_rec_call *record,
                        uint32_t thread) {
    struct ls_timed_call call = {record, thread, ingest->next_call++,
                                 ls_clock_ns(&ingest->clock, record->start), 0};
    call.end_ns = ls_clock_ns(&ingest->clock, record->start + record->duration);
    if (call.end_ns < call.start_ns) /* only of a damaged record */
        call.end_ns = call.start_ns;
    if (call.end_ns > ingest->end_ns)
        ingest->end_ns = call.end_ns;
    ls_db_put_call(&ingest->db, call.id, call.start_ns, call.end_ns - call.start_ns, thread,
                   record);
    ls_wait_track(ingest, &call);
    ingest->ooms.ended_bytes = 0;
    ingest->copy_row = 0;
    if (derive[ls_api_info[record->head.api].cls])
        derive[ls_api_info[record->head.api].cls](ingest, &call);
    if (record->head.flags & LS_CALL_OPERANDS)
        ls_operand_put(ingest, &call);
    ls_oom_track(ingest, &call);
    ls_gpu_call(ingest, &call, ingest->copy_row);
}

/* Of those that only move data: what their names say of the layouts. */
static void ingest_kernel_words(struct ls_ingest *ingest, const struct ls_rec_kernel *record) {
    static const char *const change[] = {
        [LS_KERNEL_COPY] = "copy", [LS_KERNEL_STRIDED] = "strided", [LS_KERNEL_LAYOUT] = "layout"};
    const struct ls_kernel_words *words = ls_kernel_words(record->name);
    if (words)
        ls_db_put(&ingest->db, LS_PUT_KERNEL_LAYOUT, "isss", (int64_t)record->id,
                  change[words->change], words->from[0] ? words->from : "unknown",
                  words->to[0] ? words->to : "unknown");
}

static void ingest_kernel(struct ls_ingest *ingest, const struct ls_rec_kernel *record) {
    char *demangled = ls_symbolizer_demangle(&ingest->names, record->name, DEMANGLE_MS);
    char *text = ls_short_name(demangled ? demangled : record->name);
    ls_db_put(&ingest->db, LS_PUT_KERNEL, "isss", (int64_t)record->id, record->name, demangled,
              text);
    free(text);
    free(demangled);
    ingest_kernel_words(ingest, record);
}

/* The target's own words; those that only the collector may say are left out. */
static void ingest_meta(struct ls_ingest *ingest, const struct ls_rec_text *record) {
    static const char *const ours[] = {"schema", "recording", "ended", "end_ns"};
    const char *key = ls_record_text(record, 0);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        if (strcmp(key, ours[i]) == 0)
            return;
    ls_db_put(&ingest->db, LS_PUT_META, "ss", key, ls_record_text(record, 1));
    if (strcmp(key, "exe") == 0)
        ls_modules_set_program(&ingest->modules, ls_record_text(record, 1));
}

/* "on: X", said at the start, and "on: X, and more" once that was known: the latter is enough. */
static void ingest_coverage(struct ls_ingest *ingest, const struct ls_rec_text *record) {
    ls_db_put(&ingest->db, LS_PUT_COVERAGE, "sss", ls_record_text(record, 0),
              ls_record_text(record, 1), ls_record_text(record, 2));
    ls_db_exec(&ingest->db,
               "DELETE FROM coverage WHERE EXISTS (SELECT 1 FROM coverage AS later WHERE "
               "later.layer = coverage.layer AND later.state = coverage.state AND "
               "coverage.detail <> '' AND "
               "substr(later.detail, 1, length(coverage.detail) + 2) = coverage.detail || ', ')");
}

static void ingest_lost(struct ls_ingest *ingest, const struct ls_rec_lost *record) {
    ls_db_put(&ingest->db, LS_PUT_LOST, "suii", ls_lost_name[record->head.api], record->count,
              ls_clock_ns(&ingest->clock, record->start), ls_clock_ns(&ingest->clock, record->end));
}

static void ingest_mark(struct ls_ingest *ingest, const struct ls_rec_mark *record,
                        uint32_t thread) {
    int64_t ns = record->ticks ? ls_clock_ns(&ingest->clock, record->ticks) : 0;
    if (ns > ingest->end_ns)
        ingest->end_ns = ns;
    ls_db_put(&ingest->db, LS_PUT_MARK, "iiiuus", ns > 0 ? ns : (int64_t)0, (int64_t)thread,
              (int64_t)record->kind, record->value, record->domain, record->text);
}

void ls_ingest_record(struct ls_ingest *ingest, const struct ls_record *record, uint32_t thread) {
    const struct ls_rec_thread *named;
    switch (record->type) {
    case LS_REC_CALL:
        ingest_call(ingest, (const struct ls_rec_call *)record, thread);
        break;
    case LS_REC_STACK:
        ls_stacks_add(&ingest->stacks, (const struct ls_rec_stack *)record);
        ls_caller_add(ingest, (const struct ls_rec_stack *)record);
        break;
    case LS_REC_CODE:
        ls_python_add_code(&ingest->stacks.python, &ingest->db, (const struct ls_rec_code *)record);
        break;
    case LS_REC_PYTHON:
        ls_python_add_stack(&ingest->stacks.python, &ingest->db,
                            (const struct ls_rec_python *)record);
        break;
    case LS_REC_MODULE:
        ls_modules_add(&ingest->modules, &ingest->db, (const struct ls_rec_module *)record);
        break;
    case LS_REC_THREAD:
        named = (const struct ls_rec_thread *)record;
        ls_db_put(&ingest->db, LS_PUT_THREAD, "iis", (int64_t)named->thread, (int64_t)named->tid,
                  named->name);
        break;
    case LS_REC_KERNEL:
        ingest_kernel(ingest, (const struct ls_rec_kernel *)record);
        break;
    case LS_REC_META:
        ingest_meta(ingest, (const struct ls_rec_text *)record);
        break;
    case LS_REC_MARK:
        ingest_mark(ingest, (const struct ls_rec_mark *)record, thread);
        break;
    case LS_REC_COVERAGE:
        ingest_coverage(ingest, (const struct ls_rec_text *)record);
        break;
    case LS_REC_SHAPE:
        ls_shape_add(ingest, (const struct ls_rec_shape *)record);
        break;
    case LS_REC_LOST:
        ingest_lost(ingest, (const struct ls_rec_lost *)record);
        break;
    case LS_REC_GPU:
        ls_gpu_record(ingest, (const struct ls_rec_gpu *)record);
        break;
    case LS_REC_GPU_CLOCK:
        ls_gpu_pair(ingest, (const struct ls_rec_gpu_clock *)record);
        break;
    case LS_REC_GPU_STATE:
        ls_gpu_state(ingest, (const struct ls_rec_gpu_state *)record);
        break;
    case LS_REC_CENSUS:
        ls_census_put(ingest, (const struct ls_rec_census *)record);
        break;
    case LS_REC_STORAGE:
        ls_census_put_storage(ingest, (const struct ls_rec_storage *)record);
        break;
    case LS_REC_TENSOR:
        ls_census_put_tensor(ingest, (const struct ls_rec_tensor *)record);
        break;
    default:
        break;
    }
}
