/*
 * manners.c - see manners.h.
 */
#include "manners.h"

#include <stdatomic.h>
#include <string.h>

#include "activity.h"
#include "callback.h"
#include "client.h"
#include "clock.h"
#include "cupti.h"
#include "flush.h"
#include "ids.h"
#include "load.h"
#include "lock.h"
#include "state.h"
#include "wrap.h"

#define CLIENTS 8
#define REST_NS 200000000u /* so long it must have done nothing before we come back */

enum { FREE, ASKING, SUBSCRIBED };

struct ls_other_client {
    _Atomic int state;
    _Atomic(ls_cupti_callback_fn) callback;
    void *user;
    void *subscriber;
    bool several; /* it leaves room for other subscribers */
    bool new;     /* by cuptiSubscribe_v2 */
    /* Callbacks that it wants of the runtime's calls and the driver's: one bit each. */
    _Atomic uint64_t wanted[2][LS_CUPTI_IDS / 64];
};

static struct ls_other_client clients[CLIENTS];
_Atomic bool ls_cupti_watched;

/* The activity functions know no subscriber: these are of whoever called them last. */
static _Atomic(ls_cupti_requested_fn) requested;
static _Atomic(ls_cupti_completed_fn) completed;
static _Atomic(void *) clock_function;
static _Atomic bool had_clock; /* one was set, which may outlive its client, and cuptiFinalize */
static _Atomic uint64_t kinds; /* that are on: one bit each */
static _Atomic int32_t out;    /* its buffers that CUPTI has */
static _Atomic uint64_t acted; /* CLOCK_MONOTONIC ns of its last act */

/* ---- what CUPTI calls in its place ---- */

static void call_back(void *user, int domain, uint32_t id, const void *data) {
    struct ls_other_client *other = user;
    ls_cupti_callback_fn callback = atomic_load(&other->callback);
    if ((domain == LS_CUPTI_RUNTIME || domain == LS_CUPTI_DRIVER) &&
        ls_client_borrows(other->subscriber))
        ls_cupti_callback(NULL, domain, id, data);
    else if (callback)
        callback(other->user, domain, id, data);
}

static void request(uint8_t **buffer, size_t *size, size_t *records) {
    ls_cupti_requested_fn function = atomic_load(&requested);
    if (!function) {
        *buffer = NULL;
        *size = *records = 0;
        return;
    }
    function(buffer, size, records);
    if (*buffer)
        atomic_fetch_add(&out, 1);
}

/* By way of ls_activity_completed(), which knows buffers of ours. */
static void complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    ls_cupti_completed_fn function = atomic_load(&completed);
    atomic_fetch_sub(&out, 1);
    if (function)
        function(context, stream, buffer, size, valid);
}

/* ---- what it does ---- */

/* Whether the call is another client's: not where nothing is to be recorded, nor when CUPTI calls
 * itself inside a call of ours. */
static bool is_other(void) {
    return (atomic_load(&ls_live_page()->epoch) != LS_EPOCH_OFF ||
            ls_client_state() != LS_CLIENT_NONE) &&
           !ls_client_is_calling();
}

static bool wants_calls(struct ls_other_client *other) {
    uint64_t any = 0;
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < LS_CUPTI_IDS / 64; i++)
            any |= atomic_load(&other->wanted[d][i]);
    return any != 0;
}

static void note(void) {
    bool watched = atomic_load(&kinds) != 0;
    for (int i = 0; i < CLIENTS; i++)
        watched |= atomic_load(&clients[i].state) == SUBSCRIBED && wants_calls(&clients[i]);
    atomic_store(&ls_cupti_watched, watched);
    atomic_store(&acted, ls_ns(CLOCK_MONOTONIC));
}

void ls_other_acts(const char *what) {
    if (!is_other())
        return;
    struct ls_slow slow = ls_slow_begin();
    note();
    ls_client_leave(what);
    ls_slow_end(slow);
}

void ls_other_rests(void) {
    if (is_other())
        note();
}

