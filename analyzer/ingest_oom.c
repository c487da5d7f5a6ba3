/*
 * ingest_oom.c - from calls to episodes of running out of memory. See ingest_oom.h.
 *
 * Whether a call belongs to an episode is told by its class and its thread alone, but for two
 * things. PyTorch's allocator is known by its caller: a block that it reports was the wanted one if
 * both went through one call into it, and memory that it gives back before it gives up without
 * having asked (a limit that the program set) belongs to that. And an allocator that grows in place
 * asks for a request piece by piece: a piece that the driver gives is a success only if none of
 * those after it fails before they are mapped.
 * One thread; not async-signal-safe.
 */
#include "ingest_oom.h"

#include <stdlib.h>
#include <string.h>

#include "clamp.h"
#include "classify.h"
#include "common/roles.h"
#include "ingest_internal.h"

#define PRELUDE_MAX (1u << 16) /* steps: more are no longer worth their memory */
#define NO_MEMORY 2            /* cudaErrorMemoryAllocation and CUDA_ERROR_OUT_OF_MEMORY */

/* What a call means to an episode of its thread. */
enum meaning {
    NOTHING,
    GOES_ON, /* with something else */
    REQUESTS,
    REPORTS,
    GETS_BLOCK,
    RETURNS,
    WAITS,
    ASKS,
    COPIES,
    DRIVER,
    MAPS,
    POOLS,
};

static const uint8_t meaning[LS_CLASS_COUNT] = {
    [LS_CLASS_DEVICE_ALLOC] = REQUESTS,
    [LS_CLASS_ASYNC_ALLOC] = REQUESTS,
    [LS_CLASS_MANAGED_ALLOC] = REQUESTS,
    [LS_CLASS_ARRAY_ALLOC] = REQUESTS,
    [LS_CLASS_FREE] = RETURNS,
    [LS_CLASS_DEVICE] = RETURNS, /* a reset */
    [LS_CLASS_VMM_UNMAP] = RETURNS,
    [LS_CLASS_POOL] = POOLS,
    [LS_CLASS_VMM] = DRIVER,
    [LS_CLASS_VMM_MAP] = MAPS,
    [LS_CLASS_SYNC] = WAITS,
    [LS_CLASS_MEM_INFO] = ASKS,
    [LS_CLASS_BLOCK] = GETS_BLOCK,
    [LS_CLASS_OOM] = REPORTS,
    [LS_CLASS_COPY] = COPIES,
    [LS_CLASS_MEMSET] = GOES_ON,
    [LS_CLASS_LAUNCH] = GOES_ON,
    [LS_CLASS_GRAPH] = GOES_ON,
    [LS_CLASS_GRAPH_NODE] = GOES_ON,
    [LS_CLASS_CAPTURE_BEGIN] = GOES_ON,
    [LS_CLASS_CAPTURE_END] = GOES_ON,
    [LS_CLASS_IPC_ALLOC] = GOES_ON,
};

/* ---- before anything failed ---- */

static void add_prelude(struct ls_ingest *ingest, struct ls_oom *oom,
                        const struct ls_timed_call *call, enum ls_oom_kind kind, uint64_t bytes) {
    uint64_t entry = ls_caller_entry(ingest, call->record->stack);
    bool other = entry && oom->entry && entry != oom->entry;
    if (oom->state == LS_OOM_NONE || other || oom->device != call->record->head.device ||
        oom->prelude_count >= PRELUDE_MAX) {
        ls_oom_clear(oom);
        oom->state = LS_OOM_PRELUDE;
        oom->device = call->record->head.device;
    }
    if (entry)
        oom->entry = entry;
    if (kind != LS_OOM_ASKED)
        oom->told = false;
    ls_oom_take(ingest, oom, call, kind, bytes);
}

/* ---- requests ---- */

bool ls_oom_is_final(struct ls_ingest *ingest, uint16_t api, uint32_t stack, bool uncached) {
    return ls_caller_of(ingest, stack) == LS_HOLDER_PYTORCH &&
           (uncached || ls_api_info[api].cls == LS_CLASS_ASYNC_ALLOC);
}

