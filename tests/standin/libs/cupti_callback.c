/*
 * cupti_callback.c - what happens when a call of the runtime or the driver begins and ends:
 * callbacks of subscribers, external correlation ids, the records of calls. Runs in the thread of
 * the call, no lock of the device held.
 */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../truth.h"
#include "cupti_standin.h"

/* A call that has begun. Its address goes through sd_tapped.data. */
struct frame {
    const struct sd_tapped *call;
    uint64_t start;
    uint32_t number;
    bool silent; /* nobody is told: from inside a callback */
    const char *function;
    uint64_t data[CP_SUBSCRIBERS]; /* each subscriber's correlationData */
};
#define DEPTH 32
static __thread struct frame frames[DEPTH];
static __thread unsigned depth;

static atomic_int thread_id_type;

static uint32_t thread_id(void) {
    return atomic_load(&thread_id_type) ? (uint32_t)syscall(SYS_gettid) : (uint32_t)pthread_self();
}

CP_EXPORT cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
    CP_ENTER(call, CP_CALLBACK);
    bool valid = (int)type == 0 || (int)type == 1;
    int status = lib_status(&call, valid ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (!status && cp_mode() == CP_SEVERAL)
        status = CUPTI_ERROR_NOT_SUPPORTED;
    if (!status)
        atomic_store(&thread_id_type, (int)type);
    return cp_leave(&call, status);
}

CP_EXPORT cuptiGetThreadIdType(CUpti_ActivityThreadIdType *type) {
    CP_ENTER(call, CP_CALLBACK);
    int status = lib_status(&call, type ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (!status)
        *type = (CUpti_ActivityThreadIdType)atomic_load(&thread_id_type);
    return cp_leave(&call, status);
}

/* ---- external correlation: a stack for each kind and thread ---- */

#define KINDS CUPTI_EXTERNAL_CORRELATION_KIND_SIZE
#define IDS 64
static __thread struct {
    unsigned depth;
    uint64_t id[IDS];
} external[CP_SESSIONS][KINDS];

int cp_external_push(const struct cp_session *s, CUpti_ExternalCorrelationKind kind, uint64_t id) {
    if ((int)kind <= 0 || (int)kind >= KINDS)
        return CUPTI_ERROR_INVALID_PARAMETER;
    unsigned at = external[s - cp_sessions][kind].depth++;
    if (at < IDS)
        external[s - cp_sessions][kind].id[at] = id;
    return 0;
}

int cp_external_pop(const struct cp_session *s, CUpti_ExternalCorrelationKind kind,
                    uint64_t *last) {
    if ((int)kind <= 0 || (int)kind >= KINDS)
        return CUPTI_ERROR_INVALID_PARAMETER;
    if (!external[s - cp_sessions][kind].depth)
        return CUPTI_ERROR_QUEUE_EMPTY;
    unsigned at = --external[s - cp_sessions][kind].depth;
    if (last)
        *last = at < IDS ? external[s - cp_sessions][kind].id[at] : 0;
    return 0;
}

CP_EXPORT cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id) {
    CP_ENTER(call, CP_CALLBACK);
    return cp_leave(&call, call.fault ? call.fault : cp_external_push(cp_sessions, kind, id));
}

CP_EXPORT cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                uint64_t *last) {
    CP_ENTER(call, CP_CALLBACK);
    return cp_leave(&call, call.fault ? call.fault : cp_external_pop(cp_sessions, kind, last));
}

/* Such records come with those of calls only; a number has them once. */
static void tell_external(const struct sd_tapped *tapped) {
    if (tapped->outer && tapped->outer->correlation == tapped->correlation)
        return;
    for (int i = 0; i < CP_SESSIONS; i++) {
        struct cp_session *s = &cp_sessions[i];
        if (!cp_wants(s, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) ||
            (!cp_wants(s, CUPTI_ACTIVITY_KIND_RUNTIME) && !cp_wants(s, CUPTI_ACTIVITY_KIND_DRIVER)))
            continue;
        for (int kind = 1; kind < KINDS; kind++) {
            unsigned at = external[i][kind].depth;
            if (!at)
                continue;
            struct cp_record r;
            cp_begin(&r, CP_R_EXTERNAL_CORRELATION);
            SET(&r, EXTERNAL_CORRELATION, externalKind, kind);
            SET(&r, EXTERNAL_CORRELATION, externalId,
                external[i][kind].id[at > IDS ? IDS - 1 : at - 1]);
            SET(&r, EXTERNAL_CORRELATION, correlationId, tapped->correlation);
            cp_append(s, &r);
        }
    }
}

