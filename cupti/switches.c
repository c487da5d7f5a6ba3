/*
 * switches.c - see switches.h.
 */
#include "switches.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "activity.h"
#include "callback.h"
#include "ids.h"
#include "layoutspy/table.h"
#include "load.h"
#include "manners.h"
#include "state.h"

/* In every mode, then in the full one. KERNEL alone would make kernels run one after the other. */
static const int copies[] = {LS_ACTIVITY_COPY, LS_ACTIVITY_PEER_COPY, LS_ACTIVITY_SET};
static const int all[] = {LS_ACTIVITY_KERNEL, LS_ACTIVITY_MEMORY,   LS_ACTIVITY_POOL,
                          LS_ACTIVITY_SYNC,   LS_ACTIVITY_OVERHEAD, LS_ACTIVITY_GRAPH};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool is_full(void) {
    return ls_session.env.cupti != LS_CUPTI_COPIES;
}

void ls_switches_prepare(void) {
    ls_cupti_ids_fill();
}

/* ---- what failed ---- */

static bool worked(struct ls_switches *on, const char *function, int result) {
    if (result != LS_CUPTI_OK && !on->failed) {
        on->failed = function;
        on->result = result;
    }
    return result == LS_CUPTI_OK;
}

static const char *result_text(int result) {
    const char *text = NULL;
    if (ls_cupti.cuptiGetResultString)
        ls_cupti.cuptiGetResultString(result, &text);
    return text ? text : "";
}

/* ---- activities ---- */

/* Kinds that every version knows, and whose times are what CUPTI is there for. NULL: others. */
static const char *needed(int kind) {
    return kind == LS_ACTIVITY_COPY     ? "copies"
           : kind == LS_ACTIVITY_SET    ? "memsets"
           : kind == LS_ACTIVITY_KERNEL ? "kernels"
                                        : NULL;
}

static void miss(struct ls_switches *on, int kind, int result) {
    size_t length = strlen(on->missing);
    if (!needed(kind) || worked(on, "cuptiActivityEnable", result))
        return;
    snprintf(on->missing + length, sizeof on->missing - length, "%s%s", length ? ", " : "",
             needed(kind));
}

static int set_activity(const struct ls_switches *on, int kind, bool enable) {
    if (on->several)
        return enable ? ls_cupti.cuptiActivityEnable_v2(on->subscriber, kind, NULL)
                      : ls_cupti.cuptiActivityDisable_v2(on->subscriber, kind, NULL);
    return enable ? ls_cupti.cuptiActivityEnable(kind) : ls_cupti.cuptiActivityDisable(kind);
}

/* Kinds that a version does not know are left out. */
static unsigned set_kinds(struct ls_switches *on, const int *kinds, size_t count, bool enable) {
    unsigned set = 0;
    for (size_t i = 0; i < count; i++) {
        if (kinds[i] == LS_ACTIVITY_GRAPH && ls_session.env.graph_nodes)
            continue;
        int result = set_activity(on, kinds[i], enable);
        set += result == LS_CUPTI_OK;
        if (enable)
            miss(on, kinds[i], result);
    }
    return set;
}

static unsigned set_activities(struct ls_switches *on, bool enable) {
    unsigned set = set_kinds(on, copies, COUNT(copies), enable);
    return is_full() ? set + set_kinds(on, all, COUNT(all), enable) : set;
}

/* ---- callbacks ---- */

static const int domains[] = {LS_CUPTI_RUNTIME, LS_CUPTI_DRIVER};

/* Only functions of the table: each callback costs its call something. */
static bool is_wanted(int domain, uint32_t id) {
    enum ls_api api = (enum ls_api)ls_cupti_id(domain, id).api;
    return api && (is_full() || ls_api_info[api].cls != LS_CLASS_LAUNCH);
}

static unsigned set_callbacks(struct ls_switches *on, bool enable) {
    unsigned set = 0, wanted = 0;
    for (size_t d = 0; d < COUNT(domains); d++)
        for (uint32_t id = 1; id < LS_CUPTI_IDS; id++)
            if (is_wanted(domains[d], id)) {
                wanted++;
                set += worked(on, "cuptiEnableCallback",
                              ls_cupti.cuptiEnableCallback(enable, on->subscriber, domains[d], id));
            }
    if (wanted == 0)
        worked(on, "cuptiGetCallbackName", ls_cupti_ids_result());
    return set;
}

/* Whether the other client has any of these on, by a way that the hooks did not see. */
static bool has_callbacks(void *subscriber) {
    if (!ls_cupti.cuptiGetCallbackState)
        return true;
    for (size_t d = 0; d < COUNT(domains); d++)
        for (uint32_t id = 1; id < LS_CUPTI_IDS; id++) {
            uint32_t enabled = 0;
            if (is_wanted(domains[d], id) &&
                ls_cupti.cuptiGetCallbackState(&enabled, subscriber, domains[d], id) ==
                    LS_CUPTI_OK &&
                enabled)
                return true;
        }
    return false;
}

/* ---- one of several (13.3) ---- */

static bool can_be_one_of_several(void) {
    return ls_cupti.cuptiSubscribe_v2 && ls_cupti.cuptiActivityRegisterCallbacks_v2 &&
           ls_cupti.cuptiActivityEnable_v2 && ls_cupti.cuptiActivityDisable_v2 &&
           ls_cupti.cuptiActivityGetNextRecord_v2;
}