static void begin(struct ls_ingest *ingest, struct ls_oom *oom, const struct ls_timed_call *call,
                  uint8_t device) {
    const struct ls_rec_call *record = call->record;
    const struct ls_audit *audit = ingest->blocks.audit[device];
    bool uncached = audit && audit->uncached > 0 && audit->reports == 0;
    const char *owner = ls_caller_owner(ingest, record->stack);
    ls_oom_clear(oom);
    oom->state = LS_OOM_OPEN;
    oom->id = call->id;
    oom->ts_ns = call->start_ns;
    oom->device = device;
    oom->thread = call->thread;
    oom->stack = record->stack;
    oom->entry = ls_caller_entry(ingest, record->stack);
    oom->final = ls_oom_is_final(ingest, record->head.api, record->stack, uncached);
    if (owner)
        strncat(oom->owner, owner, sizeof oom->owner - 1);
    ls_oom_measure(ingest, oom);
}

/* Another attempt at what failed before. */
static bool is_retry(struct ls_ingest *ingest, const struct ls_oom *oom,
                     const struct ls_timed_call *call, uint64_t size, uint8_t device) {
    if (oom->state < LS_OOM_OPEN || oom->final || device != oom->device)
        return false;
    if (oom->state == LS_OOM_RECOVERED)
        return size == oom->unit && !oom->mapped && call->record->head.api == LS_API_cuMemCreate;
    return size == oom->unit || (size < oom->unit && call->record->stack == oom->stack &&
                                 ls_caller_of(ingest, oom->stack) != LS_HOLDER_PYTORCH);
}

static void failed(struct ls_ingest *ingest, struct ls_oom *oom, const struct ls_timed_call *call,
                   uint64_t size, uint8_t device) {
    uint64_t asked = size + oom->run_bytes;
    if (is_retry(ingest, oom, call, size, device)) {
        ls_oom_reopen(ingest, oom);
    } else {
        ls_oom_end(ingest, oom);
        begin(ingest, oom, call, device);
        oom->source = LS_OOM_DRIVER;
        oom->unit = size;
        oom->requested = asked;
    }
    if (asked > oom->asked)
        oom->asked = asked;
    ls_oom_take(ingest, oom, call, LS_OOM_FAILED, size);
}

static void succeeded(struct ls_ingest *ingest, struct ls_oom *oom,
                      const struct ls_timed_call *call, uint64_t size, uint8_t device) {
    bool piece = call->record->head.api == LS_API_cuMemCreate;
    bool wanted = device == oom->device && size >= oom->unit;
    if (oom->state == LS_OOM_OPEN && wanted && !oom->final) {
        ls_oom_take(ingest, oom, call, LS_OOM_SUCCEEDED, size);
        oom->state = LS_OOM_RECOVERED;
        oom->recovered = true;
        oom->mapped = false;
    } else if (oom->state == LS_OOM_RECOVERED && wanted && piece && !oom->mapped) {
        ls_oom_take(ingest, oom, call, LS_OOM_SUCCEEDED, size);
    } else {
        ls_oom_end(ingest, oom);
    }
}

static void request(struct ls_ingest *ingest, struct ls_oom *oom,
                    const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    uint64_t size = ls_ingest_asked_size(record);
    uint8_t device =
        (uint8_t)ls_role(record, ls_roles[record->head.api].device, record->head.device);
    if (record->status == NO_MEMORY && size > 0)
        failed(ingest, oom, call, size, device);
    else if (record->status == 0)
        succeeded(ingest, oom, call, size, device);
}

/* Rows of the driver's memory: only that which makes some counts; what releases it takes time. */
static void driver_call(struct ls_ingest *ingest, struct ls_oom *oom,
                        const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    if (record->head.api == LS_API_cuMemCreate) {
        request(ingest, oom, call);
    } else if (record->head.api == LS_API_cuMemRelease && oom->returning &&
               !(ingest->ooms.taking_up && oom->state >= LS_OOM_OPEN)) {
        oom->flush_ns = ls_plus(oom->flush_ns, call->end_ns - call->start_ns);
        oom->dirty = ingest->ooms.dirty = true;
    }
}

/* ---- what a framework's allocator says ---- */

