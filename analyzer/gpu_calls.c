/*
 * gpu_calls.c - see gpu_calls.h. One thread; not async-signal-safe.
 *
 * A ring that grows to ROOM_MOST. CUPTI hands its buffers over a second or so after the fact, so a
 * record's call is nearly always among so many; what is not is looked for in the table `call`.
 */
#include "gpu_calls.h"

#include <stdlib.h>
#include <string.h>

#include "ingest_internal.h"
#include "layoutspy/table.h"

#define ROOM_FIRST (1u << 14)
#define ROOM_MOST (1u << 20)
#define THREADS_MAX (1u << 20) /* a higher number is damage */
#define NEST_MOST 65536        /* more that never return are damage, too */

/* A library that works on the GPU by calls of its own. */
static bool of_library(uint16_t api) {
    switch (ls_api_info[api].lib) {
    case LS_LIB_CUDART:
    case LS_LIB_CUDA:
    case LS_LIB_CUPTI:
    case LS_LIB_C10:
    case LS_LIB_TORCH:
        return false;
    default:
        return true;
    }
}

static uint32_t place_of(const struct ls_gpu_calls *calls, uint64_t number) {
    return (uint32_t)(number & (calls->room - 1));
}

static uint32_t *chain_of(const struct ls_gpu_calls *calls, uint32_t correlation) {
    return &calls->head[correlation & (calls->room - 1)];
}

static void link_call(struct ls_gpu_calls *calls, uint64_t number) {
    struct ls_gpu_call *call = &calls->at[place_of(calls, number)];
    uint32_t *chain = chain_of(calls, call->correlation);
    call->older = *chain;
    *chain = place_of(calls, number) + 1;
}

/* The oldest call is the last in its chain. */
static void drop_oldest(struct ls_gpu_calls *calls) {
    uint32_t place = place_of(calls, calls->first++);
    uint32_t *link = chain_of(calls, calls->at[place].correlation);
    while (*link && *link != place + 1)
        link = &calls->at[*link - 1].older;
    *link = 0;
}

static bool grow(struct ls_gpu_calls *calls) {
    struct ls_gpu_calls more = *calls;
    more.room = calls->room ? 2 * calls->room : ROOM_FIRST;
    more.at = malloc(more.room * sizeof *more.at);
    more.head = calloc(more.room, sizeof *more.head);
    if (!more.at || !more.head) {
        free(more.at);
        free(more.head);
        return false;
    }
    for (uint64_t i = calls->first; i < calls->end; i++) {
        more.at[place_of(&more, i)] = calls->at[place_of(calls, i)];
        link_call(&more, i);
    }
    free(calls->at);
    free(calls->head);
    *calls = more;
    return true;
}

/* The thread's nest; `wanted`: made where it is not there. NULL: none, or out of memory. */
static struct ls_gpu_nest *nest_of(struct ls_gpu_calls *calls, uint32_t thread, bool wanted) {
    if (thread < calls->nests)
        return &calls->nest[thread];
    if (!wanted || thread > THREADS_MAX)
        return NULL;
    uint32_t nests = 2 * thread + 16;
    struct ls_gpu_nest *more = realloc(calls->nest, nests * sizeof *more);
    if (!more)
        return NULL;
    memset(more + calls->nests, 0, (nests - calls->nests) * sizeof *more);
    calls->nest = more;
    calls->nests = nests;
    return &more[thread];
}

static void close_call(struct ls_gpu_calls *calls, uint64_t number) {
    struct ls_gpu_call *call = &calls->at[place_of(calls, number)];
    call->open = false;
    if (calls->closed)
        calls->closed(call, calls->context);
}

/* The thread's open calls that lie in `outer`, which has returned, learn of it: the last ones,
 * since those that began before it had completed by then. Where nothing is around it, all are
 * complete. */
static void return_from(struct ls_gpu_calls *calls, struct ls_gpu_nest *nest,
                        const struct ls_timed_call *outer, int64_t copy) {
    uint16_t api = outer->record->head.api;
    bool nested = outer->record->head.flags & LS_CALL_NESTED;
    for (size_t i = nest->count; i > 0 && nest->at[i - 1] >= calls->first; i--) {
        struct ls_gpu_call *call = &calls->at[place_of(calls, nest->at[i - 1])];
        if (call->start_ns < outer->start_ns)
            break;
        if (of_library(api)) {
            call->under = outer->id;
            call->under_api = api;
        }
        if (call->copy && copy)
            call->copy = copy;
    }
    if (nested && nest->count < NEST_MOST)
        return;
    for (size_t i = 0; i < nest->count; i++)
        if (nest->at[i] >= calls->first) /* not gone */
            close_call(calls, nest->at[i]);
    nest->count = 0;
}

static bool add(struct ls_gpu_calls *calls, const struct ls_timed_call *call, int64_t copy) {
    const struct ls_rec_call *record = call->record;
    const struct ls_api_info *api = &ls_api_info[record->head.api];
    if (calls->end - calls->first == calls->room) {
        if (calls->room == ROOM_MOST)
            drop_oldest(calls);
        else if (!grow(calls))
            return false;
    }
    bool nested = record->head.flags & LS_CALL_NESTED;
    struct ls_gpu_nest *nest = nested ? nest_of(calls, call->thread, true) : NULL;
    if (nest) {
        uint64_t *at = ls_ingest_room(nest->at, nest->count, &nest->room, sizeof *at);
        if (!at)
            return false;
        nest->at = at;
        at[nest->count++] = calls->end;
    }
    calls->at[place_of(calls, calls->end)] =
        (struct ls_gpu_call){.id = call->id,
                             .start_ns = call->start_ns,
                             .copy = copy,
                             .correlation = (uint32_t)record->field[api->field_count],
                             .graph = api->cls == LS_CLASS_GRAPH,
                             .open = nest != NULL};
    link_call(calls, calls->end++);
    if (!nest)
        close_call(calls, calls->end - 1);
    return true;
}

bool ls_gpu_calls_take(struct ls_gpu_calls *calls, const struct ls_timed_call *call, int64_t copy) {
    struct ls_gpu_nest *nest = nest_of(calls, call->thread, false);
    if (nest && nest->count)
        return_from(calls, nest, call, copy);
    const struct ls_rec_call *record = call->record;
    if (!(record->head.flags & LS_CALL_CORRELATED) ||
        (uint32_t)record->field[ls_api_info[record->head.api].field_count] == 0)
        return true;
    return add(calls, call, copy);
}

const struct ls_gpu_call *ls_gpu_calls_find(const struct ls_gpu_calls *calls, uint32_t correlation,
                                            int64_t start_ns) {
    if (calls->room == 0)
        return NULL;
    for (uint32_t i = *chain_of(calls, correlation); i; i = calls->at[i - 1].older) {
        const struct ls_gpu_call *call = &calls->at[i - 1];
        if (call->correlation == correlation && call->start_ns - LS_GPU_SLACK_NS <= start_ns)
            return call;
    }
    return NULL;
}

int64_t ls_gpu_calls_oldest(const struct ls_gpu_calls *calls) {
    return calls->end > calls->first ? calls->at[place_of(calls, calls->first)].id : INT64_MAX / 2;
}

void ls_gpu_calls_destroy(struct ls_gpu_calls *calls) {
    for (uint32_t i = 0; i < calls->nests; i++)
        free(calls->nest[i].at);
    free(calls->nest);
    free(calls->at);
    free(calls->head);
    *calls = (struct ls_gpu_calls){0};
}