static ls_cupti_requested_fn plain_requested;
static ls_cupti_completed_fn plain_completed;

static void requested_v2(uint8_t **buffer, size_t *size, size_t *records, void *info) {
    (void)info;
    plain_requested(buffer, size, records);
}

static void completed_v2(uint8_t *buffer, size_t size, size_t valid, void *info) {
    (void)info;
    plain_completed(NULL, 0, buffer, size, valid);
}

/* ---- all of it ---- */

/* The default clock, for a client before us has left its own (ticks, of PyTorch's). */
static uint64_t real_time(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* In the old way first: where other clients can share, it is these that have to say so. */
static int subscribe(struct ls_switches *on, bool several, char *holder, size_t size) {
    const size_t until_several = offsetof(struct ls_cupti_subscriber_params, several);
    struct ls_cupti_subscriber_params params = {.size = until_several + 1,
                                                .name = "layoutspy",
                                                .old_name = holder,
                                                .old_size = size,
                                                .several = 1};
    on->is_own = true;
    int result = several ? LS_CUPTI_MULTIPLE_SUBSCRIBERS
                         : ls_cupti.cuptiSubscribe(&on->subscriber, ls_cupti_callback, NULL);
    if (result != LS_CUPTI_MULTIPLE_SUBSCRIBERS || !ls_cupti.cuptiSubscribe_v2)
        return result;
    if (!can_be_one_of_several())
        params.size = until_several; /* 13.0: for the other's name alone */
    result = ls_cupti.cuptiSubscribe_v2(&on->subscriber, ls_cupti_callback, NULL, &params);
    on->several = result == LS_CUPTI_OK && can_be_one_of_several();
    return result;
}

static bool register_buffers(struct ls_switches *on, ls_cupti_requested_fn requested,
                             ls_cupti_completed_fn completed) {
    if (!on->several) {
        void *clock;
        uint64_t (*function)(void) = real_time;
        memcpy(&clock, &function, sizeof clock);
        if (ls_other_has_clock() && ls_cupti.cuptiActivityRegisterTimestampCallback &&
            !worked(on, "cuptiActivityRegisterTimestampCallback",
                    ls_cupti.cuptiActivityRegisterTimestampCallback(clock)))
            return false;
        return worked(on, "cuptiActivityRegisterCallbacks",
                      ls_cupti.cuptiActivityRegisterCallbacks(requested, completed));
    }
    void *request, *complete;
    void (*request_v2)(uint8_t **, size_t *, size_t *, void *) = requested_v2;
    void (*complete_v2)(uint8_t *, size_t, size_t, void *) = completed_v2;
    memcpy(&request, &request_v2, sizeof request);
    memcpy(&complete, &complete_v2, sizeof complete);
    plain_requested = requested;
    plain_completed = completed;
    ls_activity_reads_as(on->subscriber);
    return worked(on, "cuptiActivityRegisterCallbacks_v2",
                  ls_cupti.cuptiActivityRegisterCallbacks_v2(on->subscriber, request, complete));
}

/* Without it nobody could tell when on the host's clock anything happened. */
static bool has_time(struct ls_switches *on) {
    uint64_t ns = 0;
    return worked(on, "cuptiGetTimestamp", ls_cupti.cuptiGetTimestamp(&ns));
}

static void refused(int result, const char *holder, char *why, size_t size) {
    if (result != LS_CUPTI_MULTIPLE_SUBSCRIBERS)
        snprintf(why, size, "cuptiSubscribe failed: %d %s", result, result_text(result));
    else if (*holder)
        snprintf(why, size, "another tool uses CUPTI already: %.60s", holder);
    else
        snprintf(why, size,
                 "another tool uses CUPTI already (Nsight, cuda-gdb, a profiler of the "
                 "program's own)");
}

bool ls_switches_on(struct ls_switches *on, void *other, bool several,
                    ls_cupti_requested_fn requested, ls_cupti_completed_fn completed, char *why,
                    size_t size) {
    char holder[64] = "";
    int result;
    *on = (struct ls_switches){.subscriber = other};
    if (other && has_callbacks(other)) {
        snprintf(why, size, "another CUPTI client keeps its callbacks on");
        return false;
    }
    if (!other && (result = subscribe(on, several, holder, sizeof holder)) != LS_CUPTI_OK) {
        refused(result, holder, why, size);
        return false;
    }
    bool all_on = has_time(on) && register_buffers(on, requested, completed) &&
                  set_activities(on, true) > 0 && set_callbacks(on, true) > 0;
    if (all_on && !on->failed)
        return true;
    if (*on->missing && all_on)
        snprintf(why, size, "no GPU times of %s: %s gave %d %s", on->missing, on->failed,
                 on->result, result_text(on->result));
    else
        snprintf(why, size, "CUPTI enables %s: %s gave %d %s", all_on ? "a part" : "nothing",
                 on->failed ? on->failed : "cuptiActivityEnable", on->result,
                 result_text(on->result));
    if (all_on)
        return true;
    ls_switches_off(on);
    ls_switches_leave(on);
    return false;
}

void ls_switches_off(struct ls_switches *on) {
    set_activities(on, false);
    if (!on->is_own)
        set_callbacks(on, false);
}

void ls_switches_leave(struct ls_switches *on) {
    if (on->is_own)
        ls_cupti.cuptiUnsubscribe(on->subscriber);
    if (on->several)
        ls_activity_reads_as(NULL);
    on->subscriber = NULL;
}
