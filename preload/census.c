/*
 * census.c - when a census is taken, and taking it. See census.h.
 *
 * A wish is a bit in `wanted`, put there by any thread; a pending call of the interpreter takes
 * them. Where its queue is full (it is short), the next recorded calls try again.
 *
 * After an OOM. A program that catches it and tries again may meet hundreds of them. The first one
 * is looked at; after each census there is a pause as long as the census took, twice as long after
 * the second, and so on: a loop of retries pays for a few, and one that fails an hour later is
 * looked at again. On wishes it is made at any time, but the program gets as much time as it takes.
 */
#include "census.h"

#include <errno.h>
#include <string.h>

#include "census_tensor.h"
#include "clock.h"
#include "python_api.h"
#include "stack_python.h"
#include "wrap.h"

#define PAUSE_SHORTEST 50000000u /* ns */
enum { UNTIL_PATHS = 1300 };     /* ms after the beginning */
#define PAUSES_MAX 20            /* doublings */

_Atomic uint32_t ls_census_seen;

static _Atomic uint32_t wanted;     /* 1 << enum ls_census_reason */
static _Atomic uint32_t asked;      /* the header's census_wanted that `wanted` stands for */
static _Atomic uint64_t queued;     /* a pending call is on its way: the session's epoch */
static _Atomic uint32_t numbers;    /* of censuses */
static _Atomic uint64_t oom_ticks;  /* of the OOM that `wanted` stands for, */
static _Atomic uint32_t oom_thread; /* and the number of its thread */
static _Atomic uint64_t pause_end;  /* CLOCK_MONOTONIC ns: no census after an OOM before */
static _Atomic uint64_t rest_end;   /* the same: no census on a wish before */
static _Atomic uint32_t ooms;       /* censuses after one */

/* ---- taking it ---- */

/* Why there can be none in this process; NULL: there can. */
static const char *obstacle(void) {
    if (ls_session.env.census == LS_CENSUS_NEVER)
        return "LAYOUTSPY_CENSUS=off";
    if (!ls_session.env.python)
        return "LAYOUTSPY_PYTHON=off";
    if (!ls_python_known())
        return ls_python.refused ? ls_python.refused : "there is no Python in this process";
    return NULL;
}

static struct ls_rec_census head_of(enum ls_census_reason reason, uint64_t ticks) {
    return (struct ls_rec_census){
        .ticks = ls_ticks(),
        .oom_ticks = reason == LS_CENSUS_OOM ? ticks : 0,
        .census = atomic_fetch_add(&numbers, 1) + 1,
        .reason = (uint32_t)reason,
    };
}

static void write_failure(struct ls_thread *self, enum ls_census_reason reason, uint64_t ticks,
                          const char *why) {
    struct ls_rec_census head = head_of(reason, ticks);
    head.state = LS_CENSUS_FAILED;
    ls_census_record(self, &head, why);
}

static void look_at_everything(struct ls_census *c) {
    ls_census_roots(c);
    ls_census_lost(c);
    ls_census_phase(c, UNTIL_PATHS);
    ls_census_paths(c, 0, c->tensors);
    c->settled = c->nodes;
    ls_torch_guard(c->torch);
    ls_census_tensors(c);
    ls_census_graphs(c);
    ls_torch_unguard(c->torch);
}

static void write_all(struct ls_thread *self, struct ls_census *c, struct ls_rec_census head) {
    ls_busy(self);
    if (!ls_census_write(self, c, head.census))
        c->cut = "there was no room for it in the spool";
    head.ticks = ls_ticks();
    head.state = c->cut ? LS_CENSUS_CUT : LS_CENSUS_COMPLETE;
    head.objects = c->nodes;
    head.tensors = c->device_tensors;
    head.nodes = c->graph_nodes;
    ls_census_record(self, &head, c->cut ? c->cut : "");
    ls_not_busy(self);
}