/* ---- records of calls ---- */

static int kind_of(const struct sd_tapped *tapped) {
    return tapped->domain == SD_DOMAIN_RUNTIME ? CUPTI_ACTIVITY_KIND_RUNTIME
                                               : CUPTI_ACTIVITY_KIND_DRIVER;
}

/* A driver's call that one of the runtime's makes. */
static bool nested(const struct sd_tapped *tapped) {
    return tapped->domain == SD_DOMAIN_DRIVER && tapped->outer &&
           tapped->outer->domain == SD_DOMAIN_RUNTIME;
}

/* Where calls of the runtime have records, the driver's inside them have none: Kineto relies on one
 * record for each correlation id. */
static void tell_call(const struct sd_tapped *tapped, const struct frame *f) {
    int kind = kind_of(tapped);
    if (!cp_anyone_wants(kind))
        return;
    struct cp_record r;
    cp_begin_as(&r, CP_R_API, kind);
    SET(&r, API, cbid, f->number);
    SET(&r, API, start, f->start);
    SET(&r, API, end, cp_now());
    SET(&r, API, processId, getpid());
    SET(&r, API, threadId, thread_id());
    SET(&r, API, correlationId, tapped->correlation);
    SET(&r, API, returnValue, tapped->status);
    for (int i = 0; i < CP_SESSIONS; i++)
        if (cp_wants(&cp_sessions[i], kind) &&
            !(nested(tapped) && cp_wants(&cp_sessions[i], CUPTI_ACTIVITY_KIND_RUNTIME)) &&
            !atomic_load(&cp_sessions[i].ignored[tapped->domain][f->number]))
            cp_append(&cp_sessions[i], &r);
}

/* An event that a stream records: of the runtime, whose parameters are the event and the stream. */
static void tell_event(const struct sd_tapped *tapped) {
    static atomic_uint_fast64_t syncs;
    if (tapped->status || tapped->domain != SD_DOMAIN_RUNTIME ||
        strncmp(tapped->name, "cudaEventRecord", 15) != 0 ||
        !cp_anyone_wants(CUPTI_ACTIVITY_KIND_CUDA_EVENT))
        return;
    const struct { void *event, *stream; } *params = tapped->params;
    struct cp_record r;
    cp_begin(&r, CP_R_CUDA_EVENT);
    SET(&r, CUDA_EVENT, correlationId, tapped->correlation);
    SET(&r, CUDA_EVENT, contextId, cp_context_id(tapped->device));
    SET(&r, CUDA_EVENT, streamId,
        sd_stream_number(params->stream, strstr(tapped->name, "_ptsz") != NULL));
    SET(&r, CUDA_EVENT, eventId, (uintptr_t)params->event >> 4 & 0xffffff);
    SET(&r, CUDA_EVENT, deviceId, tapped->device);
    SET(&r, CUDA_EVENT, cudaEventSyncId, atomic_fetch_add(&syncs, 1) + 1);
    for (int i = 0; i < CP_SESSIONS; i++)
        if (cp_wants(&cp_sessions[i], CUPTI_ACTIVITY_KIND_CUDA_EVENT))
            cp_append(&cp_sessions[i], &r);
}

/* ---- callbacks of calls ---- */

/* Calls whose parameters CUPTI has no struct for. */
static bool no_params(const struct sd_tapped *tapped) {
    static const char *const names[] = {
        "cudaDeviceSynchronize", "cudaDeviceReset",      "cudaGetLastError", "cudaPeekAtLastError",
        "cudaProfilerStart",     "cudaProfilerStop",     "cuCtxSynchronize", "cuProfilerStart",
        "cuProfilerStop",        "cudaThreadSynchronize"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], tapped->name) == 0)
            return true;
    return strncmp(tapped->name, "__cuda", 6) == 0;
}

