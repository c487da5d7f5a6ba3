/*
 * cupti_encode.c - what the device told, as records. Any thread; not in signal handlers.
 */
#include <unistd.h>

#include "cupti_standin.h"

#define UNKNOWN_STREAM (cp_options()->version >= CP_13_3 ? 0 : UINT32_MAX)
enum { COMPUTE = 1, ASYNC_MEMCPY = 2 };

/* The start and end of work; some are wrong where that fault is asked for. */
static void times(uint64_t start_ns, uint64_t end_ns, uint64_t out[2]) {
    static atomic_uint counter;
    cp_times(start_ns, end_ns, out);
    if (!cp_fault(CP_INVALID))
        return;
    unsigned n = atomic_fetch_add(&counter, 1) + 1;
    if (n % 7 == 0)
        out[0] = out[1] = 0;
    else if (n % 11 == 0)
        out[1] = out[0] - 1000;
}

#define WORK_FIELDS(r, TYPE, w)                                                                    \
    do {                                                                                           \
        uint64_t span[2];                                                                          \
        times((w)->start_ns, (w)->end_ns, span);                                                   \
        SET(r, TYPE, start, span[0]);                                                              \
        SET(r, TYPE, end, span[1]);                                                                \
        SET(r, TYPE, deviceId, (w)->device);                                                       \
        SET(r, TYPE, contextId, cp_context_id((w)->device));                                       \
        SET(r, TYPE, streamId, (w)->stream);                                                       \
        SET(r, TYPE, correlationId, (w)->correlation);                                             \
        SET(r, TYPE, graphId, (w)->graph);                                                         \
        SET(r, TYPE, graphNodeId, (w)->node);                                                      \
    } while (0)

