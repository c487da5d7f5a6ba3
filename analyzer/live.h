/*
 * live.h - the memory that is allocated at this point of the merge, by address.
 *
 * One struct ls_live for memory, another for CUDA arrays, whose handles are no addresses. The
 * same address may be live twice for a while: a free by one thread may be recorded after another
 * thread has been given the address again. One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_LIVE_H
#define LAYOUTSPY_LIVE_H

#include <stdbool.h>
#include <stdint.h>

enum ls_memory { /* allocation.kind in the schema */
                 LS_MEMORY_DEVICE = 1,
                 LS_MEMORY_ASYNC,
                 LS_MEMORY_MANAGED,
                 LS_MEMORY_PINNED,
                 LS_MEMORY_REGISTERED,
                 LS_MEMORY_VMM,
                 LS_MEMORY_ARRAY,
                 LS_MEMORY_IPC,
                 LS_MEMORY_GRAPH,
};

/* The kinds that take memory of the device itself. Mappings count; the ranges and handles behind
 * them, and what another process opened for us, do not. */
#define LS_ON_DEVICE_SQL "kind IN (1, 2, 3, 6, 7, 9)"

_Static_assert(LS_MEMORY_DEVICE == 1 && LS_MEMORY_ASYNC == 2 && LS_MEMORY_MANAGED == 3 &&
                   LS_MEMORY_VMM == 6 && LS_MEMORY_ARRAY == 7 && LS_MEMORY_GRAPH == 9,
               "the numbers in LS_ON_DEVICE_SQL");

static inline bool ls_on_device(enum ls_memory kind) {
    return kind == LS_MEMORY_DEVICE || kind == LS_MEMORY_ASYNC || kind == LS_MEMORY_MANAGED ||
           kind == LS_MEMORY_VMM || kind == LS_MEMORY_ARRAY || kind == LS_MEMORY_GRAPH;
}

/* Who holds it (allocation.holder in the schema). */
enum ls_holder {
    LS_HOLDER_UNKNOWN, /* no stack, or of no known module */
    LS_HOLDER_CALLER,
    LS_HOLDER_PYTORCH, /* libc10_cuda called */
    LS_HOLDER_SEGMENT, /* and reported a block in it, whoever called */
};

enum ls_end { LS_END_FREED, LS_END_RESET, LS_END_REUSED }; /* allocation.end_reason */

/* A lifetime. `id` is the call that began it, also the number of its row. */
struct ls_life {
    uint64_t address;
    uint64_t size; /* bytes */
    int64_t id;
    int64_t start_ns; /* the allocating call's start and end */
    int64_t born_ns;
    int64_t end_ns; /* the freeing call's start */
    int64_t end_call;
    uint64_t stream;
    uint32_t stack, free_stack;
    uint16_t api, free_api;
    uint8_t kind; /* enum ls_memory */
    uint8_t device;
    uint8_t end_reason;
    uint8_t holder; /* enum ls_holder */
    bool ended;
    bool stored; /* its row is in the table */
    bool cupti;  /* CUPTI alone saw the call */
    uint32_t thread;
    uint32_t element;      /* arrays: bytes per element */
    uint64_t level_of;     /* levels of a mipmapped array: its handle; they have no row */
    struct ls_life *older; /* at the same address */
    /* Mappings that no block was reported in yet, a list: of a reserved range the first one, of a
     * mapping the next, and what points to it, NULL where it is in no list. */
    struct ls_life *fresh, **fresh_link;
};

struct ls_live_node;

struct ls_live {
    struct ls_live_node *root;
    uint64_t random; /* state of the tree's dice */
    uint64_t count;
};

/* Takes `life`, which the caller allocated, until ls_live_end() hands it back. False: no memory. */
bool ls_live_add(struct ls_live *live, struct ls_life *life);

/* The lifetime that holds `address`, interior addresses too; the newest; NULL: none. */
struct ls_life *ls_live_find(const struct ls_live *live, uint64_t address);

/* The lifetime with the lowest address that is not below `address`; NULL: none. */
struct ls_life *ls_live_next(const struct ls_live *live, uint64_t address);

/*
 * More lifetimes at one address than threads can hold in flight: the oldest has ended unseen (its
 * free passed beside the table). Takes it out for the caller to end, or NULL: no crowd there.
 */
#define LS_LIVE_CROWD 16
struct ls_life *ls_live_uncrowd(struct ls_live *live, uint64_t address);

/*
 * End the lifetime at exactly `address` that a free which started at `start_ns` ends, and take it
 * out: the newest that was complete by then, because a pointer is freed by whoever has it. An
 * older one at the address is waiting for its own free, which is still to come in the merge.
 * `registered` picks registrations or everything else. NULL: none.
 */
struct ls_life *ls_live_end(struct ls_live *live, uint64_t address, int64_t start_ns,
                            bool registered);

/*
 * Visit every lifetime, by address and the newest first. A visitor that returns true takes the
 * lifetime out, and owns it.
 */
void ls_live_sweep(struct ls_live *live, bool (*visit)(struct ls_life *life, void *context),
                   void *context);

/* Free all. */
void ls_live_destroy(struct ls_live *live);

#endif
