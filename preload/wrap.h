/*
 * wrap.h - what every wrapper does around the real call.
 *
 * ls_enter() before it, ls_called() right after it, ls_leave() with the fields. They are inlined
 * into each wrapper with the row's class and stack wish as constants: a recorded call costs little
 * more than the two clock reads. Whatever is rare, or may touch errno, is a call out of line that
 * keeps errno.
 *
 * The call's result and the target's errno are never changed. Any thread; a call from a signal
 * handler that interrupts layoutspy itself is forwarded and counted, not recorded.
 */
#ifndef LS_WRAP_H
#define LS_WRAP_H

#include <stdbool.h>
#include <stdint.h>

#include "ask.h"
#include "census.h"
#include "clock.h"
#include "cupti/callback.h"
#include "kernels.h"
#include "layoutspy/api.h"
#include "on_call.h"
#include "own_cost.h"
#include "spool.h"
#include "state.h"
#include "thread.h"

#define LS_INLINE static inline __attribute__((always_inline))
#define ls_likely(x) __builtin_expect(!!(x), 1)

struct ls_call {
    struct ls_thread *self;  /* NULL: not recorded */
    uintptr_t outer;         /* self->frame before, */
    struct ls_inside around; /* and self->inside */
    uint64_t start, end;
    uint32_t stack;
    uint8_t flags;
};

/* The calling thread where it is not attached to the running session, or busy; NULL: forward. */
struct ls_thread *ls_enter_slow(void);

/* Start the recording, if it does not run: the driver is being initialised. errno is kept. */
void ls_start_recording(void);

/* The calling thread, attached to the session that runs and not busy; NULL: nothing is recorded, or
 * the thread is inside layoutspy. Starts no recording. errno is kept. */
struct ls_thread *ls_enter_recording(void);

/* The same for what CUPTI calls, in a program's thread or in one of its own; it may be inside a
 * hook that is recording. With the hooks off too; starts no recording either. */
struct ls_thread *ls_enter_callback(void);

/* A stack, for the rows that want one, from the wrapper's frame on. */
uint32_t ls_enter_stack(struct ls_thread *self, const void *frame, bool may_load);

/*
 * Rows in which the loader's locks may be taken (dlopen, dlsym), apart from a recording's start and
 * a function's first call. Not where memory comes and goes: an allocator may hold a lock of its own
 * there, for which a library's constructor waits in another thread, under the loader's.
 */
LS_INLINE bool ls_may_load(enum ls_class cls) {
    return cls == LS_CLASS_COPY || cls == LS_CLASS_SYNC || cls == LS_CLASS_MEMSET ||
           cls == LS_CLASS_GRAPH || cls == LS_CLASS_CAPTURE_BEGIN;
}

/* A stack once the call is over, while its wrapper still runs: for what only the call has told. The
 * thread is busy; the loader's locks are not taken. */
uint32_t ls_leave_stack(struct ls_thread *self);

/* Memory ran out, and that is recorded: the collector is to write it down at once. */
void ls_leave_without_memory(void);

/* The classes of calls that find none. */
LS_INLINE bool ls_asks_memory(enum ls_class cls) {
    return cls == LS_CLASS_DEVICE_ALLOC || cls == LS_CLASS_ASYNC_ALLOC ||
           cls == LS_CLASS_MANAGED_ALLOC || cls == LS_CLASS_ARRAY_ALLOC || cls == LS_CLASS_VMM;
}
#define LS_NO_MEMORY 2 /* cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY */

/* The classes of calls that may have operands. */
LS_INLINE bool ls_has_operands(enum ls_class cls) {
    return cls == LS_CLASS_LIBRARY_CALL || cls == LS_CLASS_LAUNCH;
}

/* The call's operands, at the end of its record: their number, then each. */
LS_INLINE void ls_put_operands(const struct ls_thread *self, uint64_t *word) {
    uint32_t count = self->operand_count;
    *word++ = count;
    for (uint32_t i = 0; i < count; i++) {
        *word++ = self->operand[i].what;
        *word++ = self->operand[i].address;
    }
}

/* The thread's chunk is full: room in the next one, or NULL and the call is counted as lost. */
struct ls_rec_call *ls_leave_slow(struct ls_thread *self, uint32_t size);