static bool kernel(struct cp_record *r, const struct cp_session *s, const struct sd_work_done *w) {
    static atomic_uint_fast64_t grids;
    bool concurrent = cp_wants(s, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    if (!concurrent && !cp_wants(s, CUPTI_ACTIVITY_KIND_KERNEL))
        return false;
    cp_begin_as(r, CP_R_KERNEL,
                concurrent ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL : CUPTI_ACTIVITY_KIND_KERNEL);
    WORK_FIELDS(r, KERNEL, w);
    SET(r, KERNEL, completed, cp_time(w->end_ns));
    SET(r, KERNEL, gridX, w->grid[0]);
    SET(r, KERNEL, gridY, w->grid[1]);
    SET(r, KERNEL, gridZ, w->grid[2]);
    SET(r, KERNEL, blockX, w->block[0]);
    SET(r, KERNEL, blockY, w->block[1]);
    SET(r, KERNEL, blockZ, w->block[2]);
    SET(r, KERNEL, registersPerThread, 32);
    SET(r, KERNEL, dynamicSharedMemory, w->shared);
    SET(r, KERNEL, gridId, atomic_fetch_add(&grids, 1) + 1);
    SET(r, KERNEL, name, cp_fault(CP_NO_KERNEL_NAMES) ? 0 : (uintptr_t)w->name);
    SET(r, KERNEL, channelID, 8);
    SET(r, KERNEL, channelType, COMPUTE);
    return true;
}

#define COPY_FIELDS(r, TYPE, w)                                                                    \
    do {                                                                                           \
        WORK_FIELDS(r, TYPE, w);                                                                   \
        SET(r, TYPE, copyKind, (w)->copy);                                                         \
        SET(r, TYPE, srcKind, (w)->src_kind);                                                      \
        SET(r, TYPE, dstKind, (w)->dst_kind);                                                      \
        SET(r, TYPE, flags, (w)->async);                                                           \
        SET(r, TYPE, bytes, (w)->bytes);                                                           \
        SET(r, TYPE, channelID, 9);                                                                \
        SET(r, TYPE, channelType, ASYNC_MEMCPY);                                                   \
    } while (0)

static bool copy(struct cp_record *r, const struct cp_session *s, const struct sd_work_done *w) {
    bool peer = w->copy == 10;
    if (!cp_wants(s, peer ? CUPTI_ACTIVITY_KIND_MEMCPY2 : CUPTI_ACTIVITY_KIND_MEMCPY))
        return false;
    if (!peer) {
        cp_begin(r, CP_R_MEMCPY);
        COPY_FIELDS(r, MEMCPY, w);
        SET(r, MEMCPY, copyCount, 1);
        return true;
    }
    cp_begin(r, CP_R_MEMCPY2);
    COPY_FIELDS(r, MEMCPY2, w);
    SET(r, MEMCPY2, srcDeviceId, w->src_device);
    SET(r, MEMCPY2, srcContextId, cp_context_id(w->src_device));
    SET(r, MEMCPY2, dstDeviceId, w->dst_device);
    SET(r, MEMCPY2, dstContextId, cp_context_id(w->dst_device));
    return true;
}

static bool set(struct cp_record *r, const struct cp_session *s, const struct sd_work_done *w) {
    if (!cp_wants(s, CUPTI_ACTIVITY_KIND_MEMSET))
        return false;
    cp_begin(r, CP_R_MEMSET);
    WORK_FIELDS(r, MEMSET, w);
    SET(r, MEMSET, value, w->value);
    SET(r, MEMSET, bytes, w->bytes);
    SET(r, MEMSET, flags, w->async);
    SET(r, MEMSET, memoryKind, w->dst_kind);
    SET(r, MEMSET, channelID, 8);
    SET(r, MEMSET, channelType, COMPUTE);
    return true;
}

static bool graph(struct cp_record *r, const struct cp_session *s, const struct sd_work_done *w) {
    if (!cp_wants(s, CUPTI_ACTIVITY_KIND_GRAPH_TRACE))
        return false;
    uint64_t span[2];
    times(w->start_ns, w->end_ns, span);
    cp_begin(r, CP_R_GRAPH_TRACE);
    SET(r, GRAPH_TRACE, correlationId, w->correlation);
    SET(r, GRAPH_TRACE, start, span[0]);
    SET(r, GRAPH_TRACE, end, span[1]);
    SET(r, GRAPH_TRACE, deviceId, w->device);
    SET(r, GRAPH_TRACE, graphId, w->graph);
    SET(r, GRAPH_TRACE, contextId, cp_context_id(w->device));
    SET(r, GRAPH_TRACE, streamId, w->stream);
    SET(r, GRAPH_TRACE, endDeviceId, w->device);
    SET(r, GRAPH_TRACE, endContextId, cp_context_id(w->device));
    return true;
}

static bool wait(struct cp_record *r, const struct cp_session *s, const struct sd_work_done *w) {
    if (!cp_wants(s, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION))
        return false;
    uint64_t span[2];
    cp_times(w->start_ns, w->end_ns, span);
    cp_begin(r, CP_R_SYNCHRONIZATION);
    SET(r, SYNCHRONIZATION, type, w->wait);
    SET(r, SYNCHRONIZATION, start, span[0]);
    SET(r, SYNCHRONIZATION, end, span[1]);
    SET(r, SYNCHRONIZATION, correlationId, w->correlation);
    SET(r, SYNCHRONIZATION, contextId, cp_context_id(w->device));
    SET(r, SYNCHRONIZATION, streamId, w->stream && w->wait != 4 ? w->stream : UNKNOWN_STREAM);
    return true;
}

static bool work(struct cp_record *r, const struct cp_session *s, const struct sd_work_done *w) {
    /* Traced as a whole, a graph does not show its nodes. */
    if (w->graph && w->kind != SD_WORK_GRAPH && cp_wants(s, CUPTI_ACTIVITY_KIND_GRAPH_TRACE))
        return false;
    switch (w->kind) {
    case SD_WORK_KERNEL:
        return kernel(r, s, w);
    case SD_WORK_COPY:
        return copy(r, s, w);
    case SD_WORK_SET:
        return set(r, s, w);
    case SD_WORK_GRAPH:
        return graph(r, s, w);
    case SD_WORK_WAIT:
        return wait(r, s, w);
    }
    return false;
}

static bool memory(struct cp_record *r, const struct cp_session *s,
                   const struct sd_memory_change *m) {
    if (!cp_wants(s, CUPTI_ACTIVITY_KIND_MEMORY2))
        return false;
    cp_begin(r, CP_R_MEMORY2);
    SET(r, MEMORY2, memoryOperationType, m->operation);
    SET(r, MEMORY2, memoryKind, m->kind);
    SET(r, MEMORY2, correlationId, m->correlation);
    SET(r, MEMORY2, address, m->address);
    SET(r, MEMORY2, bytes, m->bytes);
    SET(r, MEMORY2, timestamp, cp_time(m->at_ns));
    SET(r, MEMORY2, processId, getpid());
    SET(r, MEMORY2, deviceId, m->device);
    SET(r, MEMORY2, contextId, cp_context_id(m->device));
    SET(r, MEMORY2, streamId, m->async ? m->stream : UNKNOWN_STREAM);
    SET(r, MEMORY2, isAsync, m->async);
    SET(r, MEMORY2, poolType, m->pool ? 1 : 0);
    SET(r, MEMORY2, poolAddress, m->pool);
    return true;
}

static bool pool(struct cp_record *r, const struct cp_session *s, const struct sd_pool_change *p) {
    if (!cp_wants(s, CUPTI_ACTIVITY_KIND_MEMORY_POOL))
        return false;
    cp_begin(r, CP_R_MEMORY_POOL);
    SET(r, MEMORY_POOL, memoryPoolOperationType, p->operation);
    SET(r, MEMORY_POOL, memoryPoolType, 1);
    SET(r, MEMORY_POOL, correlationId, p->correlation);
    SET(r, MEMORY_POOL, processId, getpid());
    SET(r, MEMORY_POOL, deviceId, p->device);
    SET(r, MEMORY_POOL, minBytesToKeep, p->keep);
    SET(r, MEMORY_POOL, address, p->pool);
    SET(r, MEMORY_POOL, size, p->size);
    SET(r, MEMORY_POOL, timestamp, cp_time(p->at_ns));
    return true;
}

static bool context(struct cp_record *r, const struct cp_session *s, int device) {
    if (!cp_wants(s, CUPTI_ACTIVITY_KIND_CONTEXT))
        return false;
    cp_begin(r, CP_R_CONTEXT);
    SET(r, CONTEXT, contextId, cp_context_id(device));
    SET(r, CONTEXT, deviceId, device);
    SET(r, CONTEXT, computeApiKind, 1);
    SET(r, CONTEXT, nullStreamId, 7);
    SET(r, CONTEXT, numMultiprocessors, 132);
    SET(r, CONTEXT, processId, getpid());
    return true;
}

bool cp_encode(struct cp_record *record, const struct cp_session *session,
               const struct cp_told *told) {
    switch (told->what) {
    case CP_WORK:
        return work(record, session, &told->work);
    case CP_MEMORY:
        return memory(record, session, &told->memory);
    case CP_POOL:
        return pool(record, session, &told->pool);
    case CP_CONTEXT:
        return context(record, session, told->device);
    }
    return false;
}
