/*
 * ingest_memory.c - lifetimes of memory: calls to rows of `allocation`. See ingest.h.
 *
 * A lifetime that began since the last commit is put just before the next one, with its end if it
 * has ended; only one that outlives that commit is updated at its free, which is three times the
 * work. One thread; not async-signal-safe.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clamp.h"
#include "common/roles.h"
#include "ingest_internal.h"

#define THREADS_MAX (1u << 20) /* a higher number is damage */

static enum ls_memory memory_of(struct ls_ingest *ingest, const struct ls_rec_call *call) {
    switch (ls_api_info[call->head.api].cls) {
    case LS_CLASS_ASYNC_ALLOC:
        return ls_capture_has(ingest, ls_role(call, ls_roles[call->head.api].stream, 0))
                   ? LS_MEMORY_GRAPH
                   : LS_MEMORY_ASYNC;
    case LS_CLASS_GRAPH_NODE:
        return LS_MEMORY_GRAPH;
    case LS_CLASS_IPC_ALLOC:
        return LS_MEMORY_IPC;
    case LS_CLASS_MANAGED_ALLOC:
        return LS_MEMORY_MANAGED;
    case LS_CLASS_PINNED_ALLOC:
        return LS_MEMORY_PINNED;
    case LS_CLASS_REGISTER:
        return LS_MEMORY_REGISTERED;
    case LS_CLASS_ARRAY_ALLOC:
        return LS_MEMORY_ARRAY;
    default:
        return LS_MEMORY_DEVICE;
    }
}

static struct ls_live *live_of(struct ls_ingest *ingest, const struct ls_roles *roles) {
    return roles->ptr_is_handle ? &ingest->arrays : &ingest->memory;
}

/* Bits of the four channels, a byte each. */
static uint32_t element_bytes(uint64_t format) {
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++)
        bits += (uint32_t)(format >> 8 * i & 255);
    return bits / 8;
}

static uint64_t array_size(const struct ls_rec_call *call, const struct ls_roles *roles,
                           uint32_t element) {
    uint64_t width = ls_role(call, roles->width, 0), height = ls_role(call, roles->height, 0),
             depth = ls_role(call, roles->depth, 0);
    return width * (height ? height : 1) * (depth ? depth : 1) * element;
}

uint64_t ls_ingest_asked_size(const struct ls_rec_call *call) {
    const struct ls_roles *roles = &ls_roles[call->head.api];
    uint64_t size = ls_role(call, roles->size, 0);
    if (size || roles->width < 0)
        return size;
    return array_size(call, roles,
                      roles->format < 0 ? 1 : element_bytes(ls_role(call, roles->format, 0)));
}

void *ls_ingest_room(void *array, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return array;
    size_t more = *room ? 2 * *room : 64;
    void *moved = realloc(array, more * size);
    if (moved)
        *room = more;
    return moved;
}

/* An outer call that only passed an inner, recorded one on: cudaMallocHost by cudaHostAlloc, say.
 * The inner one's record came first; both would be the same memory twice. Where CUPTI alone saw the
 * inner one, what the program called says more. */
static bool passed_on(struct ls_ingest *ingest, struct ls_live *live,
                      const struct ls_timed_call *call, uint64_t address) {
    const struct ls_rec_call *record = call->record;
    struct ls_life *life = ls_live_find(live, address);
    if (!life || life->address != address || life->thread != call->thread ||
        life->start_ns < call->start_ns)
        return false;
    if (life->cupti && !(record->head.flags & LS_CALL_CUPTI) && !life->stored) {
        life->cupti = false;
        life->api = record->head.api;
        life->stack = record->stack;
        life->holder = (uint8_t)ls_caller_of(ingest, record->stack);
    }
    return true;
}

/* Put the end into the row where there is one; else the row comes with it. */
static void end_life(struct ls_ingest *ingest, struct ls_life *life) {
    life->ended = true;
    if (life->level_of) {
        free(life);
        return;
    }
    ls_block_life_ended(ingest, life);
    ls_oom_life_ended(&ingest->ooms, life);
    if (!life->stored)
        return;
    ls_db_put(&ingest->db, LS_PUT_ALLOCATION_END, "izzzii", life->end_ns, (int64_t)life->free_api,
              (int64_t)life->free_stack, life->end_call, (int64_t)life->end_reason, life->id);
    free(life);
}

