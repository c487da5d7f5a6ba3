/*
 * cupti_activity.c - the activity API: which kinds of records a client wants, the functions that
 * give and take its buffers, flushing. Any thread; not safe in a signal handler.
 */
#include <string.h>

#include "cupti_standin.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

static struct cp_session *const common = &cp_sessions[0];

int cp_enable(struct cp_session *session, int kind, bool on) {
    if (kind <= 0 || kind >= cp_options()->kinds)
        return CUPTI_ERROR_INVALID_KIND;
    cp_drain(true); /* what is done already was done under the kinds so far */
    uint64_t bit = 1ull << kind, kernels = 1ull << CUPTI_ACTIVITY_KIND_KERNEL |
                                           1ull << CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    if (on && (bit & kernels) && (atomic_load(&session->kinds) & kernels & ~bit))
        return CUPTI_ERROR_NOT_COMPATIBLE;
    if (on)
        atomic_fetch_or(&session->kinds, bit);
    else
        atomic_fetch_and(&session->kinds, ~bit);
    cp_listen();
    if (on) {
        cp_worker_start();
        cp_tell_standing(session, kind);
    } else {
        cp_drain(false);
    }
    return 0;
}

static int enable(struct standin_call *call, CUpti_ActivityKind kind, bool on) {
    standin_put_signed(call, "kind", (int)kind);
    int status = call->fault ? call->fault : cp_mode_status(CP_SINGLE);
    return status ? status : cp_enable(common, (int)kind, on);
}

CP_EXPORT cuptiActivityEnable(CUpti_ActivityKind kind) {
    CP_ENTER(call, CP_CALLBACK);
    return cp_leave(&call, enable(&call, kind, true));
}

CP_EXPORT cuptiActivityEnableAndDump(CUpti_ActivityKind kind) {
    CP_ENTER(call, CP_CALLBACK);
    return cp_leave(&call, enable(&call, kind, true));
}

CP_EXPORT cuptiActivityDisable(CUpti_ActivityKind kind) {
    CP_ENTER(call, CP_CALLBACK);
    return cp_leave(&call, enable(&call, kind, false));
}

/* Contexts are not told apart. */
CP_EXPORT cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind) {
    CP_ENTER(call, CP_CALLBACK);
    int status = lib_status(&call, cp_device_of(context) < 0 ? CUPTI_ERROR_INVALID_CONTEXT : 0);
    return cp_leave(&call, status ? status : enable(&call, kind, true));
}

CP_EXPORT cuptiActivityDisableContext(CUcontext context, CUpti_ActivityKind kind) {
    CP_ENTER(call, CP_CALLBACK);
    int status = lib_status(&call, cp_device_of(context) < 0 ? CUPTI_ERROR_INVALID_CONTEXT : 0);
    return cp_leave(&call, status ? status : enable(&call, kind, false));
}

/* The latest functions count; a buffer of the ones before goes to them. */
CP_EXPORT cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
                                         CUpti_BuffersCallbackCompleteFunc completed) {
    CP_ENTER(call, CP_CALLBACK);
    int status = lib_status(&call, requested && completed ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (!status)
        status = cp_mode_status(CP_SINGLE);
    if (!status) {
        cp_drain(true);
        pthread_mutex_lock(&common->lock);
        common->request = requested;
        common->complete = completed;
        pthread_mutex_unlock(&common->lock);
        cp_note("register module=%s", cp_module((const void *)(uintptr_t)completed));
    }
    return cp_leave(&call, status);
}

static bool registered(void) {
    for (int i = 0; i < CP_SESSIONS; i++)
        if (cp_sessions[i].complete || cp_sessions[i].complete_v2)
            return true;
    return false;
}

static int flush(const struct standin_call *call, uint32_t flag) {
    if (call->fault)
        return call->fault;
    if (!registered())
        return CUPTI_ERROR_INVALID_OPERATION;
    cp_flush(flag & 1);
    return 0;
}

CP_EXPORT cuptiActivityFlush(CUcontext context, uint32_t stream, uint32_t flag) {
    CP_ENTER(call, CP_CALLBACK);
    return cp_leave(&call, flush(&call, flag));
}

CP_EXPORT cuptiActivityFlushAll(uint32_t flag) {
    CP_ENTER(call, CP_CALLBACK);
    standin_put(&call, "flag", flag);
    return cp_leave(&call, flush(&call, flag));
}

/* Full buffers come at once here, period or not. */
CP_EXPORT cuptiActivityFlushPeriod(uint32_t time) {
    CP_ENTER(call, 0);
    int status = lib_status(&call, cp_mode() == CP_SEVERAL ? CUPTI_ERROR_NOT_SUPPORTED : 0);
    return cp_leave(&call, status);
}

CP_EXPORT cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped) {
    CP_ENTER(call, CP_CALLBACK | CP_COMPLETE);
    int status = lib_status(&call, dropped ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (!status) {
        pthread_mutex_lock(&common->lock);
        *dropped = common->dropped;
        common->dropped = 0;
        pthread_mutex_unlock(&common->lock);
    }
    return cp_leave(&call, status);
}

CP_EXPORT cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record) {
    CP_ENTER(call, CP_EVERYWHERE);
    return cp_leave(&call, call.fault ? call.fault : cp_next_record(buffer, valid, record));
}

