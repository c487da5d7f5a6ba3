/*
 * cupti.c - a CUPTI that takes one subscriber, accepts every kind of activity, and delivers
 * nothing: no callback is called and no buffer is asked for. Any thread; not safe in a signal
 * handler.
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "cupti_types.h"
#include "lib.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define EXPORT STANDIN_EXPORT CUptiResult

struct CUpti_Subscriber_st {
    char name[64];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the two below */
static struct CUpti_Subscriber_st subscriber;
static bool subscribed;

static int subscribe(CUpti_SubscriberHandle *out, const char *name, char *old, size_t old_size) {
    if (!out)
        return CUPTI_ERROR_INVALID_PARAMETER;
    int status = 0;
    pthread_mutex_lock(&lock);
    if (subscribed) {
        if (old && old_size)
            snprintf(old, old_size, "%s", subscriber.name);
        status = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    } else {
        subscribed = true;
        snprintf(subscriber.name, sizeof subscriber.name, "%s", name ? name : "");
        *out = &subscriber;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

EXPORT cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *userdata) {
    LIB_ENTER(call);
    return standin_leave(&call, call.fault ? call.fault : subscribe(handle, NULL, NULL, 0));
}

EXPORT cuptiSubscribe_v2(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback,
                         void *userdata, CUpti_SubscriberParams *params) {
    LIB_ENTER(call);
    int status = call.fault;
    if (!status && params && params->structSize < sizeof *params)
        status = CUPTI_ERROR_INVALID_PARAMETER;
    if (!status)
        status = params ? subscribe(handle, params->subscriberName, params->oldSubscriberName,
                                    params->oldSubscriberSize)
                        : subscribe(handle, NULL, NULL, 0);
    return standin_leave(&call, status);
}

static int unsubscribe(CUpti_SubscriberHandle handle) {
    pthread_mutex_lock(&lock);
    bool ours = subscribed && handle == &subscriber;
    if (ours)
        subscribed = false;
    pthread_mutex_unlock(&lock);
    return ours ? 0 : CUPTI_ERROR_INVALID_PARAMETER;
}

EXPORT cuptiUnsubscribe(CUpti_SubscriberHandle handle) {
    LIB_ENTER(call);
    return standin_leave(&call, call.fault ? call.fault : unsubscribe(handle));
}

EXPORT cuptiFinalize(void) {
    LIB_ENTER(call);
    if (!call.fault)
        unsubscribe(&subscriber);
    return standin_leave(&call, call.fault);
}

/* ---- functions that say yes ---- */

#define YES(name, ...)                                                                             \
    EXPORT name(__VA_ARGS__) {                                                                     \
        LIB_ENTER(call);                                                                           \
        return standin_leave(&call, call.fault);                                                   \
    }
#define YES_KIND(name)                                                                             \
    EXPORT name(CUpti_ActivityKind kind) {                                                         \
        LIB_ENTER(call);                                                                           \
        standin_put_signed(&call, "kind", (int)kind);                                              \
        return standin_leave(&call, call.fault);                                                   \
    }

YES_KIND(cuptiActivityEnable)
YES_KIND(cuptiActivityEnableAndDump)
YES_KIND(cuptiActivityDisable)
YES(cuptiActivityEnableContext, CUcontext context, CUpti_ActivityKind kind)
YES(cuptiActivityDisableContext, CUcontext context, CUpti_ActivityKind kind)
YES(cuptiActivityRegisterCallbacks, CUpti_BuffersCallbackRequestFunc requested,
    CUpti_BuffersCallbackCompleteFunc completed)
YES(cuptiActivityRegisterTimestampCallback, CUpti_TimestampCallbackFunc timestamp)
YES(cuptiActivityFlush, CUcontext context, uint32_t stream, uint32_t flag)
YES(cuptiActivityFlushAll, uint32_t flag)
YES(cuptiActivityFlushPeriod, uint32_t time)
YES(cuptiActivitySetAttribute, CUpti_ActivityAttribute attribute, size_t *size, void *value)
YES(cuptiActivityPushExternalCorrelationId, CUpti_ExternalCorrelationKind kind, uint64_t id)
YES(cuptiActivityEnableLatencyTimestamps, uint8_t enable)
YES(cuptiActivityEnableLaunchAttributes, uint8_t enable)
YES(cuptiActivityEnableDeviceGraph, uint8_t enable)
YES(cuptiActivityEnableHWTrace, uint8_t enable)
YES(cuptiActivityEnableAllocationSource, uint8_t enable)
YES(cuptiActivityEnableAllSyncRecords, uint8_t enable)
YES(cuptiActivityEnableCudaEventDeviceTimestamps, uint8_t enable)
YES(cuptiActivityEnableDriverApi, CUpti_CallbackId id, uint8_t enable)
YES(cuptiActivityEnableRuntimeApi, CUpti_CallbackId id, uint8_t enable)
YES(cuptiSetThreadIdType, CUpti_ActivityThreadIdType type)
YES(cuptiEnableCallback, uint32_t enable, CUpti_SubscriberHandle handle,
    CUpti_CallbackDomain domain, CUpti_CallbackId id)
YES(cuptiEnableDomain, uint32_t enable, CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain)
YES(cuptiEnableAllDomains, uint32_t enable, CUpti_SubscriberHandle handle)
YES(cuptiGetLastError, void)

/* ---- functions that answer ---- */

EXPORT cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record) {
    LIB_ENTER(call);
    return standin_leave(&call, lib_status(&call, CUPTI_ERROR_MAX_LIMIT_REACHED));
}

EXPORT cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *last) {
    LIB_ENTER(call);
    if (last && !call.fault)
        *last = 0;
    return standin_leave(&call, call.fault);
}

EXPORT cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped) {
    LIB_ENTER(call);
    int status = lib_status(&call, dropped ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (status == 0)
        *dropped = 0;
    return standin_leave(&call, status);
}

EXPORT cuptiGetVersion(uint32_t *version) {
    LIB_ENTER(call);
    int status = lib_status(&call, version ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (status == 0)
        *version = STANDIN_CUPTI_VERSION;
    return standin_leave(&call, status);
}

/* In nanoseconds of the wall clock, as the real one's default. */
EXPORT cuptiGetTimestamp(uint64_t *timestamp) {
    LIB_ENTER(call);
    int status = lib_status(&call, timestamp ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (status == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        *timestamp = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    }
    return standin_leave(&call, status);
}

static int result_text(CUptiResult result, const char **text) {
    if (!text)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *text = (int)result == 0 ? "CUPTI_SUCCESS"
            : (int)result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
                ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
                : "CUPTI_ERROR_NOT_SUPPORTED";
    return 0;
}

EXPORT cuptiGetResultString(CUptiResult result, const char **text) {
    return result_text(result, text);
}

EXPORT cuptiGetErrorMessage(CUptiResult result, const char **text) {
    return result_text(result, text);
}
