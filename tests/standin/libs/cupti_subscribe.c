/*
 * cupti_subscribe.c - subscribers of the simulated CUPTI: one at a time, or several where version
 * and driver allow it; and which callbacks each of them wants. Any thread; not safe in a signal
 * handler.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cupti_standin.h"

struct CUpti_Subscriber_st cp_subscribers[CP_SUBSCRIBERS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of coming, going, and `mode` */
static enum cp_mode mode;

enum cp_mode cp_mode(void) {
    return mode;
}

int cp_mode_status(enum cp_mode wanted) {
    if (cp_options()->taken)
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    if (!cp_options()->multi)
        return 0;
    pthread_mutex_lock(&lock);
    if (mode == CP_UNDECIDED)
        mode = wanted;
    bool fits = mode == wanted;
    pthread_mutex_unlock(&lock);
    return fits ? 0 : CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
}

struct CUpti_Subscriber_st *cp_subscriber(CUpti_SubscriberHandle handle) {
    for (int i = 0; i < CP_SUBSCRIBERS; i++)
        if (handle == &cp_subscribers[i] && atomic_load(&handle->live))
            return handle;
    return NULL;
}

/* Lock held. The tool that came before everybody, once. */
static void seat_foreign(void) {
    static bool done;
    if (done || !cp_options()->taken)
        return;
    done = true;
    struct CUpti_Subscriber_st *s = &cp_subscribers[0];
    s->foreign = true;
    snprintf(s->name, sizeof s->name, "CUPTI for %s", cp_options()->taken);
    atomic_store(&s->live, true);
}

/* Lock held. A free place, or NULL with the one who stands in the way. */
static struct CUpti_Subscriber_st *seat(bool share, struct CUpti_Subscriber_st **other) {
    struct CUpti_Subscriber_st *place = NULL;
    *other = NULL;
    for (int i = CP_SUBSCRIBERS - 1; i >= 0; i--)
        if (atomic_load(&cp_subscribers[i].live))
            *other = &cp_subscribers[i];
        else
            place = &cp_subscribers[i];
    if (!cp_options()->multi)
        return *other ? NULL : place;
    enum cp_mode wanted = share ? CP_SEVERAL : CP_SINGLE;
    bool fits = mode == CP_UNDECIDED || mode == wanted;
    return fits && (share || !*other) ? place : NULL;
}

/* Lock held. */
static void settle(struct CUpti_Subscriber_st *place, bool share) {
    if (cp_options()->multi)
        mode = share ? CP_SEVERAL : CP_SINGLE;
    memset(place->enabled, 0, sizeof place->enabled);
    place->session =
        share && cp_options()->multi ? &cp_sessions[1 + (place - cp_subscribers)] : NULL;
    if (place->session)
        cp_session_reset(place->session);
    atomic_store(&place->live, true);
}

int cp_subscribe(CUpti_SubscriberHandle *out, CUpti_CallbackFunc callback, void *userdata,
                 const CUpti_SubscriberParams *params, bool share, const void *caller) {
    if (!out)
        return CUPTI_ERROR_INVALID_PARAMETER;
    while (cp_fault(CP_HANG_SUBSCRIBE))
        pause();
    const char *module = cp_module(caller);
    const char *name = params && params->subscriberName ? params->subscriberName : "";
    struct CUpti_Subscriber_st *other;
    pthread_mutex_lock(&lock);
    seat_foreign();
    struct CUpti_Subscriber_st *place = seat(share, &other);
    if (place) {
        snprintf(place->name, sizeof place->name, "CUPTI for %s", name);
        place->callback = callback;
        place->userdata = userdata;
        place->module = module;
        settle(place, share);
        *out = place;
    } else if (other && params && params->oldSubscriberName && params->oldSubscriberSize) {
        snprintf(params->oldSubscriberName, params->oldSubscriberSize, "%s", other->name);
    }
    pthread_mutex_unlock(&lock);
    cp_note("subscribe module=%s name=%s status=%d", module, name, place ? 0 : 39);
    cp_listen();
    return place ? 0 : CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
}

