/*
 * cupti_next.c - what only CUPTI 13.3 exports: the activity API of one subscriber among several.
 * libcupti_13_3.so shows it to clients. A subscriber that shares has a session of its own; one that
 * does not has the common one. Any thread; not safe in a signal handler.
 */
#include <string.h>

#include "cupti_standin.h"

#if !defined CUPTI_API_VERSION || CUPTI_API_VERSION < 130300
typedef struct {
    size_t structSize;
} CUpti_BufferCallbackRequestInfo;
typedef struct {
    size_t structSize;
    uint64_t threadId;
    void **ppRecordLayouts;
    size_t numRecordLayouts;
} CUpti_BufferCallbackCompleteInfo;
typedef void (*CUpti_BuffersCallbackRequestFunc_v2)(uint8_t **buffer, size_t *size, size_t *records,
                                                    CUpti_BufferCallbackRequestInfo *info);
typedef void (*CUpti_BuffersCallbackCompleteFunc_v2)(uint8_t *buffer, size_t size, size_t valid,
                                                     CUpti_BufferCallbackCompleteInfo *info);
typedef struct CUpti_ActivityConfig CUpti_ActivityConfig;
#endif

void cp_request_v2(struct cp_session *session, uint8_t **buffer, size_t *size, size_t *limit) {
    CUpti_BufferCallbackRequestInfo info = {sizeof info};
    CUpti_BuffersCallbackRequestFunc_v2 request;
    memcpy(&request, &session->request_v2, sizeof request);
    request(buffer, size, limit, &info);
}

void cp_complete_v2(struct cp_session *session, struct cp_buffer *buffer, size_t valid) {
    CUpti_BufferCallbackCompleteInfo info = {.structSize = sizeof info};
    CUpti_BuffersCallbackCompleteFunc_v2 complete;
    memcpy(&complete, &session->complete_v2, sizeof complete);
    complete(buffer->bytes, buffer->size, valid, &info);
}

/* The session that a subscriber's calls are about. */
static int session_of(CUpti_SubscriberHandle handle, struct cp_session **out) {
    struct CUpti_Subscriber_st *s = cp_subscriber(handle);
    if (!s || s->foreign)
        return CUPTI_ERROR_INVALID_PARAMETER;
    *out = s->session ? s->session : &cp_sessions[0];
    return 0;
}

#define OF_SUBSCRIBER(allowed)                                                                     \
    struct cp_session *session = NULL;                                                             \
    CP_ENTER(call, allowed);                                                                       \
    int status = lib_status(&call, session_of(subscriber, &session))

CP_EXPORT cuptiActivityRegisterCallbacks_v2(CUpti_SubscriberHandle subscriber,
                                            CUpti_BuffersCallbackRequestFunc_v2 requested,
                                            CUpti_BuffersCallbackCompleteFunc_v2 completed) {
    OF_SUBSCRIBER(CP_CALLBACK);
    if (!status && (!requested || !completed))
        status = CUPTI_ERROR_INVALID_PARAMETER;
    if (!status) {
        pthread_mutex_lock(&session->lock);
        memcpy(&session->request_v2, &requested, sizeof requested);
        memcpy(&session->complete_v2, &completed, sizeof completed);
        pthread_mutex_unlock(&session->lock);
        cp_note("register module=%s", cp_module(session->complete_v2));
    }
    return cp_leave(&call, status);
}

CP_EXPORT cuptiActivityEnable_v2(CUpti_SubscriberHandle subscriber, CUpti_ActivityKind kind,
                                 CUpti_ActivityConfig *config) {
    OF_SUBSCRIBER(CP_CALLBACK);
    standin_put_signed(&call, "kind", (int)kind);
    if (!status && config) /* records of the client's own making */
        status = CUPTI_ERROR_NOT_SUPPORTED;
    return cp_leave(&call, status ? status : cp_enable(session, (int)kind, true));
}

CP_EXPORT cuptiActivityEnableAndDump_v2(CUpti_SubscriberHandle subscriber, CUpti_ActivityKind kind,
                                        CUpti_ActivityConfig *config) {
    OF_SUBSCRIBER(CP_CALLBACK);
    if (!status && config)
        status = CUPTI_ERROR_NOT_SUPPORTED;
    return cp_leave(&call, status ? status : cp_enable(session, (int)kind, true));
}

CP_EXPORT cuptiActivityDisable_v2(CUpti_SubscriberHandle subscriber, CUpti_ActivityKind kind,
                                  CUpti_ActivityConfig *config) {
    OF_SUBSCRIBER(CP_CALLBACK);
    standin_put_signed(&call, "kind", (int)kind);
    (void)config;
    return cp_leave(&call, status ? status : cp_enable(session, (int)kind, false));
}

CP_EXPORT cuptiActivityGetNextRecord_v2(CUpti_SubscriberHandle subscriber, uint8_t *buffer,
                                        size_t valid, CUpti_Activity **record) {
    OF_SUBSCRIBER(CP_EVERYWHERE);
    return cp_leave(&call, status ? status : cp_next_record(buffer, valid, record));
}

