/*
 * record.c - one of CUPTI's records as one of ours. See activity.h.
 *
 * Only what record_layout.def names is read, and nothing beyond the record's end: a version that is
 * newer than this file has more to say, an older one less. Any thread, busy inside layoutspy.
 */
#include <stdatomic.h>
#include <string.h>

#include "abi.h"
#include "activity.h"
#include "layoutspy/api.h"
#include "layoutspy/format.h"
#include "names.h"
#include "spool.h"
#include "state.h"

struct view {
    const uint8_t *at;
    size_t room;
    struct ls_thread *self;
    struct ls_names_seen *seen;
};

/* KERNEL_start(r) and so on, as the table has them. */
#define RECORD(KIND, least) enum { KIND##_LEAST = least };
#define AT(KIND, name, offset, type, member)                                                       \
    _Static_assert((offset) + sizeof(type) <= KIND##_LEAST, "not in each of these records");       \
    static inline type KIND##_##name(const struct view *r) {                                       \
        type value;                                                                                \
        memcpy(&value, r->at + (offset), sizeof value);                                            \
        return value;                                                                              \
    }
#define LATER(KIND, name, offset, type, member)                                                    \
    static inline type KIND##_##name(const struct view *r) {                                       \
        type value = 0;                                                                            \
        if (r->room >= (offset) + sizeof value)                                                    \
            memcpy(&value, r->at + (offset), sizeof value);                                        \
        return value;                                                                              \
    }
#include "record_layout.def"

/* What most of them have. */
#define WHEN(KIND) (out->start = KIND##_start(r), out->end = KIND##_end(r))
#define AT_ONE_TIME(KIND) (out->start = out->end = KIND##_time(r))
#define DEVICE(KIND) (out->head.device = small(KIND##_device(r)))
#define PLACE(KIND) (out->context = KIND##_context(r), out->stream = KIND##_stream(r))
#define CALL(KIND) (out->correlation = KIND##_correlation(r))
#define NODE(KIND) (out->node = KIND##_node(r), out->graph = KIND##_graph(r))

static uint8_t small(uint32_t number) {
    return number < UINT8_MAX ? (uint8_t)number : UINT8_MAX;
}

/* Of enum ls_gpu_memory, which ends before 16 in every version. */
static uint8_t memory_kinds(uint32_t source, uint32_t target) {
    return LS_KINDS(source < 16 ? source : 0, target < 16 ? target : 0);
}

static void read_kernel(const struct view *r, struct ls_rec_gpu *out) {
    WHEN(KERNEL), DEVICE(KERNEL), PLACE(KERNEL), CALL(KERNEL), NODE(KERNEL);
    out->value[0] = ls_kernel_told(r->self, r->seen, KERNEL_name(r));
    out->value[1] = LS_DIM3(KERNEL_grid_x(r), KERNEL_grid_y(r), KERNEL_grid_z(r));
    out->value[2] = LS_DIM3(KERNEL_block_x(r), KERNEL_block_y(r), KERNEL_block_z(r));
    out->value[3] = (uint64_t)KERNEL_shared_static(r) + KERNEL_shared_dynamic(r);
}

/* Of copies and memsets: CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC, ..._MEMSET_ASYNC. */
static uint8_t flags_of(uint32_t flags) {
    return flags & LS_ACTIVITY_ASYNC ? LS_GPU_ASYNC : 0;
}

static void read_copy(const struct view *r, struct ls_rec_gpu *out) {
    WHEN(COPY), DEVICE(COPY), PLACE(COPY), CALL(COPY), NODE(COPY);
    out->head.flags = flags_of(COPY_flags(r));
    out->head.kinds = memory_kinds(COPY_source_kind(r), COPY_target_kind(r));
    out->value[0] = COPY_bytes(r);
    out->value[1] = COPY_kind(r);
}

static void read_peer_copy(const struct view *r, struct ls_rec_gpu *out) {
    WHEN(PEER_COPY), DEVICE(PEER_COPY), PLACE(PEER_COPY), CALL(PEER_COPY), NODE(PEER_COPY);
    out->head.flags = flags_of(PEER_COPY_flags(r)) | LS_GPU_PEER;
    out->head.kinds = memory_kinds(PEER_COPY_source_kind(r), PEER_COPY_target_kind(r));
    out->value[0] = PEER_COPY_bytes(r);
    out->value[1] = PEER_COPY_kind(r);
    out->value[2] = PEER_COPY_source_device(r);
    out->value[3] = PEER_COPY_target_device(r);
}

static void read_set(const struct view *r, struct ls_rec_gpu *out) {
    WHEN(SET), DEVICE(SET), PLACE(SET), CALL(SET), NODE(SET);
    out->head.flags = flags_of(SET_flags(r));
    out->head.kinds = memory_kinds(SET_memory_kind(r), 0);
    out->value[0] = SET_bytes(r);
    out->value[1] = SET_value(r);
}