/* A report of it, and the thread's episode: of one request? */
static bool same_request(struct ls_ingest *ingest, const struct ls_oom *oom,
                         const struct ls_rec_call *record, uint64_t size, uint8_t device) {
    uint64_t entry = ls_caller_entry(ingest, record->stack);
    if (oom->final || device != oom->device)
        return false;
    if (entry && oom->entry)
        return entry == oom->entry;
    if (oom->state == LS_OOM_PRELUDE)
        return true;
    return ls_caller_of(ingest, oom->stack) != LS_HOLDER_CALLER && size <= oom->asked;
}

/* It gives up. */
static void report(struct ls_ingest *ingest, struct ls_oom *oom, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    uint64_t size = ls_role(record, roles->size, 0);
    uint8_t device = (uint8_t)ls_role(record, roles->device, record->head.device);
    if (oom->state == LS_OOM_NONE || !same_request(ingest, oom, record, size, device)) {
        ls_oom_end(ingest, oom);
        begin(ingest, oom, call, device);
    }
    if (oom->state == LS_OOM_PRELUDE) {
        oom->state = LS_OOM_OPEN;
        oom->thread = call->thread;
    } else if (oom->id != call->id) {
        ls_oom_renumber(ingest, oom, call->id);
    }
    oom->id = call->id;
    oom->ts_ns = call->start_ns;
    oom->stack = record->stack;
    oom->source = LS_OOM_ALLOCATOR;
    oom->recovered = false;
    oom->requested = size;
    ls_oom_put_prelude(ingest, oom);
    ls_oom_take(ingest, oom, call, LS_OOM_REPORT, size);
    ls_oom_measure(ingest, oom);
    ls_oom_told(oom, ls_role(record, roles->allocated, 0), ls_role(record, roles->reserved, 0));
    ls_oom_end(ingest, oom);
}

/* It hands out a block: the wanted one, out of what was just given back, or after the driver gave.
 */
static void block(struct ls_ingest *ingest, struct ls_oom *oom, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    uint64_t size = ls_role(record, roles->size, 0);
    uint8_t device = (uint8_t)ls_role(record, roles->device, record->head.device);
    if ((int64_t)size <= 0 && oom->state == LS_OOM_OPEN)
        return; /* memory that comes back while room is made */
    if (oom->state >= LS_OOM_OPEN && (int64_t)size > 0 &&
        same_request(ingest, oom, record, size, device)) {
        if (oom->state == LS_OOM_OPEN)
            ls_oom_take(ingest, oom, call, LS_OOM_SUCCEEDED, size);
        oom->recovered = true;
        oom->requested = size;
        oom->dirty = true;
    }
    ls_oom_end(ingest, oom);
}

/* ---- what makes room ---- */

static void give_back(struct ls_ingest *ingest, struct ls_oom *oom,
                      const struct ls_timed_call *call, uint64_t bytes) {
    if (oom->state == LS_OOM_OPEN && !oom->final)
        ls_oom_take(ingest, oom, call, LS_OOM_GIVEN_BACK, bytes);
    else if (oom->state < LS_OOM_OPEN &&
             ls_caller_of(ingest, call->record->stack) == LS_HOLDER_PYTORCH)
        add_prelude(ingest, oom, call, LS_OOM_GIVEN_BACK, bytes);
    else
        ls_oom_end(ingest, oom);
}

static void wait_for_device(struct ls_ingest *ingest, struct ls_oom *oom,
                            const struct ls_timed_call *call) {
    if (ls_roles[call->record->head.api].is_query) {
        if (oom->state == LS_OOM_PRELUDE)
            ls_oom_end(ingest, oom);
        return;
    }
    if (oom->state == LS_OOM_OPEN && !oom->final)
        ls_oom_take(ingest, oom, call, LS_OOM_WAITED, 0);
    else if (oom->state < LS_OOM_OPEN &&
             ls_caller_of(ingest, call->record->stack) == LS_HOLDER_PYTORCH)
        add_prelude(ingest, oom, call, LS_OOM_WAITED, 0);
    else
        ls_oom_end(ingest, oom);
}