static void call_back(struct sd_tapped *tapped, struct frame *f, bool exit) {
    CUpti_CallbackData data = {
        .callbackSite = (CUpti_ApiCallbackSite)(exit ? CUPTI_API_EXIT : CUPTI_API_ENTER),
        .functionName = f->function,
        .functionParams = no_params(tapped) ? NULL : tapped->params,
        .functionReturnValue = exit ? &tapped->status : NULL,
        .symbolName = tapped->kernel,
        .context = tapped->context ? cp_context(tapped->device) : NULL,
        .contextUid = tapped->context ? cp_context_id(tapped->device) : 0,
        .correlationId = tapped->correlation,
    };
    for (int i = 0; i < CP_SUBSCRIBERS; i++) {
        data.correlationData = &f->data[i];
        cp_call_back(&cp_subscribers[i], (int)tapped->domain, f->number, &data);
    }
}

/* What a callback may do to the device: wait, and nothing else. */
static bool allowed_inside(const char *name) {
    static const char *const waits[] = {"cudaDeviceSynchronize",      "cudaStreamSynchronize",
                                        "cudaStreamSynchronize_ptsz", "cuCtxSynchronize",
                                        "cuCtxSynchronize_v2",        "cuStreamSynchronize",
                                        "cuStreamSynchronize_ptsz"};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
        if (strcmp(waits[i], name) == 0)
            return cp_where == CP_CALLBACK;
    return false;
}

/* The library goes away under its clients, as after an error that it cannot survive. */
static void maybe_unload(void) {
    static atomic_uint calls;
    if (cp_fault(CP_UNLOAD) && atomic_fetch_add(&calls, 1) == 200)
        cp_finalize("unload");
}

/* A call whose end was not told (the listener had gone) is none that this one is inside of. */
static bool around(const struct sd_tapped *inner, const struct sd_tapped *call) {
    const struct sd_tapped *outer = inner->outer;
    while (outer && outer != call)
        outer = outer->outer;
    return outer != NULL;
}

static struct frame *new_frame(const struct sd_tapped *tapped) {
    while (depth && !around(tapped, frames[depth - 1].call))
        depth--;
    struct frame *f = &frames[depth < DEPTH - 1 ? depth++ : DEPTH - 1];
    memset(f, 0, sizeof *f);
    f->call = tapped;
    return f;
}

/* NULL: nobody listened when the call began. */
static struct frame *end_frame(const struct sd_tapped *tapped) {
    struct frame *f = &frames[DEPTH - 1];
    for (unsigned i = depth; i > 0 && f->call != tapped; i--)
        f = &frames[i - 1];
    if (f->call != tapped || (uintptr_t)f != tapped->data)
        return NULL;
    if (f < &frames[depth])
        depth = (unsigned)(f - frames);
    f->call = NULL;
    return f;
}

void cp_enter(struct sd_tapped *tapped) {
    struct frame *f = new_frame(tapped);
    f->number = cp_number((int)tapped->domain, tapped->name);
    f->silent = cp_where != CP_OUTSIDE;
    f->function = tapped->name;
    tapped->data = (uintptr_t)f;
    if (f->silent && !nested(tapped) && !allowed_inside(tapped->name))
        sd_truth_note("#misuse %d %s in=%s", (int)getpid(), tapped->name,
                      cp_where == CP_CALLBACK ? "callback" : "buffer");
    if (f->silent)
        return;
    cp_dispatch_resources();
    f->start = cp_now();
    if (tapped->kernel)
        cp_launched(tapped);
    if (!f->number || f->number >= CP_CALLBACKS)
        return;
    tell_external(tapped);
    call_back(tapped, f, false);
    maybe_unload();
}

static void tell_profiled(const struct sd_tapped *tapped) {
    const CUpti_ResourceData data = {.context = cp_context(tapped->device)};
    for (int i = 0; i < CP_SUBSCRIBERS; i++)
        cp_call_back(&cp_subscribers[i], CUPTI_CB_DOMAIN_RESOURCE,
                     CUPTI_CBID_RESOURCE_MODULE_PROFILED, &data);
}

void cp_exit(struct sd_tapped *tapped) {
    struct frame *f = end_frame(tapped);
    if (!f || f->silent)
        return;
    if (tapped->kernel && tapped->status)
        cp_launch_failed(tapped);
    cp_dispatch_resources();
    if (f->number && f->number < CP_CALLBACKS) {
        if (tapped->kernel && !tapped->status)
            tell_profiled(tapped);
        call_back(tapped, f, true);
        tell_call(tapped, f);
        tell_event(tapped);
    }
    cp_drain(false);
}
