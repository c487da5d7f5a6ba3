/*
 * wrap.c - the table expanded to wrappers. See wrap.h and layoutspy/api.h.
 */
#include "wrap.h"

#include <errno.h>
#include <stdatomic.h>

#include "autograd.h"
#include "cupti/cupti.h"
#include "cupti/flush.h"
#include "cupti/manners.h"
#include "describe.h"
#include "driver.h"
#include "export.h"
#include "handles.h"
#include "kernels.h"
#include "launch_args.h"
#include "layoutspy/api/types.h"
#include "on_call.h"
#include "on_exchange.h"
#include "on_gemm.h"
#include "on_matmul_lt.h"
#include "on_transform.h"
#include "operand_words.h"
#include "resolve.h"
#include "row_words.h"
#include "spool.h"
#include "stack.h"
#include "state.h"

/* Calls of handlers that came while their thread attached: there may be no header yet. */
static _Atomic uint64_t uncounted;

/* Without the hooks a thread's calls are seen once CUPTI is there, which another thread sees to:
 * for a bounded time, since it may hold a lock that the other one wants. */
static void await_cupti(void) {
    uint64_t end = ls_ns(CLOCK_MONOTONIC) + 1000000000u;
    const struct timespec nap = {.tv_nsec = 1000000};
    while (!ls_cupti_started() && ls_ns(CLOCK_MONOTONIC) < end)
        nanosleep(&nap, NULL);
}

/* A thread's first call, or the first after a fork, or nothing to record. */
static __attribute__((noinline, cold)) struct ls_thread *attach(void) {
    /* What ls_self is meanwhile: a handler that interrupts this finds it. (A flag of its own
     * would cost 16 bytes of the static TLS.) */
    static struct ls_thread attaching = {
        .epoch = LS_EPOCH_OFF - 1, .cupti_epoch = LS_EPOCH_OFF - 1}; /* no session ever has it */
    struct ls_thread *stale = ls_self;
    if (stale == &attaching) {
        atomic_fetch_add(&uncounted, 1);
        return NULL;
    }
    ls_self = &attaching;
    bool started;
    struct ls_thread *self = NULL;
    uint64_t before = ls_ns(CLOCK_MONOTONIC);
    if (ls_session_ensure(&started))
        self = ls_thread_attach(stale);
    else
        ls_self = stale;
    if (self && started) {
        ls_resolve_all();
        ls_busy(self);
        ls_session_describe(self);
        ls_cupti_start(self);
        ls_cost_add(LS_COST_START_NS, ls_ns(CLOCK_MONOTONIC) - before);
        ls_not_busy(self);
    }
    if (self && !started && !ls_session.env.hooks)
        await_cupti();
    uint64_t missed = self ? atomic_exchange(&uncounted, 0) : 0;
    if (missed)
        atomic_fetch_add(&ls_session.header->lost[LS_LOST_REENTRY], missed);
    return self;
}

struct ls_thread *ls_enter_slow(void) {
    struct ls_thread *self = ls_self;
    uint64_t epoch = atomic_load(&ls_live->epoch);
    if (epoch == LS_EPOCH_OFF && ls_ask_is_asked() && !ls_flush_wake()) {
        ls_ask_answer();
        epoch = atomic_load(&ls_live->epoch);
    }
    if (epoch == LS_EPOCH_OFF)
        return NULL;
    if (self && self->busy && self->epoch == epoch) {
        atomic_fetch_add(&ls_session.header->lost[LS_LOST_REENTRY], 1);
        return NULL;
    }
    if (self && self->cupti_epoch == epoch)
        return NULL; /* the hooks are off */
    struct ls_slow slow = ls_slow_begin();
    self = attach();
    ls_slow_end(slow);
    return self && self->epoch == LS_EPOCH_HOOKS_OFF ? NULL : self;
}

void ls_start_recording(void) {
    if (atomic_load(&ls_live_page()->epoch) != 0)
        return;
    struct ls_slow slow = ls_slow_begin();
    attach();
    ls_slow_end(slow);
}

struct ls_thread *ls_enter_recording(void) {
    uint64_t epoch = atomic_load_explicit(&ls_live->epoch, memory_order_acquire);
    struct ls_thread *self = ls_self;
    if (epoch == 0 || epoch == LS_EPOCH_OFF)
        return NULL;
    return self && !self->busy && self->epoch == epoch ? self : ls_enter_slow();
}