static void ask(struct ls_ingest *ingest, struct ls_oom *oom, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    if (record->status != 0)
        return;
    uint64_t unused = ls_role(record, roles->free, 0);
    if (oom->state < LS_OOM_OPEN) {
        add_prelude(ingest, oom, call, LS_OOM_ASKED, unused);
    } else if (oom->state == LS_OOM_OPEN && record->head.device == oom->device) {
        ls_oom_take(ingest, oom, call, LS_OOM_ASKED, unused);
    } else {
        ls_oom_end(ingest, oom);
        return;
    }
    oom->told = true;
    oom->device_free = unused;
    oom->device_total = ls_role(record, roles->total, 0);
}

/* What is brought to the host may be on its way out of the device's memory. */
static bool makes_room(struct ls_ingest *ingest, const struct ls_rec_call *record) {
    struct ls_copy copy;
    ls_classify(record, &ingest->memory, &ingest->arrays, &copy);
    return copy.direction == LS_DIRECTION_D2H;
}

/* ---- calls ---- */

/* Whether a call matters to a thread of which there is nothing to be told yet. */
static bool begins(struct ls_ingest *ingest, const struct ls_rec_call *record) {
    switch (meaning[ls_api_info[record->head.api].cls]) {
    case REQUESTS:
        return record->status == NO_MEMORY;
    case DRIVER:
        return record->head.api == LS_API_cuMemCreate;
    case REPORTS:
    case ASKS:
        return true;
    case RETURNS:
        return ingest->ooms.ended_bytes > 0 &&
               ls_caller_of(ingest, record->stack) == LS_HOLDER_PYTORCH;
    case WAITS:
        return record->stack && ls_caller_of(ingest, record->stack) == LS_HOLDER_PYTORCH;
    default:
        return false;
    }
}

static void step(struct ls_ingest *ingest, struct ls_oom *oom, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    switch (meaning[ls_api_info[record->head.api].cls]) {
    case REQUESTS:
        request(ingest, oom, call);
        break;
    case DRIVER:
        driver_call(ingest, oom, call);
        break;
    case REPORTS:
        report(ingest, oom, call);
        break;
    case GETS_BLOCK:
        block(ingest, oom, call);
        break;
    case RETURNS:
        if (ingest->ooms.ended_bytes > 0)
            give_back(ingest, oom, call, ingest->ooms.ended_bytes);
        break;
    case POOLS:
        if (ls_roles[record->head.api].is_trim && record->status == 0)
            give_back(ingest, oom, call, 0);
        break;
    case WAITS:
        wait_for_device(ingest, oom, call);
        break;
    case ASKS:
        ask(ingest, oom, call);
        break;
    case COPIES:
        if (oom->state != LS_OOM_OPEN || !makes_room(ingest, record))
            ls_oom_end(ingest, oom);
        break;
    case GOES_ON:
        ls_oom_end(ingest, oom);
        break;
    case MAPS:
        oom->mapped = true;
        /* fall through */
    default:
        if (oom->state == LS_OOM_PRELUDE)
            ls_oom_end(ingest, oom);
        break;
    }
}

void ls_oom_track(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    struct ls_ooms *ooms = &ingest->ooms;
    struct ls_oom *oom = call->thread < ooms->threads ? &ooms->at[call->thread] : NULL;
    bool idle = !oom || (oom->state == LS_OOM_NONE && oom->run_bytes == 0);
    if (idle && !begins(ingest, call->record))
        return;
    if (!oom && !(oom = ls_oom_of_thread(ooms, call->thread)))
        return;
    /* A call around the last one only passed it on. */
    if (oom->state != LS_OOM_NONE && call->start_ns < oom->last_start_ns)
        return;
    step(ingest, oom, call);
    ls_oom_note_run(oom, call->record);
}

void ls_oom_store(struct ls_ingest *ingest) {
    struct ls_ooms *ooms = &ingest->ooms;
    if (!ooms->dirty)
        return;
    for (uint32_t thread = 0; thread < ooms->threads; thread++) {
        struct ls_oom *oom = &ooms->at[thread];
        if (oom->state >= LS_OOM_OPEN && oom->dirty)
            ls_oom_put(ingest, oom);
        oom->dirty = false;
    }
    ooms->dirty = false;
}

void ls_oom_close(struct ls_ooms *ooms) {
    for (uint32_t thread = 0; thread < ooms->threads; thread++)
        free(ooms->at[thread].prelude);
    free(ooms->at);
    free(ooms->returned);
}