static void take(enum ls_census_reason reason, uint64_t ticks) {
    struct ls_thread *self = ls_enter_recording();
    struct ls_torch torch;
    struct ls_census census;
    if (!self)
        return;
    const char *why = ls_python_doubted() ? "frames are not what they should be" : NULL;
    why = why ? why : ls_torch_find(&torch);
    if (!why && !ls_census_begin(&census, &torch))
        why = "there was no memory for it";
    ls_busy(self);
    struct ls_rec_census head = {0};
    if (why) {
        write_failure(self, reason, ticks, why);
    } else {
        head = head_of(reason, ticks);
        head.state = LS_CENSUS_BEGINS;
        ls_census_record(self, &head, "");
    }
    ls_not_busy(self);
    if (why)
        return;
    census.elsewhere = reason == LS_CENSUS_OOM && atomic_load(&oom_thread) != self->number;
    look_at_everything(&census);
    write_all(self, &census, head);
    ls_census_end(&census);
}

static void take_after_oom(void) {
    uint64_t before = ls_ns(CLOCK_MONOTONIC);
    take(LS_CENSUS_OOM, atomic_load(&oom_ticks));
    uint64_t after = ls_ns(CLOCK_MONOTONIC), took = after - before;
    uint32_t count = atomic_fetch_add(&ooms, 1);
    took = took > PAUSE_SHORTEST ? took : PAUSE_SHORTEST;
    atomic_store(&pause_end, after + (took << (count < PAUSES_MAX ? count : PAUSES_MAX)));
}

/* ---- in the interpreter ---- */

/* Nothing that the census makes may start a collection, which would run code of the user's. */
static bool tell_collector(const char *what) {
    void *result = ls_python_gc(what);
    if (result)
        ls_py.Py_DecRef(result);
    return result == ls_py._Py_TrueStruct;
}

static bool stop_collecting(void) {
    if (ls_py.PyGC_Disable && ls_py.PyGC_Enable)
        return ls_py.PyGC_Disable();
    bool was = tell_collector("isenabled");
    tell_collector("disable");
    return was;
}

static void start_collecting(void) {
    if (ls_py.PyGC_Disable && ls_py.PyGC_Enable)
        ls_py.PyGC_Enable();
    else
        tell_collector("enable");
}

static void *at_exit(void *self, void *arguments);

/* As a PyMethodDef. */
static struct {
    const char *name;
    void *(*function)(void *, void *);
    int flags;
    const char *doc;
} at_exit_definition = {"layoutspy_census", at_exit, 4 /* METH_NOARGS */, NULL};

static void register_at_exit(void) {
    static bool registered; /* a forked child has its parent's */
    void *module = registered ? NULL : ls_py.PyImport_ImportModule("atexit");
    void *add = module ? ls_py.PyObject_GetAttrString(module, "register") : NULL;
    void *function = add ? ls_py.PyCFunction_NewEx(&at_exit_definition, NULL, NULL) : NULL;
    void *result = function ? ls_py.PyObject_CallFunctionObjArgs(add, function, NULL) : NULL;
    registered = registered || result;
    void *const all[] = {result, function, add, module};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            ls_py.Py_DecRef(all[i]);
}

static void take_all(uint32_t wishes) {
    void *exception[3];
    uint64_t before = ls_ns(CLOCK_MONOTONIC);
    ls_py.PyErr_Fetch(&exception[0], &exception[1], &exception[2]);
    bool collecting = stop_collecting();
    if (wishes & 1u << LS_CENSUS_OOM)
        take_after_oom();
    if (wishes & 1u << LS_CENSUS_ASKED)
        take(LS_CENSUS_ASKED, 0);
    if (wishes & 1u << LS_CENSUS_EXIT)
        take(LS_CENSUS_EXIT, 0);
    if (collecting)
        start_collecting();
    ls_py.PyErr_Clear();
    ls_py.PyErr_Restore(exception[0], exception[1], exception[2]);
    uint64_t after = ls_ns(CLOCK_MONOTONIC);
    atomic_store(&rest_end, after + (after - before));
}