struct ls_thread *ls_enter_callback(void) {
    uint64_t epoch = atomic_load_explicit(&ls_live->epoch, memory_order_acquire);
    struct ls_thread *self = ls_self;
    if (epoch == 0 || epoch == LS_EPOCH_OFF)
        return NULL;
    if (self && self->cupti_epoch == epoch)
        return self->busy ? NULL : self;
    struct ls_slow slow = ls_slow_begin();
    self = attach();
    ls_slow_end(slow);
    return self;
}

uint32_t ls_enter_stack(struct ls_thread *self, const void *frame, bool may_load) {
    int saved = errno;
    ls_busy(self);
    uint64_t before = ls_ticks();
    uint32_t stack = ls_stack_capture(self, frame, may_load);
    if (ls_cost_is_sample(before))
        ls_cost_sample(LS_COST_STACKS, LS_COST_STACK_TICKS, before);
    ls_not_busy(self);
    errno = saved;
    return stack;
}

uint32_t ls_leave_stack(struct ls_thread *self) {
    int saved = errno;
    uint32_t stack = ls_stack_capture(self, (const void *)self->frame, false);
    errno = saved;
    return stack;
}

struct ls_rec_call *ls_leave_slow(struct ls_thread *self, uint32_t size) {
    struct ls_rec_call *record = ls_spool_reserve(self, size);
    if (!record)
        ls_spool_lost(self, self->chunk_error, 1);
    return record;
}

void ls_leave_without_memory(void) {
    int saved = errno;
    ls_session_wake_collector();
    errno = saved;
}

#define ls_device (ls_call.self->device)

enum {
#define LIBRARY(ID, name, soname, versions, missing) LS_MISSING_##ID = missing,
#include "layoutspy/api/library.def"
};