static void forget(struct ls_other_client *other) {
    for (int d = 0; d < 2; d++)
        for (int i = 0; i < LS_CUPTI_IDS / 64; i++)
            atomic_store(&other->wanted[d][i], 0);
    atomic_store(&other->state, FREE);
}

struct ls_other_client *ls_other_subscribing(void **callback, void **user, void **params) {
    struct ls_other_client *other = NULL;
    if (!is_other())
        return NULL;
    ls_other_acts("another CUPTI client subscribes");
    for (int i = 0; i < CLIENTS && !other && *callback; i++) {
        int expected = FREE;
        if (atomic_compare_exchange_strong(&clients[i].state, &expected, ASKING))
            other = &clients[i];
    }
    if (!other)
        return NULL;
    const struct ls_cupti_subscriber_params *given = params ? *params : NULL;
    other->new = params != NULL;
    other->several = given && given->size > offsetof(struct ls_cupti_subscriber_params, several) &&
                     given->several;
    other->subscriber = NULL;
    other->user = *user;
    ls_cupti_callback_fn function;
    memcpy(&function, callback, sizeof function);
    atomic_store(&other->callback, function);
    function = call_back;
    memcpy(callback, &function, sizeof function);
    *user = other;
    return other;
}

void ls_other_subscribed(struct ls_other_client *other, void **subscriber, int status) {
    if (!other)
        return;
    if (status == LS_CUPTI_OK && subscriber) {
        other->subscriber = *subscriber;
        atomic_store(&other->state, SUBSCRIBED);
    } else {
        forget(other);
    }
    note();
}

static struct ls_other_client *known(const void *subscriber) {
    for (int i = 0; i < CLIENTS; i++)
        if (atomic_load(&clients[i].state) == SUBSCRIBED && clients[i].subscriber == subscriber)
            return &clients[i];
    return NULL;
}

void ls_other_unsubscribed(void *subscriber, int status) {
    struct ls_other_client *other = is_other() ? known(subscriber) : NULL;
    if (other && status == LS_CUPTI_OK)
        forget(other);
    ls_other_rests();
}

void ls_other_finalized(int status) {
    if (!is_other() || status != LS_CUPTI_OK)
        return;
    for (int i = 0; i < CLIENTS; i++)
        if (atomic_load(&clients[i].state) == SUBSCRIBED)
            forget(&clients[i]);
    atomic_store(&kinds, 0);
    atomic_store(&out, 0);
    atomic_store(&requested, NULL);
    atomic_store(&completed, NULL);
    atomic_store(&clock_function, NULL);
    ls_client_finalized();
    note();
}

/* Those of the runtime's and the driver's calls are what we need, too. */
static bool is_of_calls(int domain) {
    return domain == LS_OTHER_ALL || domain == LS_CUPTI_RUNTIME || domain == LS_CUPTI_DRIVER;
}

void ls_other_switches(int domain) {
    if (is_of_calls(domain))
        ls_other_acts("another CUPTI client wants callbacks");
}

static void want(struct ls_other_client *other, int domain, uint32_t id, bool enable) {
    _Atomic uint64_t *words = other->wanted[domain == LS_CUPTI_RUNTIME];
    for (uint32_t i = 0; i < LS_CUPTI_IDS / 64; i++) {
        uint64_t bits = id == LS_OTHER_ALL ? UINT64_MAX : id / 64 == i ? UINT64_C(1) << id % 64 : 0;
        if (enable)
            atomic_fetch_or(&words[i], bits);
        else
            atomic_fetch_and(&words[i], ~bits);
    }
}

void ls_other_switched(void *subscriber, int domain, uint32_t id, uint32_t enable, int status) {
    struct ls_other_client *other = is_other() ? known(subscriber) : NULL;
    if (!other || status != LS_CUPTI_OK || !is_of_calls(domain))
        return;
    if (domain != LS_CUPTI_DRIVER)
        want(other, LS_CUPTI_RUNTIME, id, enable);
    if (domain != LS_CUPTI_RUNTIME)
        want(other, LS_CUPTI_DRIVER, id, enable);
    note();
}