struct ls_life *ls_ingest_new_life(struct ls_ingest *ingest, const struct ls_timed_call *call,
                                   uint64_t address, enum ls_memory kind) {
    const struct ls_rec_call *record = call->record;
    struct ls_life *life = calloc(1, sizeof *life);
    if (!life) {
        ingest->out_of_memory = true;
        return NULL;
    }
    life->id = call->id;
    life->address = address;
    life->kind = (uint8_t)kind;
    life->start_ns = call->start_ns;
    life->born_ns = call->end_ns;
    life->stream = ls_role(record, ls_roles[record->head.api].stream, 0);
    life->stack = record->stack;
    life->api = record->head.api;
    life->device = record->head.device;
    life->thread = call->thread;
    life->holder = (uint8_t)ls_caller_of(ingest, record->stack);
    life->cupti = record->head.flags & LS_CALL_CUPTI;
    return life;
}

void ls_ingest_begin_life(struct ls_ingest *ingest, struct ls_live *live, struct ls_life *life) {
    struct ls_life **born =
        ls_ingest_room(ingest->born, ingest->born_count, &ingest->born_room, sizeof *born);
    if (!born) {
        free(life);
        ingest->out_of_memory = true;
        return;
    }
    ingest->born = born;
    born[ingest->born_count++] = life;
    ingest->use.allocated = true;
    if (life->size > LS_LARGEST) /* only of a damaged record: readers add up */
        life->size = LS_LARGEST;
    ls_block_life_began(ingest, life);
    ls_oom_life_began(&ingest->ooms, life);
    if (!ls_live_add(live, life)) {
        ingest->out_of_memory = true; /* `born` has it: its row is put all the same */
        return;
    }
    struct ls_life *unseen = ls_live_uncrowd(live, life->address);
    if (unseen) {
        unseen->end_ns = life->start_ns;
        unseen->end_reason = LS_END_REUSED;
        end_life(ingest, unseen);
    }
}

void ls_ingest_alloc(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    struct ls_live *live = live_of(ingest, roles);
    uint64_t address = ls_role(record, roles->ptr, 0);
    if (record->status != 0 || address == 0 || passed_on(ingest, live, call, address))
        return;
    struct ls_life *life = ls_ingest_new_life(ingest, call, address, memory_of(ingest, record));
    if (!life)
        return;
    life->size = ls_role(record, roles->size, 0);
    life->device = (uint8_t)ls_role(record, roles->device, life->device);
    if (life->kind == LS_MEMORY_ARRAY) {
        life->element = element_bytes(ls_role(record, roles->format, 0));
        if (roles->size < 0)
            life->size = array_size(record, roles, life->element);
    }
    ls_ingest_begin_life(ingest, live, life);
}

void ls_ingest_array_level(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    uint64_t whole = ls_role(record, roles->ptr, 0), level = ls_role(record, roles->array, 0);
    const struct ls_life *of = ls_live_find(&ingest->arrays, whole);
    const struct ls_life *known = ls_live_find(&ingest->arrays, level);
    if (record->status != 0 || level == 0 || !of || of->address != whole ||
        (known && known->address == level && known->start_ns >= of->start_ns))
        return;
    struct ls_life *life = calloc(1, sizeof *life);
    if (!life) {
        ingest->out_of_memory = true;
        return;
    }
    *life = (struct ls_life){.address = level,
                             .size = 1,
                             .kind = LS_MEMORY_ARRAY,
                             .start_ns = call->start_ns,
                             .born_ns = call->end_ns,
                             .device = of->device,
                             .element = of->element,
                             .level_of = whole};
    if (ls_live_add(&ingest->arrays, life)) {
        ingest->array_levels = true;
    } else {
        free(life);
        ingest->out_of_memory = true;
    }
}

static bool end_level(struct ls_life *life, void *context) {
    const uint64_t *whole = context;
    if (life->level_of != *whole)
        return false;
    free(life);
    return true;
}

void ls_ingest_end_life(struct ls_ingest *ingest, struct ls_life *life,
                        const struct ls_timed_call *call, enum ls_end reason) {
    life->end_ns = call->start_ns;
    life->end_call = call->id;
    life->free_api = call->record->head.api;
    life->free_stack = call->record->stack;
    life->end_reason = (uint8_t)reason;
    end_life(ingest, life);
}

