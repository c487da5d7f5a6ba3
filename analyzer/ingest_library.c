/*
 * ingest_library.c - what libraries' handles were told, and the GPU's time of their calls: rows of
 * `library_handle` and `library_gpu`. See ingest.h.
 *
 * A library's handle works on one stream and may be lent memory for its work; setting either is the
 * only trace of it. What a call does is told by the fields that it has. Calls that change nothing
 * make no row. One thread; not async-signal-safe.
 */
#include <stdlib.h>

#include "clamp.h"
#include "common/roles.h"
#include "ingest_internal.h"

enum { MADE = 1, DESTROYED, STREAM_SET, WORKSPACE_SET }; /* library_handle.kind in the schema */

/* What a handle was told last. */
struct ls_handle {
    uint64_t handle, stream, address, size;
    bool streamed, lent; /* told of a stream, of memory */
    UT_hash_handle hh;
};

static struct ls_handle *find(struct ls_ingest *ingest, uint64_t value, bool make) {
    struct ls_handle *handle;
    HASH_FIND(hh, ingest->handles, &value, sizeof value, handle);
    if (handle || !make)
        return handle;
    handle = calloc(1, sizeof *handle);
    if (!handle) {
        ingest->out_of_memory = true;
        return NULL;
    }
    handle->handle = value;
    HASH_ADD(hh, ingest->handles, handle, sizeof handle->handle, handle);
    return handle;
}

static void forget(struct ls_ingest *ingest, uint64_t value) {
    struct ls_handle *handle = find(ingest, value, false);
    if (!handle)
        return;
    HASH_DEL(ingest->handles, handle);
    free(handle);
}

static bool set_stream(struct ls_handle *handle, uint64_t stream) {
    bool same = handle->streamed && handle->stream == stream;
    handle->streamed = true;
    handle->stream = stream;
    return !same;
}

static bool set_workspace(struct ls_handle *handle, uint64_t address, uint64_t size) {
    bool same = handle->lent && handle->address == address && handle->size == size;
    handle->lent = true;
    handle->address = address;
    handle->size = size;
    return !same;
}

static void put(struct ls_ingest *ingest, const struct ls_timed_call *call, int kind,
                const struct ls_handle *handle) {
    const struct ls_rec_call *record = call->record;
    bool lent = kind == WORKSPACE_SET;
    char types[] = "iisiunnnzzi";
    types[5] = handle->streamed ? 'u' : 'n';
    types[6] = types[7] = lent ? 'u' : 'n';
    ls_db_put(&ingest->db, LS_PUT_LIBRARY_HANDLE, types, call->id, call->start_ns,
              ls_lib_name[ls_api_info[record->head.api].lib], (int64_t)kind, handle->handle,
              handle->stream, handle->address, handle->size,
              lent ? ls_block_at(ingest, handle->address) : (int64_t)0, (int64_t)record->stack,
              (int64_t)record->head.device);
}

void ls_library_call(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    uint64_t value = ls_role(record, roles->handle, 0);
    if (record->status != 0 || value == 0)
        return;
    if (roles->makes)
        forget(ingest, value); /* the same address once more: its end was not seen */
    struct ls_handle *handle = find(ingest, value, true);
    if (!handle)
        return;
    if (roles->makes)
        put(ingest, call, MADE, handle);
    else if (roles->ends)
        put(ingest, call, DESTROYED, handle);
    else if (roles->ptr >= 0 &&
             set_workspace(handle, ls_role(record, roles->ptr, 0), ls_role(record, roles->size, 0)))
        put(ingest, call, WORKSPACE_SET, handle);
    else if (roles->ptr < 0 && roles->stream >= 0 &&
             set_stream(handle, ls_role(record, roles->stream, 0)))
        put(ingest, call, STREAM_SET, handle);
    if (roles->ends)
        forget(ingest, value);
}

/* ---- the GPU's time ---- */

void ls_library_gpu_store(struct ls_ingest *ingest) {
    struct ls_library_gpu *sum = &ingest->library_gpu;
    if (sum->call)
        ls_db_put(&ingest->db, LS_PUT_LIBRARY_GPU, "ii", sum->call, sum->gpu_ns);
    sum->call = 0;
}

/* The works of a call come one after the other: a row for all, unless others are between. */
void ls_library_gpu(struct ls_ingest *ingest, int64_t under, int64_t gpu_ns) {
    struct ls_library_gpu *sum = &ingest->library_gpu;
    if (sum->call != under) {
        ls_library_gpu_store(ingest);
        *sum = (struct ls_library_gpu){.call = under};
    }
    sum->gpu_ns = ls_clamped(ls_plus(sum->gpu_ns, gpu_ns), LS_LATEST);
}

/* ---- taking up what is in the tables ---- */

static void load(sqlite3_stmt *stmt, void *context) {
    struct ls_ingest *ingest = context;
    uint64_t value = (uint64_t)sqlite3_column_int64(stmt, 0);
    int kind = sqlite3_column_int(stmt, 1);
    if (kind == MADE || kind == DESTROYED)
        forget(ingest, value);
    struct ls_handle *handle = kind == DESTROYED ? NULL : find(ingest, value, true);
    if (handle && kind == STREAM_SET)
        set_stream(handle, (uint64_t)sqlite3_column_int64(stmt, 2));
    if (handle && kind == WORKSPACE_SET)
        set_workspace(handle, (uint64_t)sqlite3_column_int64(stmt, 3),
                      (uint64_t)sqlite3_column_int64(stmt, 4));
}

void ls_library_load(struct ls_ingest *ingest) {
    ls_db_each(&ingest->db,
               "SELECT handle,kind,stream,address,size FROM library_handle ORDER BY id", load,
               ingest);
}

void ls_library_close(struct ls_ingest *ingest) {
    struct ls_handle *handle, *next;
    HASH_ITER(hh, ingest->handles, handle, next) {
        HASH_DEL(ingest->handles, handle);
        free(handle);
    }
}
