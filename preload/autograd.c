/*
 * autograd.c - see autograd.h. No lock, no allocation, no system call.
 *
 * A node is known by torch::autograd::get_current_node(), which returns a shared_ptr: a reference
 * that we give back. Numbers are counted per thread (several may run forward; checkpoints and a
 * backward that is differentiated again make nodes in autograd's own), so a node is known by its
 * number and by at::RecordFunction's number of the thread that made it, which is given once. Both
 * lie in the node behind its vtable and its enable_shared_from_this. A pair that does not match
 * what is in its place is not known: in a version of torch where they lie elsewhere nothing is
 * told, rather than something wrong.
 */
#include "autograd.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "intern.h"
#include "resolve.h"
#include "stack_python.h"
#include "wrap.h"

#define PLACES (1u << 18) /* nodes of one step are some thousands */
#define NODE_SEQUENCE 24  /* bytes into torch::autograd::Node */
#define NODE_THREAD 48

/* libstdc++'s shared_ptr, and the counts behind its second pointer. */
struct shared_pointer {
    const char *object;
    struct {
        void *vtable;
        _Atomic int uses;
    } * counts;
};

static _Atomic uint64_t *_Atomic places; /* half of a node's hash above, stack below */
static struct shared_pointer *(*_Atomic current_node)(struct shared_pointer *result);
static uint64_t (*_Atomic thread_id)(void);

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
    void *node = ls_resolve_other(LS_LIB_TORCH, "_ZN5torch8autograd16get_current_nodeEv");
    void *thread = ls_resolve_other(LS_LIB_TORCH, "_ZN2at14RecordFunction15currentThreadIdEv");
    if (node && thread) {
        atomic_store(&thread_id, (uint64_t(*)(void))thread);
        atomic_store(&current_node, (struct shared_pointer * (*)(struct shared_pointer *)) node);
    } else {
        atomic_store(&places, NULL); /* nothing will ask */
    }
    ls_slow_end(slow);
}

static uint64_t hash_node(uint64_t thread, uint64_t sequence) {
    return ls_hash_word(ls_hash_word(0x9e3779b97f4a7c15u, thread), sequence);
}

void ls_autograd_forward(uint64_t sequence) {
    struct ls_thread *self = ls_self;
    _Atomic uint64_t *table = atomic_load_explicit(&places, memory_order_acquire);
    if (!table || !self || self->busy ||
        self->epoch != atomic_load_explicit(&ls_live->epoch, memory_order_acquire))
        return;
    if (!atomic_load_explicit(&current_node, memory_order_relaxed))
        find_current_node();
    uint64_t (*thread)(void) = atomic_load_explicit(&thread_id, memory_order_acquire);
    if (!thread)
        return;
    ls_busy(self);
    uint32_t stack = ls_python_capture(self, true);
    if (stack) {
        uint64_t hash = hash_node(thread(), sequence);
        atomic_store_explicit(&table[hash % PLACES], (hash & ~UINT64_C(0xffffffff)) | stack,
                              memory_order_relaxed);
    }
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
    uint64_t hash = hash_node(*(const uint64_t *)(node.object + NODE_THREAD),
                              *(const uint64_t *)(node.object + NODE_SEQUENCE));
    if (node.counts)
        atomic_fetch_sub(&node.counts->uses, 1); /* never the last: the engine holds one */
    uint64_t place = atomic_load_explicit(&table[hash % PLACES], memory_order_relaxed);
    return place >> 32 == hash >> 32 ? (uint32_t)place : 0;
}

void ls_autograd_fork_reset(void) {
    _Atomic uint64_t *table = atomic_load(&places); /* its stacks are numbered as the parent's */
    if (table && madvise((void *)table, PLACES * sizeof *table, MADV_DONTNEED) != 0)
        memset((void *)table, 0, PLACES * sizeof *table); /* locked memory */
}