/* What a thread gave back last, by a call inside of another one. */
struct ls_freed {
    uint64_t address;     /* 0: nothing yet */
    int64_t start_ns;     /* of that call */
    int64_t id;           /* of the allocation */
    struct ls_life *life; /* while it has no row */
    uint32_t stack;
};

/* The thread's, or NULL: it never did, or there is no memory. */
static struct ls_freed *freed_of(struct ls_ingest *ingest, uint32_t thread, bool wanted) {
    if (thread < ingest->freed_threads)
        return &ingest->freed[thread];
    if (!wanted || thread > THREADS_MAX)
        return NULL;
    uint32_t threads = 2 * thread + 16;
    struct ls_freed *more = realloc(ingest->freed, threads * sizeof *more);
    if (!more)
        return NULL;
    memset(more + ingest->freed_threads, 0, (threads - ingest->freed_threads) * sizeof *more);
    ingest->freed = more;
    ingest->freed_threads = threads;
    return &more[thread];
}

static void note_freed(struct ls_ingest *ingest, const struct ls_timed_call *call,
                       struct ls_life *life) {
    struct ls_freed *last = freed_of(ingest, call->thread, true);
    if (last)
        *last = (struct ls_freed){.address = life->address,
                                  .start_ns = call->start_ns,
                                  .id = life->id,
                                  .life = life->stored ? NULL : life,
                                  .stack = call->record->stack};
}

/* An outer call that passed an inner, recorded one on: cudaFree by cuMemFree, say. The inner one's
 * record came first and has ended the lifetime; what the program called is the outer one. */
static bool free_passed_on(struct ls_ingest *ingest, const struct ls_timed_call *call,
                           uint64_t address) {
    struct ls_freed *last = freed_of(ingest, call->thread, false);
    if (!last || last->address != address || last->start_ns < call->start_ns)
        return false;
    last->start_ns = call->start_ns;
    if (call->record->stack)
        last->stack = call->record->stack;
    if (last->life) {
        last->life->end_ns = call->start_ns;
        last->life->end_call = call->id;
        last->life->free_api = call->record->head.api;
        last->life->free_stack = last->stack;
    } else {
        ls_db_put(&ingest->db, LS_PUT_ALLOCATION_END, "izzzii", call->start_ns,
                  (int64_t)call->record->head.api, (int64_t)last->stack, call->id,
                  (int64_t)LS_END_FREED, last->id);
    }
    return true;
}

void ls_ingest_free(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    const struct ls_rec_call *record = call->record;
    const struct ls_roles *roles = &ls_roles[record->head.api];
    uint64_t address = ls_role(record, roles->ptr, 0);
    if (record->status != 0 || address == 0 || free_passed_on(ingest, call, address))
        return;
    bool registered = ls_api_info[record->head.api].cls == LS_CLASS_UNREGISTER;
    struct ls_life *life = ls_live_end(live_of(ingest, roles), address, call->start_ns, registered);
    if (!life)
        return;
    if (record->head.flags & LS_CALL_NESTED && !life->level_of)
        note_freed(ingest, call, life);
    ls_ingest_end_life(ingest, life, call, LS_END_FREED);
    if (roles->ptr_is_handle && ingest->array_levels)
        ls_live_sweep(&ingest->arrays, end_level, &address);
}

struct reset {
    struct ls_ingest *ingest;
    const struct ls_timed_call *call;
};

static bool end_at_reset(struct ls_life *life, void *context) {
    struct reset *reset = context;
    const struct ls_rec_call *record = reset->call->record;
    uint64_t device = ls_role(record, ls_roles[record->head.api].device, record->head.device);
    if (life->device != device || life->born_ns > reset->call->start_ns)
        return false;
    ls_ingest_end_life(reset->ingest, life, reset->call, LS_END_RESET);
    return true;
}

void ls_ingest_reset(struct ls_ingest *ingest, const struct ls_timed_call *call) {
    struct reset reset = {ingest, call};
    if (call->record->status != 0)
        return;
    ls_live_sweep(&ingest->memory, end_at_reset, &reset);
    ls_live_sweep(&ingest->arrays, end_at_reset, &reset);
}