#define F(name, type, expression) (uint64_t)(expression),
#define O(ROLE, shape, address)                                                                    \
    ls_operand_add(ls_call.self, LS_ROLE_##ROLE, 0, shape, (uint64_t)(uintptr_t)(address));
/* The arguments of a launch that was accepted. */
#define LAUNCHED(...)                                                                              \
    if (ls_status == 0)                                                                            \
        ls_launch_operands(ls_call.self, &(struct ls_launch){.number = (uint32_t)ls_field[0],      \
                                                             .grid = ls_field[1],                  \
                                                             .caller = ls_caller,                  \
                                                             LS_LAUNCH(__VA_ARGS__)});
/* The runtime's wrappers have their own copy of what is done around a call. The many of other
 * libraries share one: their calls are fewer and longer, and the library's size is every process's.
 */
static __attribute__((noinline)) void enter_shared(struct ls_call *call, enum ls_api api,
                                                   enum ls_class cls, enum ls_stack_want want,
                                                   const void *frame) {
    ls_enter(call, api, cls, want, frame);
}
static __attribute__((noinline)) void leave_shared(struct ls_call *call, enum ls_api api,
                                                   enum ls_class cls, int status,
                                                   const uint64_t *field, uint32_t count) {
    ls_leave(call, api, cls, status, field, count);
}
#define OWN_COPY(LIB) (LS_LIB_##LIB == LS_LIB_CUDART)
#define ENTER(LIB, call, api, cls, want)                                                           \
    if (OWN_COPY(LIB))                                                                             \
        ls_enter(call, api, cls, want, __builtin_frame_address(0));                                \
    else                                                                                           \
        enter_shared(call, api, cls, want, __builtin_frame_address(0))
#define LEAVE(LIB, ...)                                                                            \
    if (OWN_COPY(LIB))                                                                             \
        ls_leave(__VA_ARGS__);                                                                     \
    else                                                                                           \
        leave_shared(__VA_ARGS__)

#define WRAP(LIB, ret, name, CLASS, STACK, params, args, ...)                                      \
    WRAP_WHEN(LIB, ret, name, CLASS, STACK, params, args, true, __VA_ARGS__)
#define WRAP_WHEN(LIB, ret, name, CLASS, STACK, params, args, condition, ...)                      \
    WRAP_OPERANDS(LIB, ret, name, CLASS, STACK, params, args, condition, (), __VA_ARGS__)
#define STATEMENTS(...) __VA_ARGS__
#define WRAP_OPERANDS(LIB, ret, name, CLASS, STACK, params, args, condition, operands, ...)        \
    LS_EXPORT ret name params;                                                                     \
    LS_EXPORT ret name params {                                                                    \
        void *ls_caller = __builtin_return_address(0);                                             \
        ret(*ls_function) params = (ret(*) params)ls_real(LS_API_##name, ls_caller);               \
        if (__builtin_expect(!ls_function, 0))                                                     \
            return (ret)LS_MISSING_##LIB;                                                          \
        if (!(condition))                                                                          \
            return ls_function args;                                                               \
        struct ls_call ls_call;                                                                    \
        ENTER(LIB, &ls_call, LS_API_##name, LS_CLASS_##CLASS, LS_STACK_##STACK);                   \
        ret ls_result = ls_function args;                                                          \
        if (!ls_call.self)                                                                         \
            return ls_result;                                                                      \
        ls_called(&ls_call);                                                                       \
        __attribute__((unused)) const int ls_status = (int)ls_result;                              \
        const uint64_t ls_field[] = {__VA_ARGS__};                                                 \
        STATEMENTS operands LEAVE(LIB, &ls_call, LS_API_##name, LS_CLASS_##CLASS, ls_status,       \
                                  ls_field, sizeof ls_field / sizeof(uint64_t));                   \
        return ls_result;                                                                          \
    }

/* The statement runs in any case. */
#define WRAP_KEPT(LIB, ret, name, CLASS, STACK, params, args, statement, ...)                      \
    LS_EXPORT ret name params;                                                                     \
    LS_EXPORT ret name params {                                                                    \
        void *ls_caller = __builtin_return_address(0);                                             \
        ret(*ls_function) params = (ret(*) params)ls_real(LS_API_##name, ls_caller);               \
        if (__builtin_expect(!ls_function, 0))                                                     \
            return (ret)LS_MISSING_##LIB;                                                          \
        struct ls_call ls_call;                                                                    \
        ENTER(LIB, &ls_call, LS_API_##name, LS_CLASS_##CLASS, LS_STACK_##STACK);                   \
        ret ls_result = ls_function args;                                                          \
        if (ls_call.self)                                                                          \
            ls_called(&ls_call);                                                                   \
        __attribute__((unused)) const int ls_status = (int)ls_result;                              \
        const int ls_errno = errno;                                                                \
        STATEMENTS statement errno = ls_errno;                                                     \
        if (!ls_call.self)                                                                         \
            return ls_result;                                                                      \
        const uint64_t ls_field[] = {__VA_ARGS__};                                                 \
        LEAVE(LIB, &ls_call, LS_API_##name, LS_CLASS_##CLASS, ls_status, ls_field,                 \
              sizeof ls_field / sizeof(uint64_t));                                                 \
        return ls_result;                                                                          \
    }

/* No result, and no status. */
#define WRAP_VOID_WHEN(LIB, name, CLASS, STACK, params, args, condition, ...)                      \
    LS_EXPORT void name params;                                                                    \
    LS_EXPORT void name params {                                                                   \
        void(*ls_function) params =                                                                \
            (void(*) params)ls_real_single(LS_API_##name, __builtin_return_address(0));            \
        if (__builtin_expect(!ls_function, 0))                                                     \
            return;                                                                                \
        struct ls_call ls_call = {0};                                                              \
        if (condition)                                                                             \
            ls_enter(&ls_call, LS_API_##name, LS_CLASS_##CLASS, LS_STACK_##STACK,                  \
                     __builtin_frame_address(0));                                                  \
        ls_function args;                                                                          \
        if (!ls_call.self)                                                                         \
            return;                                                                                \
        ls_called(&ls_call);                                                                       \
        const uint64_t ls_field[] = {__VA_ARGS__};                                                 \
        ls_leave(&ls_call, LS_API_##name, LS_CLASS_##CLASS, 0, ls_field,                           \
                 sizeof ls_field / sizeof(uint64_t));                                              \
    }

/* MAP rows are kept in memory whether or not anything is recorded, and start no recording. The
 * runtime's tell which runtime a module uses; others are called too often to look that up. */
#define RESOLVE_MAP(LIB, name)                                                                     \
    (LS_LIB_##LIB == LS_LIB_CUDART                                                                 \
         ? ls_resolve_for_caller(LS_API_##name, __builtin_return_address(0))                       \
         : ls_real_single(LS_API_##name, __builtin_return_address(0)))
#define WRAP_MAP(LIB, ret, name, params, args, statement)                                          \
    LS_EXPORT ret name params;                                                                     \
    LS_EXPORT ret name params {                                                                    \
        ret(*ls_function) params = (ret(*) params)RESOLVE_MAP(LIB, name);                          \
        if (__builtin_expect(!ls_function, 0))                                                     \
            return (ret)LS_MISSING_##LIB;                                                          \
        ret ls_result = ls_function args;                                                          \
        __attribute__((unused)) const int ls_status = (int)ls_result;                              \
        const int ls_errno = errno;                                                                \
        statement;                                                                                 \
        errno = ls_errno;                                                                          \
        return ls_result;                                                                          \
    }
#define WRAP_MAP_VOID(LIB, name, params, args, statement)                                          \
    LS_EXPORT void name params;                                                                    \
    LS_EXPORT void name params {                                                                   \
        void(*ls_function) params = (void(*) params)RESOLVE_MAP(LIB, name);                        \
        if (__builtin_expect(!ls_function, 0))                                                     \
            return;                                                                                \
        ls_function args;                                                                          \
        const int ls_errno = errno;                                                                \
        statement;                                                                                 \
        errno = ls_errno;                                                                          \
    }

/* Another client of CUPTI: nothing is recorded. */
#define WRAP_AROUND(LIB, ret, name, params, args, before, after)                                   \
    LS_EXPORT ret name params;                                                                     \
    LS_EXPORT ret name params {                                                                    \
        ret(*ls_function) params =                                                                 \
            (ret(*) params)ls_real_single(LS_API_##name, __builtin_return_address(0));             \
        if (__builtin_expect(!ls_function, 0))                                                     \
            return (ret)LS_MISSING_##LIB;                                                          \
        int ls_errno = errno;                                                                      \
        before;                                                                                    \
        errno = ls_errno;                                                                          \
        ret ls_result = ls_function args;                                                          \
        __attribute__((unused)) const int ls_status = (int)ls_result;                              \
        ls_errno = errno;                                                                          \
        after;                                                                                     \
        errno = ls_errno;                                                                          \
        return ls_result;                                                                          \
    }

#define API(LIB, ret, name, CLASS, STACK, params, args, ...)                                       \
    WRAP(LIB, ret, name, CLASS, STACK, params, args, __VA_ARGS__)
#define API_TWIN(LIB, ret, name, twin, CLASS, STACK, params, args, ...)                            \
    WRAP(LIB, ret, twin, CLASS, STACK, params, args, __VA_ARGS__)
#define API_WHEN(LIB, ret, name, CLASS, STACK, params, args, condition, ...)                       \
    WRAP_WHEN(LIB, ret, name, CLASS, STACK, params, args, condition, __VA_ARGS__)
#define API_OPERANDS(LIB, ret, name, CLASS, STACK, params, args, operands, ...)                    \
    WRAP_OPERANDS(LIB, ret, name, CLASS, STACK, params, args, true, operands, __VA_ARGS__)
#define API_OPERANDS_TWIN(LIB, ret, name, twin, CLASS, STACK, params, args, operands, ...)         \
    WRAP_OPERANDS(LIB, ret, twin, CLASS, STACK, params, args, true, operands, __VA_ARGS__)
#define API_KEPT(LIB, ret, name, CLASS, STACK, params, args, statement, ...)                       \
    WRAP_KEPT(LIB, ret, name, CLASS, STACK, params, args, statement, __VA_ARGS__)
#define API_VOID_WHEN(LIB, name, CLASS, STACK, params, args, condition, ...)                       \
    WRAP_VOID_WHEN(LIB, name, CLASS, STACK, params, args, condition, __VA_ARGS__)
#define API_MAP(LIB, ret, name, params, args, ...)                                                 \
    WRAP_MAP(LIB, ret, name, params, args, __VA_ARGS__)
#define API_MAP_VOID(LIB, name, params, args, ...)                                                 \
    WRAP_MAP_VOID(LIB, name, params, args, __VA_ARGS__)
#define API_AROUND(LIB, ret, name, params, args, before, ...)                                      \
    WRAP_AROUND(LIB, ret, name, params, args, before, __VA_ARGS__)
#include "layoutspy/api/all.def"
