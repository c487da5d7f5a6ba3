/*
 * stack.c - one number for a native stack and the Python stack around it. See stack.h.
 * Any thread, inside a recorded call.
 */
#include "stack.h"

#include <stdatomic.h>

#include "autograd.h"
#include "intern.h"
#include "layoutspy/api.h"
#include "modules.h"
#include "spool.h"
#include "stack_native.h"
#include "stack_python.h"

static struct ls_intern stacks;
static _Atomic bool enabled;

void ls_stack_init(const struct ls_env *env) {
    ls_autograd_start();
    bool ready = env->stacks && ls_intern_begin(&stacks);
    atomic_store(&enabled, ready);
}

void ls_stack_enable(bool on) {
    atomic_store(&enabled, on && atomic_load(&stacks.current));
}

/* A stack that is to be written: where it is taken, and what it consists of. */
struct sight {
    struct ls_native_place place;
    uint32_t python;
    uint32_t forward;
};

static uint32_t define(struct ls_thread *self, const void *context) {
    const struct sight *sight = context;
    void *frame[LS_STACK_DEPTH + 1];
    uint32_t depth = ls_native_walk(&sight->place, frame, LS_STACK_DEPTH + 1);
    bool truncated = depth > LS_STACK_DEPTH;
    if (truncated)
        depth = LS_STACK_DEPTH;
    ls_modules_describe(self, frame, depth, sight->place.generation);
    uint32_t size = (uint32_t)(sizeof(struct ls_rec_stack) + depth * sizeof(uint64_t));
    struct ls_rec_stack *record = ls_spool_reserve(self, size);
    if (!record)
        return 0;
    uint32_t id = ls_intern_number(&stacks);
    *record = (struct ls_rec_stack){
        .head = {.size = (uint16_t)size, .type = LS_REC_STACK},
        .id = id,
        .modules = sight->place.generation,
        .depth = depth,
        .truncated = truncated,
        .python = sight->python,
        .forward = sight->forward,
    };
    for (uint32_t i = 0; i < depth; i++)
        record->address[i] = (uint64_t)(uintptr_t)frame[i];
    ls_spool_commit(self, size);
    return id;
}

void ls_stack_lost(struct ls_thread *self) {
    const uint32_t call = sizeof(struct ls_rec_call) + LS_FIELD_MAX * sizeof(uint64_t);
    if (self->limit - self->position >= call)
        ls_spool_lost(self, LS_LOST_STACKS, 1);
}

uint32_t ls_stack_capture(struct ls_thread *self, const void *wrapper_frame, bool may_load) {
    if (!atomic_load_explicit(&enabled, memory_order_relaxed))
        return 0;
    struct sight sight = {.python = ls_python_capture(self, may_load),
                          .forward = ls_autograd_origin()};
    ls_native_place(&sight.place, wrapper_frame, sight.python != 0);
    uint64_t native = ls_native_hash(self, &sight.place);
    uint64_t around = (uint64_t)sight.forward << 32 | sight.python;
    uint64_t hash = ls_hash_word(native, around) | 1; /* 0 marks a free slot */
    struct ls_stack_entry *entry = &self->cache[(hash >> 20) & (LS_STACK_CACHE - 1)];
    if (entry->hash == hash)
        return entry->id;
    uint32_t id = ls_intern(&stacks, self, hash, define, &sight);
    if (!id)
        ls_stack_lost(self);
    else
        *entry = (struct ls_stack_entry){hash, id};
    return id;
}

void ls_stack_fork_reset(void) {
    ls_intern_fork_reset(&stacks);
    ls_native_fork_reset();
    ls_python_fork_reset();
    ls_autograd_fork_reset();
}