/* Of a thread that is attached and not busy. */
LS_INLINE void ls_begin(struct ls_call *call, struct ls_thread *self, enum ls_api api,
                        enum ls_class cls, enum ls_stack_want want, const void *frame) {
    call->self = self;
    /* The stack grows down: a recorded call still runs around us unless its frame is gone (an
     * exception or longjmp left it). */
    uintptr_t outer = self->frame;
    if (__builtin_expect((uintptr_t)frame < outer, 0))
        outer = ls_cupti_outer(self);
    call->outer = (uintptr_t)frame < outer ? outer : 0;
    self->frame = (uintptr_t)frame;
    call->around = call->outer ? self->inside : (struct ls_inside){0};
    self->inside = (struct ls_inside){.api = (uint16_t)api};
    call->flags = call->outer ? LS_CALL_NESTED : 0;
    if (atomic_load_explicit(&ls_capturing, memory_order_relaxed) > 0)
        call->flags |= LS_CALL_CAPTURING;
    if (cls == LS_CLASS_CAPTURE_BEGIN)
        ls_before_capture(self);
    call->stack = want == LS_STACK_NONE ? 0 : ls_enter_stack(self, frame, ls_may_load(cls));
    call->start = ls_ticks();
}

LS_INLINE void ls_enter(struct ls_call *call, enum ls_api api, enum ls_class cls,
                        enum ls_stack_want want, const void *frame) {
    struct ls_thread *self = ls_self;
    if (!ls_likely(self && !self->busy &&
                   self->epoch == atomic_load_explicit(&ls_live->epoch, memory_order_acquire)))
        self = ls_enter_slow();
    if (ls_likely(self != NULL))
        ls_begin(call, self, api, cls, want, frame);
    else
        call->self = NULL;
}

/* Between these a handler's CUDA call is forwarded, not recorded. The fences keep the compiler from
 * moving the work out of them; the processor itself needs none against its own handlers. */
LS_INLINE void ls_busy(struct ls_thread *self) {
    self->busy = true;
    atomic_signal_fence(memory_order_seq_cst);
}

LS_INLINE void ls_not_busy(struct ls_thread *self) {
    atomic_signal_fence(memory_order_seq_cst);
    self->busy = false;
}

/* The real call has returned. From here to the end of ls_leave() handlers are kept out. */
LS_INLINE void ls_called(struct ls_call *call) {
    call->end = ls_ticks();
    ls_busy(call->self);
}

LS_INLINE void ls_leave(struct ls_call *call, enum ls_api api, enum ls_class cls, int status,
                        const uint64_t *field, uint32_t count) {
    struct ls_thread *self = call->self;
    uint32_t size = (uint32_t)(sizeof(struct ls_rec_call) + count * sizeof(uint64_t));
    const bool operands = ls_has_operands(cls) && self->operand_count;
    if (operands)
        size += (1 + 2 * self->operand_count) * (uint32_t)sizeof(uint64_t);
    const uint32_t room = size + sizeof(uint64_t); /* with the word that CUPTI may add */
    const uint8_t device = self->device; /* the call's: cudaSetDevice changes it for later ones */
    const uint8_t kinds = ls_on_call(self, api, cls, status, field);
    if (cls == LS_CLASS_LAUNCH && LS_KERNEL_MOVES(field[ls_roles[api].kernel]))
        call->stack = ls_leave_stack(self);
    struct ls_rec_call *record = (void *)((char *)self->chunk + self->position);
    if (!ls_likely(self->limit - self->position >= room))
        record = ls_leave_slow(self, room);
    if (ls_likely(record != NULL)) {
        record->head = (struct ls_record){
            .size = (uint16_t)size,
            .type = LS_REC_CALL,
            .flags = call->flags,
            .api = (uint16_t)api,
            .device = device,
            .kinds = kinds,
        };
        record->start = call->start;
        record->duration = call->end - call->start;
        record->status = status;
        record->stack = call->stack;
        for (uint32_t i = 0; i < count; i++)
            record->field[i] = field[i];
        if (__builtin_expect(self->inside.correlation != 0, 0)) {
            record->field[count++] = LS_CORRELATION(self->inside.correlation, self->context);
            record->head.flags |= LS_CALL_CORRELATED;
            record->head.size = (uint16_t)(size = room);
        }
        if (operands) {
            ls_put_operands(self, record->field + count);
            record->head.flags |= LS_CALL_OPERANDS;
        }
        ls_spool_commit(self, size);
    }
    if (operands)
        self->operand_count = 0;
    if (cls == LS_CLASS_OOM || (ls_asks_memory(cls) && status == LS_NO_MEMORY))
        ls_leave_without_memory();
    if (cls == LS_CLASS_OOM)
        ls_census_after_oom(self, call->start);
    if (!ls_likely(atomic_load_explicit(&ls_session.header->requests, memory_order_relaxed) ==
                   atomic_load_explicit(&ls_ask_seen, memory_order_relaxed)))
        ls_ask_look(self);
    if (ls_cost_is_sample(call->end))
        ls_cost_sample(LS_COST_LEAVES, LS_COST_LEAVE_TICKS, call->end);
    self->frame = call->outer;
    self->inside = call->around;
    ls_not_busy(self);
}

#endif
