/*
 * callback.c - see callback.h.
 */
#include "callback.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "abi.h"
#include "client.h"
#include "ids.h"
#include "kernels.h"
#include "layoutspy/table.h"
#include "names.h"
#include "pages.h"
#include "rows.h"
#include "wrap.h"

#define DEPTH 16 /* calls of the table within each other, of one thread */

/* We know our own frame, not the call's: callbacks for what it does may come at a somewhat smaller
 * depth of the stack than the one for its begin. */
#define SLACK (64u << 10)

/* Calls of a thread that only CUPTI tells of, from enter to exit. */
struct ls_cupti_call {
    uint32_t depth;
    uint32_t turn; /* ls_client_turn() when they began: ends of an earlier one's are never told */
    struct {
        struct ls_call call;
        uint64_t launch[LS_FIELD_MAX]; /* what the driver was asked to launch for it */
        uint16_t launch_fields;        /* 0: not known */
        struct ls_launch with;         /* the same call's, where that is known */
        uint16_t api;
        uint16_t version;
    } open[DEPTH];
};

/* What *data holds from enter to exit: 0 nothing to be done, OPEN + n the n-th open call. */
#define OPEN 1

static struct ls_cupti_call *open_calls(struct ls_thread *self) {
    if (self->cupti)
        return self->cupti;
    self->cupti = ls_map_pages(sizeof *self->cupti);
    if (self->cupti)
        self->cupti->turn = ls_client_turn();
    return self->cupti;
}

/* What inside.claimed is: not yet told by CUPTI, told, or begun here, in a turn of ours. */
enum { UNTOLD, TOLD, BEGUN };
#define TURNS 60000u

static uint16_t begun_now(void) {
    return (uint16_t)(BEGUN + ls_client_turn() % TURNS);
}

/* Whether a recorded call really runs around us; one that an exception or longjmp has left does
 * not. */
static bool runs_inside(const struct ls_thread *self, const void *frame) {
    return self->inside.api && (uintptr_t)frame < self->frame;
}

/*
 * Calls that were open when we stepped aside: CUPTI will never tell of their ends. They are lost,
 * and no longer run around anything.
 */
static void drop_stale(struct ls_thread *self) {
    struct ls_cupti_call *calls = self->cupti;
    if (calls && calls->turn != ls_client_turn()) {
        if (calls->depth)
            ls_spool_lost(self, LS_LOST_CUPTI_CALLS, calls->depth);
        calls->depth = 0;
        calls->turn = ls_client_turn();
    }
    if (self->inside.claimed >= BEGUN && self->inside.claimed != begun_now()) {
        self->inside = (struct ls_inside){0};
        self->frame = 0;
    }
}

uintptr_t ls_cupti_outer(struct ls_thread *self) {
    if (self->inside.claimed >= BEGUN)
        drop_stale(self);
    return self->frame;
}

/* Of the runtime or the driver: what CUPTI tells of. */
static bool is_cuda(enum ls_api api) {
    return ls_api_info[api].lib == LS_LIB_CUDART || ls_api_info[api].lib == LS_LIB_CUDA;
}

/*
 * Whether CUPTI tells of the very call that a hook is recording: the first one within it, of the
 * same library and kind (nvcc's stubs launch by a name of their own).
 */
static bool is_hooked(const struct ls_thread *self, enum ls_api api) {
    enum ls_api inside = (enum ls_api)self->inside.api;
    return !self->inside.claimed && ls_api_info[inside].lib == ls_api_info[api].lib &&
           ls_api_info[inside].cls == ls_api_info[api].cls;
}

/* Whether it is a part of the recorded call around it. Contexts are a fact of their own. */
static bool is_part(const struct ls_thread *self, enum ls_api api) {
    return is_cuda((enum ls_api)self->inside.api) && ls_api_info[api].cls != LS_CLASS_CONTEXT;
}

static void claim(struct ls_thread *self, uint16_t how, const struct ls_cupti_api_data *data) {
    self->inside.claimed = how;
    self->inside.correlation = data->correlation;
    self->context = data->context_number;
}

static void begin(struct ls_thread *self, struct ls_cupti_id id, const void *frame,
                  const struct ls_cupti_api_data *data) {
    struct ls_cupti_call *calls = open_calls(self);
    if (calls && calls->depth == DEPTH) { /* ends that were never told */
        ls_spool_lost(self, LS_LOST_CUPTI_CALLS, DEPTH);
        calls->depth = 0;
    }
    if (!calls) {
        ls_spool_lost(self, LS_LOST_CUPTI_CALLS, 1);
        return;
    }
    uint32_t n = calls->depth++;
    calls->open[n].launch_fields = 0;
    calls->open[n].api = id.api;
    calls->open[n].version = id.version;
    struct ls_call *call = &calls->open[n].call;
    ls_begin(call, self, (enum ls_api)id.api, ls_api_info[id.api].cls,
             ls_row_stack((enum ls_api)id.api), frame);
    self->frame += SLACK;
    call->flags |= LS_CALL_CUPTI;
    claim(self, begun_now(), data);
    *data->data = OPEN + n;
}