static void *at_exit(void *self, void *arguments) {
    int saved = errno;
    (void)self, (void)arguments;
    if (ls_session.env.census == LS_CENSUS_AT_EXIT)
        take_all(1u << LS_CENSUS_EXIT);
    errno = saved;
    ls_py.Py_IncRef(ls_py._Py_NoneStruct);
    return ls_py._Py_NoneStruct;
}

/* `epoch`: of the session that wished it. A forked child has its parent's queue, too. */
static int pending(void *epoch) {
    int saved = errno;
    uint64_t own = (uintptr_t)epoch;
    if (atomic_compare_exchange_strong(&queued, &own, 0) && !ls_python.is_finalizing()) {
        uint32_t wishes = atomic_exchange(&wanted, 0);
        if (wishes & 1u << LS_CENSUS_EXIT)
            register_at_exit();
        take_all(wishes & ~(1u << LS_CENSUS_EXIT));
    }
    errno = saved;
    return 0;
}

/* ---- wishes ---- */

/* Have the pending call made. Where that fails, or comes too late, calls look again. */
static void queue(struct ls_thread *self) {
    uint32_t now = atomic_load(&ls_session.header->census_wanted);
    uint64_t nobody = 0;
    bool done = true;
    if (atomic_load(&wanted) && atomic_compare_exchange_strong(&queued, &nobody, self->epoch)) {
        void *epoch = (void *)(uintptr_t)self->epoch;
        done = !ls_python.is_finalizing() && ls_py.Py_AddPendingCall(pending, epoch) == 0;
        if (!done)
            atomic_store(&queued, 0);
    }
    atomic_store(&ls_census_seen, done ? now : ~now);
    if (!done)
        ls_ask_again();
}

void ls_census_look(struct ls_thread *self) {
    int saved = errno;
    uint32_t now = atomic_load(&ls_session.header->census_wanted);
    const char *why = obstacle();
    if (ls_ns(CLOCK_MONOTONIC) < atomic_load(&rest_end)) {
        atomic_store(&ls_census_seen, ~now);
        ls_ask_again();
        errno = saved;
        return; /* later calls look again */
    }
    if (atomic_exchange(&asked, now) != now) {
        if (why)
            write_failure(self, LS_CENSUS_ASKED, 0, why);
        else
            atomic_fetch_or(&wanted, 1u << LS_CENSUS_ASKED);
    }
    if (why)
        atomic_store(&ls_census_seen, now);
    else
        queue(self);
    errno = saved;
}

void ls_census_after_oom(struct ls_thread *self, uint64_t ticks) {
    int saved = errno;
    uint64_t now = ls_ns(CLOCK_MONOTONIC), end = atomic_load(&pause_end);
    /* Until the census is over, nobody else wishes one. */
    if (now >= end && atomic_compare_exchange_strong(&pause_end, &end, UINT64_MAX)) {
        const char *why = obstacle();
        if (why) {
            write_failure(self, LS_CENSUS_OOM, ticks, why);
            atomic_store(&pause_end,
                         now + (UINT64_C(1000000000) << atomic_fetch_add(&ooms, 1) % 16));
        } else {
            atomic_store(&oom_ticks, ticks);
            atomic_store(&oom_thread, self->number);
            atomic_fetch_or(&wanted, 1u << LS_CENSUS_OOM);
            queue(self);
        }
    }
    errno = saved;
}

void ls_census_start(struct ls_thread *self) {
    const char *why;
    if (ls_session.env.python && !ls_session.env.stacks)
        ls_python_find(&why); /* nobody else looks for it */
    if (ls_session.env.census == LS_CENSUS_AT_EXIT && !obstacle()) {
        atomic_fetch_or(&wanted, 1u << LS_CENSUS_EXIT);
        queue(self);
    }
}

void ls_census_fork_reset(void) {
    atomic_store(&ls_census_seen, 0);
    atomic_store(&wanted, 0);
    atomic_store(&asked, 0);
    atomic_store(&queued, 0);
    atomic_store(&numbers, 0);
    atomic_store(&pause_end, 0);
    atomic_store(&rest_end, 0);
    atomic_store(&ooms, 0);
}