static void read_memory(const struct view *r, struct ls_rec_gpu *out) {
    AT_ONE_TIME(MEMORY), DEVICE(MEMORY), PLACE(MEMORY), CALL(MEMORY);
    out->head.flags = MEMORY_async(r) ? LS_GPU_ASYNC : 0;
    out->head.kinds = memory_kinds(MEMORY_memory_kind(r), 0);
    out->value[0] = MEMORY_operation(r);
    out->value[1] = MEMORY_address(r);
    out->value[2] = MEMORY_bytes(r);
    out->value[3] = MEMORY_pool(r);
}

static void read_pool(const struct view *r, struct ls_rec_gpu *out) {
    AT_ONE_TIME(POOL), DEVICE(POOL), CALL(POOL);
    out->value[0] = POOL_operation(r);
    out->value[1] = POOL_address(r);
    out->value[2] = POOL_size(r);
    out->value[3] = POOL_keep(r);
}

static void read_sync(const struct view *r, struct ls_rec_gpu *out) {
    WHEN(SYNC), PLACE(SYNC), CALL(SYNC);
    out->value[0] = SYNC_kind(r);
    out->value[1] = SYNC_event(r);
    out->value[2] = SYNC_status(r);
}

static void read_overhead(const struct view *r, struct ls_rec_gpu *out) {
    uint32_t object = OVERHEAD_object(r);
    WHEN(OVERHEAD), CALL(OVERHEAD);
    out->value[0] = OVERHEAD_kind(r);
    out->value[1] = object;
    if (object == LS_OBJECT_THREAD)
        out->value[2] = OVERHEAD_thread(r);
    else if (object >= LS_OBJECT_DEVICE)
        DEVICE(OVERHEAD);
    if (object == LS_OBJECT_CONTEXT || object == LS_OBJECT_STREAM)
        out->context = OVERHEAD_context(r);
    if (object == LS_OBJECT_STREAM)
        out->stream = OVERHEAD_stream(r);
}

static void read_graph(const struct view *r, struct ls_rec_gpu *out) {
    WHEN(GRAPH), DEVICE(GRAPH), PLACE(GRAPH), CALL(GRAPH);
    out->graph = GRAPH_graph(r);
}

/* The most frequent ones first. */
static const struct reader {
    uint16_t activity; /* enum ls_cupti_activity */
    uint16_t least;    /* bytes that such a record has */
    enum ls_gpu_kind kind;
    void (*read)(const struct view *r, struct ls_rec_gpu *out);
} readers[] = {
    {LS_ACTIVITY_KERNEL, KERNEL_LEAST, LS_GPU_KERNEL, read_kernel},
    {LS_ACTIVITY_COPY, COPY_LEAST, LS_GPU_COPY, read_copy},
    {LS_ACTIVITY_SET, SET_LEAST, LS_GPU_SET, read_set},
    {LS_ACTIVITY_SYNC, SYNC_LEAST, LS_GPU_SYNC, read_sync},
    {LS_ACTIVITY_MEMORY, MEMORY_LEAST, LS_GPU_MEMORY, read_memory},
    {LS_ACTIVITY_GRAPH, GRAPH_LEAST, LS_GPU_GRAPH, read_graph},
    {LS_ACTIVITY_OVERHEAD, OVERHEAD_LEAST, LS_GPU_OVERHEAD, read_overhead},
    {LS_ACTIVITY_PEER_COPY, PEER_COPY_LEAST, LS_GPU_COPY, read_peer_copy},
    {LS_ACTIVITY_POOL, POOL_LEAST, LS_GPU_POOL, read_pool},
    {LS_ACTIVITY_KERNEL_SERIAL, KERNEL_LEAST, LS_GPU_KERNEL, read_kernel},
};

static const struct reader *reader_of(uint32_t activity) {
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (readers[i].activity == activity)
            return &readers[i];
    return NULL;
}

/* Not the first runs alone: those are unlike the others. */
static bool is_left_out(const struct reader *reader) {
    static _Atomic uint32_t runs;
    uint32_t every = ls_session.env.kernel_sample;
    return every > 1 && reader->kind == LS_GPU_KERNEL && atomic_fetch_add(&runs, 1) % every != 0;
}

void ls_gpu_record(struct ls_thread *self, struct ls_gpu_reading *reading, const void *record,
                   size_t room) {
    const struct view view = {record, room, self, &reading->names};
    uint32_t activity = 0;
    if (room >= sizeof activity)
        memcpy(&activity, record, sizeof activity);
    const struct reader *reader = reader_of(activity);
    if (!reader) {
        reading->ignored++;
        return;
    }
    if (room < reader->least) {
        ls_spool_lost(self, LS_LOST_GPU_RECORDS, 1);
        return;
    }
    if (is_left_out(reader))
        return;
    struct ls_rec_gpu out = {
        .head = {.size = sizeof out, .type = LS_REC_GPU, .api = (uint16_t)reader->kind},
    };
    reader->read(&view, &out);
    struct ls_rec_gpu *place = ls_spool_reserve(self, sizeof out);
    if (!place) {
        ls_spool_lost(self, self->chunk_error, 1);
        return;
    }
    *place = out;
    ls_spool_commit(self, sizeof out);
}