void ls_ingest_store_born(struct ls_ingest *ingest) {
    for (size_t i = 0; i < ingest->born_count; i++) {
        struct ls_life *life = ingest->born[i];
        ls_db_put(&ingest->db, LS_PUT_ALLOCATION,
                  life->ended ? "iiiiiuuizzzuizii" : "iiniiuuizzzuizni", life->id, life->start_ns,
                  life->end_ns, (int64_t)life->kind, (int64_t)life->device, life->address,
                  life->size, (int64_t)life->api, (int64_t)life->free_api, (int64_t)life->stack,
                  (int64_t)life->free_stack, life->stream, life->id, life->end_call,
                  (int64_t)life->end_reason, (int64_t)life->holder);
        life->stored = true;
        if (life->ended)
            free(life);
    }
    ingest->born_count = 0;
    for (uint32_t i = 0; i < ingest->freed_threads; i++)
        ingest->freed[i].life = NULL;
}

static void load_life(sqlite3_stmt *stmt, void *context) {
    struct ls_ingest *ingest = context;
    struct ls_life *life = calloc(1, sizeof *life);
    if (!life) {
        ingest->out_of_memory = true;
        return;
    }
    life->id = sqlite3_column_int64(stmt, 0);
    life->start_ns = sqlite3_column_int64(stmt, 1);
    life->kind = (uint8_t)sqlite3_column_int(stmt, 2);
    life->device = (uint8_t)sqlite3_column_int(stmt, 3);
    life->address = (uint64_t)sqlite3_column_int64(stmt, 4);
    life->size = (uint64_t)sqlite3_column_int64(stmt, 5);
    life->thread = (uint32_t)sqlite3_column_int64(stmt, 6);
    life->born_ns = sqlite3_column_int64(stmt, 7);
    life->element = element_bytes((uint64_t)sqlite3_column_int64(stmt, 8));
    life->holder = (uint8_t)sqlite3_column_int(stmt, 9);
    life->stored = true;
    struct ls_live *live = life->kind == LS_MEMORY_ARRAY ? &ingest->arrays : &ingest->memory;
    const struct ls_life *other = ls_live_find(live, life->address);
    /* The clock is mapped anew and may be off by a little from before. Only where an older life
     * has the address too does it matter when this one was complete. */
    if (!other || other->address != life->address)
        life->born_ns = INT64_MIN;
    if (!ls_live_add(live, life)) {
        free(life);
        ingest->out_of_memory = true;
        return;
    }
    ls_block_life_loaded(ingest, life);
    ls_oom_life_began(&ingest->ooms, life);
}

/* `f4` of the calls that allocate arrays is their format: its place is asked of the table. */
void ls_ingest_load_live(struct ls_ingest *ingest) {
    char sql[512];
    int format = -1;
    for (int api = 1; api < LS_API_COUNT && format < 0; api++)
        if (ls_api_info[api].cls == LS_CLASS_ARRAY_ALLOC)
            format = ls_roles[api].format;
    snprintf(
        sql, sizeof sql,
        "SELECT a.id,a.start_ns,a.kind,a.device,a.address,a.size,c.thread,c.start_ns+c.duration_ns,c.f%d,a.holder "
        "FROM allocation AS a JOIN call AS c ON c.id=a.start_call "
        "WHERE a.end_ns IS NULL ORDER BY a.id",
        format < 0 ? 0 : format);
    ls_db_each(&ingest->db, sql, load_life, ingest);
}

/* Of several lives at one address, newest first, all but the newest have ended unseen. */
static bool end_if_reused(struct ls_life *life, void *context) {
    struct {
        struct ls_ingest *ingest;
        uint64_t address;
        int64_t newer_start;
    } *last = context;
    bool reused = last->address == life->address;
    int64_t newer_start = last->newer_start;
    last->address = life->address;
    last->newer_start = life->start_ns;
    if (!reused)
        return false;
    life->end_ns = newer_start;
    life->end_reason = LS_END_REUSED;
    end_life(last->ingest, life);
    return true;
}

void ls_ingest_end_reused(struct ls_ingest *ingest) {
    struct {
        struct ls_ingest *ingest;
        uint64_t address;
        int64_t newer_start;
    } last = {ingest, 0, 0};
    ls_live_sweep(&ingest->memory, end_if_reused, &last);
    last.address = 0;
    ls_live_sweep(&ingest->arrays, end_if_reused, &last);
}