/* The driver's launch within the runtime's whose parameters cannot be read: these are the same. */
static void learn_launch(struct ls_thread *self, struct ls_cupti_id id,
                         const struct ls_cupti_api_data *data) {
    struct ls_cupti_call *calls = self->cupti;
    if (ls_api_info[id.api].cls != LS_CLASS_LAUNCH || !calls || !calls->depth)
        return;
    uint32_t n = calls->depth - 1;
    enum ls_api outer = (enum ls_api)calls->open[n].api;
    if (ls_api_info[outer].cls != LS_CLASS_LAUNCH || ls_row_readable(outer))
        return;
    if (!ls_row_launch((enum ls_api)id.api, data->params, &calls->open[n].with))
        return;
    calls->open[n].launch_fields =
        (uint16_t)ls_row_fields((enum ls_api)id.api, id.version, data->params, 0,
                                &calls->open[n].call, calls->open[n].launch);
}

static void entered(struct ls_cupti_id id, const void *frame,
                    const struct ls_cupti_api_data *data) {
    struct ls_thread *self = ls_enter_callback();
    *data->data = 0;
    if (!self)
        return;
    drop_stale(self);
    if (runs_inside(self, frame)) {
        if (is_hooked(self, (enum ls_api)id.api)) {
            claim(self, TOLD, data);
            return;
        }
        if (is_part(self, (enum ls_api)id.api)) {
            learn_launch(self, id, data);
            return;
        }
    }
    begin(self, id, frame, data);
}

/* A kernel whose registration no hook saw: CUPTI knows its name. */
static void name_kernel(struct ls_thread *self, enum ls_api api,
                        const struct ls_cupti_api_data *data, uint64_t *field) {
    int position = ls_roles[api].kernel;
    if (position >= 0 && !field[position] && data->symbol)
        field[position] = ls_kernel_named(self, data->symbol);
}

/* The operands of a launch that was accepted. `inner`: the driver's, where that told the fields. */
static void tell_arguments(struct ls_thread *self, enum ls_api api,
                           const struct ls_cupti_api_data *data, const struct ls_launch *inner,
                           const uint64_t *field) {
    struct ls_launch launch;
    if (inner)
        launch = *inner;
    else if (!ls_row_launch(api, data->params, &launch))
        return;
    launch.number = (uint32_t)field[ls_roles[api].kernel];
    launch.grid = field[ls_roles[api].kernel + 1]; /* as all rows have it */
    launch.name = data->symbol;
    ls_launch_operands(self, &launch);
}

static void left(const void *frame, const struct ls_cupti_api_data *data) {
    uint64_t n = *data->data - OPEN;
    struct ls_thread *self = ls_self;
    struct ls_cupti_call *calls = self ? self->cupti : NULL;
    if (*data->data < OPEN || !calls || n >= calls->depth || calls->turn != ls_client_turn())
        return;
    calls->depth = (uint32_t)n;
    struct ls_call *call = &calls->open[n].call;
    enum ls_api api = (enum ls_api)calls->open[n].api;
    /* The recording may have been stopped, or begun anew, under a call that lasted. */
    if (call->self != self || self->cupti_epoch != atomic_load(&ls_live->epoch)) {
        self->frame = call->outer;
        self->inside = call->around;
        return;
    }
    uint64_t field[LS_FIELD_MAX];
    int status = data->result ? *(const int *)data->result : 0;
    ls_called(call);
    self->frame = (uintptr_t)frame; /* where a stack that is wanted now begins */
    self->in_callback = true;
    uint32_t count = ls_row_fields(api, calls->open[n].version, data->params, status, call, field);
    if (calls->open[n].launch_fields == count)
        memcpy(field, calls->open[n].launch, count * sizeof *field);
    name_kernel(self, api, data, field);
    if (ls_api_info[api].cls == LS_CLASS_LAUNCH && status == 0)
        tell_arguments(self, api, data,
                       calls->open[n].launch_fields == count ? &calls->open[n].with : NULL, field);
    ls_leave(call, api, ls_api_info[api].cls, status, field, count);
    self->in_callback = false;
}

void ls_cupti_callback(void *user, int domain, uint32_t id, const void *data) {
    (void)user;
    const struct ls_cupti_api_data *call = data;
    if ((domain != LS_CUPTI_RUNTIME && domain != LS_CUPTI_DRIVER) || !call || !call->data)
        return;
    int saved = errno;
    if (call->site == LS_CUPTI_ENTER) {
        struct ls_cupti_id known = ls_cupti_id(domain, id);
        if (known.api)
            entered(known, __builtin_frame_address(0), call);
        else
            *call->data = 0;
    } else {
        left(__builtin_frame_address(0), call);
    }
    errno = saved;
}