CP_EXPORT cuptiActivityGetNumDroppedRecords_v2(CUpti_SubscriberHandle subscriber, CUcontext context,
                                               uint32_t stream, size_t *dropped) {
    OF_SUBSCRIBER(CP_CALLBACK | CP_COMPLETE);
    (void)context, (void)stream;
    if (!status && !dropped)
        status = CUPTI_ERROR_INVALID_PARAMETER;
    if (!status) {
        pthread_mutex_lock(&session->lock);
        *dropped = session->dropped;
        session->dropped = 0;
        pthread_mutex_unlock(&session->lock);
    }
    return cp_leave(&call, status);
}

CP_EXPORT cuptiActivityPushExternalCorrelationId_v2(CUpti_SubscriberHandle subscriber,
                                                    CUpti_ExternalCorrelationKind kind,
                                                    uint64_t id) {
    OF_SUBSCRIBER(CP_CALLBACK);
    return cp_leave(&call, status ? status : cp_external_push(session, kind, id));
}

CP_EXPORT cuptiActivityPopExternalCorrelationId_v2(CUpti_SubscriberHandle subscriber,
                                                   CUpti_ExternalCorrelationKind kind,
                                                   uint64_t *last) {
    OF_SUBSCRIBER(CP_CALLBACK);
    return cp_leave(&call, status ? status : cp_external_pop(session, kind, last));
}

static int ignore(struct cp_session *session, int domain, CUpti_CallbackId id, uint8_t on) {
    if (!id || id >= cp_numbers(domain))
        return CUPTI_ERROR_INVALID_PARAMETER;
    atomic_store(&session->ignored[domain][id], !on);
    return 0;
}

CP_EXPORT cuptiActivityEnableDriverApi_v2(CUpti_SubscriberHandle subscriber, CUpti_CallbackId id,
                                          uint8_t enable) {
    OF_SUBSCRIBER(CP_CALLBACK);
    return cp_leave(&call, status ? status : ignore(session, SD_DOMAIN_DRIVER, id, enable));
}

CP_EXPORT cuptiActivityEnableRuntimeApi_v2(CUpti_SubscriberHandle subscriber, CUpti_CallbackId id,
                                           uint8_t enable) {
    OF_SUBSCRIBER(CP_CALLBACK);
    return cp_leave(&call, status ? status : ignore(session, SD_DOMAIN_RUNTIME, id, enable));
}

/* Whether there is one subscriber (0), are several (1), or that is open (2). */
enum { MULTIPLE_SUBSCRIBER_STATE = 12, ATTRIBUTES = 24 };

CP_EXPORT cuptiActivityGetAttribute_v2(CUpti_SubscriberHandle subscriber,
                                       CUpti_ActivityAttribute which, size_t *size, void *value) {
    CP_ENTER(call, 0);
    bool state = (int)which == MULTIPLE_SUBSCRIBER_STATE;
    int status = lib_status(&call, !size || !value || (!state && !cp_subscriber(subscriber))
                                       ? CUPTI_ERROR_INVALID_PARAMETER
                                   : !state    ? CUPTI_ERROR_NOT_SUPPORTED
                                   : *size < 4 ? CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT
                                               : 0);
    if (!status) {
        uint32_t answer = cp_mode() == CP_SEVERAL ? 1 : cp_mode() == CP_SINGLE ? 0 : 2;
        memcpy(value, &answer, sizeof answer);
    }
    return cp_leave(&call, status);
}

CP_EXPORT cuptiActivitySetAttribute_v2(CUpti_SubscriberHandle subscriber,
                                       CUpti_ActivityAttribute which, size_t *size, void *value) {
    OF_SUBSCRIBER(0);
    bool known = (int)which >= 0 && (int)which < ATTRIBUTES &&
                 (int)which != MULTIPLE_SUBSCRIBER_STATE && size && value;
    return cp_leave(&call, status ? status : known ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
}

CP_EXPORT cuptiGetTimestamp_v2(CUpti_SubscriberHandle subscriber, uint64_t *timestamp) {
    OF_SUBSCRIBER(CP_EVERYWHERE);
    if (!status && !timestamp)
        status = CUPTI_ERROR_INVALID_PARAMETER;
    if (!status)
        *timestamp = cp_now();
    return cp_leave(&call, status);
}

CP_EXPORT cuptiActivityGetStructSize(CUpti_ActivityKind kind, uint32_t version, size_t *size) {
    CP_ENTER(call, CP_EVERYWHERE);
    int status = lib_status(&call, !size                            ? CUPTI_ERROR_INVALID_PARAMETER
                                   : version > cp_options()->number ? CUPTI_ERROR_NOT_SUPPORTED
                                   : !cp_size_of_kind((int)kind)    ? CUPTI_ERROR_INVALID_KIND
                                                                    : 0);
    if (!status)
        *size = cp_size_of_kind((int)kind);
    return cp_leave(&call, status);
}

CP_EXPORT cuptiIsTracingSessionRunning(uint8_t *running) {
    CP_ENTER(call, CP_EVERYWHERE);
    int status = lib_status(&call, running ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (!status) {
        *running = 0;
        for (int i = 0; i < CP_SESSIONS; i++)
            *running |= atomic_load(&cp_sessions[i].kinds) != 0;
    }
    return cp_leave(&call, status);
}