CP_EXPORT cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback,
                         void *userdata) {
    const void *caller = __builtin_return_address(0);
    CP_ENTER(call, 0);
    return cp_leave(&call, call.fault
                               ? call.fault
                               : cp_subscribe(handle, callback, userdata, NULL, false, caller));
}

/* What stands after the struct of 13.0; its size says whether it is there. */
static bool asks_to_share(const CUpti_SubscriberParams *params) {
    return cp_options()->version >= CP_13_3 && params && params->structSize > sizeof *params &&
           *((const uint8_t *)params + sizeof *params) != 0;
}

static bool well_formed(const CUpti_SubscriberParams *params) {
    if (!params)
        return true;
    return params->structSize >= sizeof *params &&
           (!params->subscriberName || strlen(params->subscriberName) <= 53) &&
           (!params->oldSubscriberName || params->oldSubscriberSize >= 64);
}

CP_EXPORT cuptiSubscribe_v2(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback,
                            void *userdata, CUpti_SubscriberParams *params) {
    const void *caller = __builtin_return_address(0);
    CP_ENTER(call, 0);
    int status = lib_status(&call, well_formed(params) ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (!status)
        status = cp_subscribe(handle, callback, userdata, params, asks_to_share(params), caller);
    return cp_leave(&call, status);
}

static void leave(struct CUpti_Subscriber_st *s) {
    pthread_mutex_lock(&lock);
    atomic_store(&s->live, false);
    if (s->session)
        cp_session_reset(s->session);
    bool anyone = false;
    for (int i = 0; i < CP_SUBSCRIBERS; i++)
        anyone |= atomic_load(&cp_subscribers[i].live);
    if (!anyone)
        mode = CP_UNDECIDED;
    pthread_mutex_unlock(&lock);
}

CP_EXPORT cuptiUnsubscribe(CUpti_SubscriberHandle handle) {
    CP_ENTER(call, CP_CALLBACK);
    struct CUpti_Subscriber_st *s = cp_subscriber(handle);
    int status = lib_status(&call, s && !s->foreign ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (status == 0) {
        leave(s);
        cp_note("unsubscribe module=%s", s->module);
        cp_listen();
    }
    return cp_leave(&call, status);
}

/* Everything of everybody ends: subscribers, kinds, buffers that were not handed back. */
void cp_finalize(const char *by) {
    cp_note("finalize by=%s", by);
    for (int i = 0; i < CP_SUBSCRIBERS; i++)
        if (!cp_subscribers[i].foreign)
            atomic_store(&cp_subscribers[i].live, false);
    pthread_mutex_lock(&lock);
    mode = CP_UNDECIDED;
    pthread_mutex_unlock(&lock);
    cp_listen();
    for (int i = 0; i < CP_SESSIONS; i++)
        cp_session_reset(&cp_sessions[i]);
}

CP_EXPORT cuptiFinalize(void) {
    const void *caller = __builtin_return_address(0);
    CP_ENTER(call, CP_CALLBACK);
    int active = 0;
    for (int i = 0; i < CP_SUBSCRIBERS; i++)
        active += atomic_load(&cp_subscribers[i].live);
    if (!call.fault && (cp_mode() != CP_SEVERAL || active < 2))
        cp_finalize(cp_module(caller));
    return cp_leave(&call, call.fault);
}

/* ---- which callbacks ---- */

static bool known(int domain, uint32_t id) {
    return domain > 0 && domain < CUPTI_CB_DOMAIN_SIZE && id > 0 && id < cp_numbers(domain);
}

static void enable(struct CUpti_Subscriber_st *s, int domain, bool on) {
    for (uint32_t id = 1; id < cp_numbers(domain); id++)
        atomic_store(&s->enabled[domain][id], on);
}

static struct CUpti_Subscriber_st *own(CUpti_SubscriberHandle handle) {
    struct CUpti_Subscriber_st *s = cp_subscriber(handle);
    return s && !s->foreign ? s : NULL;
}

CP_EXPORT cuptiEnableCallback(uint32_t on, CUpti_SubscriberHandle handle,
                              CUpti_CallbackDomain domain, CUpti_CallbackId id) {
    CP_ENTER(call, CP_CALLBACK);
    standin_put(&call, "enable", on);
    standin_put(&call, "domain", (uint64_t)domain);
    standin_put(&call, "id", id);
    struct CUpti_Subscriber_st *s = own(handle);
    int status = lib_status(&call, s && known((int)domain, id) ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (status == 0) {
        atomic_store(&s->enabled[domain][id], on != 0);
        cp_listen();
    }
    return cp_leave(&call, status);
}

CP_EXPORT cuptiEnableDomain(uint32_t on, CUpti_SubscriberHandle handle,
                            CUpti_CallbackDomain domain) {
    CP_ENTER(call, CP_CALLBACK);
    standin_put(&call, "enable", on);
    standin_put(&call, "domain", (uint64_t)domain);
    struct CUpti_Subscriber_st *s = own(handle);
    int status = lib_status(&call, s && known((int)domain, 1) ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (status == 0) {
        enable(s, (int)domain, on);
        cp_listen();
    }
    return cp_leave(&call, status);
}

CP_EXPORT cuptiEnableAllDomains(uint32_t on, CUpti_SubscriberHandle handle) {
    CP_ENTER(call, CP_CALLBACK);
    struct CUpti_Subscriber_st *s = own(handle);
    int status = lib_status(&call, s ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (status == 0) {
        for (int domain = 1; domain < CUPTI_CB_DOMAIN_SIZE; domain++)
            enable(s, domain, on);
        cp_listen();
    }
    return cp_leave(&call, status);
}

CP_EXPORT cuptiGetCallbackState(uint32_t *on, CUpti_SubscriberHandle handle,
                                CUpti_CallbackDomain domain, CUpti_CallbackId id) {
    CP_ENTER(call, CP_CALLBACK);
    struct CUpti_Subscriber_st *s = own(handle);
    bool valid = on && s && known((int)domain, id);
    int status = lib_status(&call, valid ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (status == 0)
        *on = atomic_load(&s->enabled[domain][id]);
    return cp_leave(&call, status);
}

CP_EXPORT cuptiSupportedDomains(size_t *count, CUpti_DomainTable *table) {
    CP_ENTER(call, CP_CALLBACK);
    static CUpti_CallbackDomain domains[] = {(CUpti_CallbackDomain)CUPTI_CB_DOMAIN_DRIVER_API,
                                             (CUpti_CallbackDomain)CUPTI_CB_DOMAIN_RUNTIME_API,
                                             (CUpti_CallbackDomain)CUPTI_CB_DOMAIN_RESOURCE,
                                             (CUpti_CallbackDomain)4,
                                             (CUpti_CallbackDomain)5,
                                             (CUpti_CallbackDomain)CUPTI_CB_DOMAIN_STATE};
    int status = lib_status(&call, count && table ? 0 : CUPTI_ERROR_INVALID_PARAMETER);
    if (status == 0) {
        *count = sizeof domains / sizeof *domains;
        *table = domains;
    }
    return cp_leave(&call, status);
}

void cp_call_back(struct CUpti_Subscriber_st *s, int domain, uint32_t id, const void *data) {
    if (!atomic_load(&s->live) || !s->callback || !atomic_load(&s->enabled[domain][id]))
        return;
    if (cp_fault(CP_SLOW_CALLBACK))
        usleep(500);
    enum cp_where outer = cp_where;
    cp_where = CP_CALLBACK;
    s->callback(s->userdata, (CUpti_CallbackDomain)domain, id, data);
    cp_where = outer;
}