static int ignore(struct standin_call *call, int domain, CUpti_CallbackId id, uint8_t on) {
    standin_put(call, "id", id);
    if (call->fault)
        return call->fault;
    if (!id || id >= cp_numbers(domain))
        return CUPTI_ERROR_INVALID_PARAMETER;
    atomic_store(&common->ignored[domain][id], !on);
    return 0;
}

CP_EXPORT cuptiActivityEnableDriverApi(CUpti_CallbackId id, uint8_t enable) {
    CP_ENTER(call, CP_CALLBACK);
    return cp_leave(&call, ignore(&call, SD_DOMAIN_DRIVER, id, enable));
}

CP_EXPORT cuptiActivityEnableRuntimeApi(CUpti_CallbackId id, uint8_t enable) {
    CP_ENTER(call, CP_CALLBACK);
    return cp_leave(&call, ignore(&call, SD_DOMAIN_RUNTIME, id, enable));
}

/* ---- attributes ---- */

/* Size and default of each, by number; size 0: not in this API. */
static const struct {
    size_t size;
    uint64_t value;
    enum cp_version since;
} attributes[] = {
    {8, 3200000, CP_11_8}, {8, 3200000, CP_11_8}, {8, 250, CP_11_8}, {8, 25, CP_11_8},
    {8, 250, CP_11_8},     {1, 0, CP_11_8},       {8, 3, CP_11_8},   {8, 3, CP_11_8},
    {1, 0, CP_11_8},       {1, 1, CP_12_4},       {8, 0, CP_13_0},
};
#define ATTRIBUTES (sizeof attributes / sizeof *attributes)
static uint64_t values[ATTRIBUTES];
static bool given[ATTRIBUTES];

static int attribute(CUpti_ActivityAttribute which, const size_t *size, const void *value) {
    size_t i = (size_t)which;
    if ((int)which < 0 || i >= ATTRIBUTES || cp_options()->version < attributes[i].since || !size ||
        !value)
        return CUPTI_ERROR_INVALID_PARAMETER;
    return *size < attributes[i].size ? CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT : 0;
}

CP_EXPORT cuptiActivitySetAttribute(CUpti_ActivityAttribute which, size_t *size, void *value) {
    CP_ENTER(call, 0);
    standin_put_signed(&call, "attribute", (int)which);
    int status = lib_status(&call, attribute(which, size, value));
    if (!status) {
        memcpy(&values[which], value, attributes[which].size);
        given[which] = true;
    }
    return cp_leave(&call, status);
}

CP_EXPORT cuptiActivityGetAttribute(CUpti_ActivityAttribute which, size_t *size, void *value) {
    CP_ENTER(call, 0);
    int status = lib_status(&call, attribute(which, size, value));
    if (!status) {
        memcpy(value, given[which] ? &values[which] : &attributes[which].value,
               attributes[which].size);
        *size = attributes[which].size;
    }
    return cp_leave(&call, status);
}
