/*
 * autograd.c - see autograd.h. No lock, no allocation, no system call.
 *
 * A node is known by torch::autograd::get_current_node(), which returns a shared_ptr: a reference
 * that we give back. The node's number lies behind its vtable and its enable_shared_from_this, as
 * it has since torch 1.5. Numbers are counted per thread, so those of nodes that are made without a
 * Python stack (a backward that is differentiated again) are not remembered: they would be taken
 * for the forward's. A number that does not match what is in its place is not known: in a version
 * of torch where it lies elsewhere nothing is told, rather than something wrong.
 */
#include "autograd.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "resolve.h"
#include "stack_python.h"
#include "wrap.h"

#define PLACES (1u << 18) /* nodes of one step are some thousands */
#define NODE_SEQUENCE 24  /* bytes into torch::autograd::Node */

/* libstdc++'s shared_ptr, and the counts behind its second pointer. */
struct shared_pointer {
    const char *object;
    struct {
        void *vtable;
        _Atomic int uses;
    } * counts;
};

static _Atomic uint64_t *_Atomic places; /* low half of a sequence number above, stack below */
static struct shared_pointer *(*_Atomic current_node)(struct shared_pointer *result);

void ls_autograd_start(void) {
    if (atomic_load(&places))
        return;
    void *map = mmap(NULL, PLACES * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map != MAP_FAILED)
        atomic_store(&places, (_Atomic uint64_t *)map);
}

/* The first node is made in a thread of the user's, where the loader's locks may be taken: backward
 * operations may hold the allocator's. */
static __attribute__((noinline, cold)) void find_current_node(void) {
    struct ls_slow slow = ls_slow_begin();
    void *found = ls_resolve_other(LS_LIB_TORCH, "_ZN5torch8autograd16get_current_nodeEv");
    if (found)
        atomic_store(&current_node, (struct shared_pointer * (*)(struct shared_pointer *)) found);
    else
        atomic_store(&places, NULL); /* nothing will ask */
    ls_slow_end(slow);
}

void ls_autograd_forward(uint64_t sequence) {
    struct ls_thread *self = ls_self;
    _Atomic uint64_t *table = atomic_load_explicit(&places, memory_order_acquire);
    if (!table || !self || self->busy ||
        self->epoch != atomic_load_explicit(&ls_live->epoch, memory_order_acquire))
        return;
    if (!atomic_load_explicit(&current_node, memory_order_relaxed))
        find_current_node();
    ls_busy(self);
    uint32_t stack = ls_python_capture(self);
    if (stack)
        atomic_store_explicit(&table[sequence % PLACES], sequence << 32 | stack,
                              memory_order_relaxed);
    ls_not_busy(self);
}

uint32_t ls_autograd_origin(void) {
    _Atomic uint64_t *table = atomic_load_explicit(&places, memory_order_acquire);
    struct shared_pointer *(*get)(struct shared_pointer *) =
        atomic_load_explicit(&current_node, memory_order_acquire);
    struct shared_pointer node = {0};
    if (!table || !get)
        return 0;
    get(&node);
    if (!node.object)
        return 0;
    uint64_t sequence = *(const uint64_t *)(node.object + NODE_SEQUENCE);
    if (node.counts)
        atomic_fetch_sub(&node.counts->uses, 1); /* never the last: the engine holds one */
    uint64_t place = atomic_load_explicit(&table[sequence % PLACES], memory_order_relaxed);
    return place >> 32 == (uint32_t)sequence ? (uint32_t)place : 0;
}

void ls_autograd_fork_reset(void) {
    _Atomic uint64_t *table = atomic_load(&places);
    for (uint32_t i = 0; table && i < PLACES; i++)
        if (atomic_load_explicit(&table[i], memory_order_relaxed))
            atomic_store_explicit(&table[i], 0, memory_order_relaxed); /* numbers of the parent's */
}