struct ls_other_buffers ls_other_registering(void **wanted, void **done) {
    struct ls_other_buffers before = {.known = false};
    if (!is_other() || !*wanted || !*done)
        return before;
    ls_other_acts("another CUPTI client records");
    ls_cupti_requested_fn request_fn;
    ls_cupti_completed_fn complete_fn;
    memcpy(&request_fn, wanted, sizeof request_fn);
    memcpy(&complete_fn, done, sizeof complete_fn);
    before.completed = atomic_exchange(&completed, complete_fn); /* may be called at once */
    before.requested = atomic_exchange(&requested, request_fn);
    ls_activity_foreign(complete);
    request_fn = request;
    complete_fn = ls_activity_completed;
    memcpy(wanted, &request_fn, sizeof request_fn);
    memcpy(done, &complete_fn, sizeof complete_fn);
    before.known = true;
    return before;
}

void ls_other_registered(struct ls_other_buffers before, int status) {
    if (!before.known)
        return;
    if (status != LS_CUPTI_OK) { /* those of before are still CUPTI's */
        atomic_store(&requested, before.requested);
        atomic_store(&completed, before.completed);
    }
    note();
}

void ls_other_set_clock(void *clock, int status) {
    if (!is_other() || status != LS_CUPTI_OK)
        return;
    atomic_store(&clock_function, clock);
    atomic_store(&had_clock, true);
    note();
}

void ls_other_enabled(int kind, bool on, int status) {
    if (!is_other())
        return;
    uint64_t bit = kind > 0 && kind < 64 ? UINT64_C(1) << kind : 0;
    if (on && status == LS_CUPTI_OK)
        atomic_fetch_or(&kinds, bit);
    else if (!on)
        atomic_fetch_and(&kinds, ~bit);
    note();
}

/* ---- for client.c ---- */

bool ls_other_is_there(void) {
    for (int i = 0; i < CLIENTS; i++)
        if (atomic_load(&clients[i].state) != FREE)
            return true;
    return atomic_load(&requested) || atomic_load(&kinds);
}

bool ls_other_is_idle(void) {
    if (ls_ns(CLOCK_MONOTONIC) - atomic_load(&acted) < REST_NS)
        return false;
    if (atomic_load(&kinds) || atomic_load(&out) > 0)
        return false;
    for (int i = 0; i < CLIENTS; i++) {
        int state = atomic_load(&clients[i].state);
        if (state == ASKING || (state == SUBSCRIBED && !clients[i].several &&
                                (clients[i].new || wants_calls(&clients[i]))))
            return false;
    }
    return true;
}

void *ls_other_subscription(bool *several) {
    *several = false;
    for (int i = 0; i < CLIENTS; i++)
        if (atomic_load(&clients[i].state) == SUBSCRIBED) {
            *several |= clients[i].several;
            if (!clients[i].several)
                return clients[i].subscriber;
        }
    return NULL;
}

void ls_other_restore(void) {
    void *clock = atomic_load(&clock_function);
    if (clock && ls_cupti.cuptiActivityRegisterTimestampCallback)
        ls_cupti.cuptiActivityRegisterTimestampCallback(clock);
    if (atomic_load(&requested))
        ls_cupti.cuptiActivityRegisterCallbacks(request, ls_activity_completed);
}

bool ls_other_has_clock(void) {
    return atomic_load(&had_clock);
}

void ls_other_fork_reset(void) {
    for (int i = 0; i < CLIENTS; i++)
        forget(&clients[i]);
    atomic_store(&kinds, 0);
    atomic_store(&out, 0);
    atomic_store(&requested, NULL);
    atomic_store(&completed, NULL);
    atomic_store(&clock_function, NULL);
    atomic_store(&ls_cupti_watched, false);
    ls_activity_foreign(NULL);
}
