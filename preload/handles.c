/*
 * handles.c - see handles.h. A table of fixed size, which a handle stays in until it is destroyed.
 */
#include "handles.h"

#include <stdatomic.h>

#include "on_call.h"
#include "state.h"

#define HANDLE_BITS 8 /* a process has a handle per library, device and thread */
#define PROBES 8

enum { STREAM, PTR, SIZE, VALUE, WORDS };

struct entry {
    _Atomic uint64_t handle;       /* 0: none, or destroyed */
    _Atomic uint64_t epoch[WORDS]; /* of the recording that the word was told to; 0: not told */
    _Atomic uint64_t word[WORDS];
};
static struct entry entries[1 << HANDLE_BITS];

static uint64_t now(void) {
    return ls_live ? atomic_load_explicit(&ls_live->epoch, memory_order_relaxed) : 0;
}

/* The handle's entry; where it has none: a free one for it if `make`, else NULL. */
static struct entry *find(uint64_t handle, bool make) {
    unsigned at = (unsigned)(handle * 0x9e3779b97f4a7c15u >> (64 - HANDLE_BITS));
    if (!handle)
        return NULL;
    for (unsigned i = 0; i < PROBES; i++) {
        struct entry *entry = &entries[(at + i) % (1u << HANDLE_BITS)];
        if (atomic_load_explicit(&entry->handle, memory_order_acquire) == handle)
            return entry;
    }
    for (unsigned i = 0; make && i < PROBES; i++) {
        struct entry *entry = &entries[(at + i) % (1u << HANDLE_BITS)];
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&entry->handle, &none, handle))
            return entry;
    }
    return NULL;
}

static bool differs(const struct entry *entry, int which, uint64_t value) {
    return !entry || atomic_load_explicit(&entry->epoch[which], memory_order_acquire) != now() ||
           atomic_load_explicit(&entry->word[which], memory_order_relaxed) != value;
}

static void keep(struct entry *entry, int which, uint64_t value) {
    atomic_store_explicit(&entry->word[which], value, memory_order_relaxed);
    atomic_store_explicit(&entry->epoch[which], now(), memory_order_release);
}

bool ls_handle_stream_differs(uint64_t handle, uint64_t stream) {
    return differs(find(handle, false), STREAM, stream);
}

bool ls_handle_workspace_differs(uint64_t handle, uint64_t ptr, uint64_t size) {
    const struct entry *entry = find(handle, false);
    return differs(entry, PTR, ptr) || differs(entry, SIZE, size);
}

bool ls_handle_value_differs(uint64_t handle, uint64_t value) {
    return differs(find(handle, false), VALUE, value);
}

/* In each entry that it has: two threads that set it up at once may have made two. */
static void forget(uint64_t handle) {
    struct entry *entry;
    while ((entry = find(handle, false))) {
        for (int i = 0; i < WORDS; i++)
            atomic_store(&entry->epoch[i], 0);
        atomic_store(&entry->handle, 0);
    }
}

void ls_on_library(enum ls_api api, int status, const uint64_t *field) {
    const struct ls_roles *role = &ls_roles[api];
    if (status != 0 || role->handle < 0)
        return;
    uint64_t handle = field[role->handle];
    if (role->stream < 0 && role->ptr < 0 && role->value < 0) { /* it was made, or is gone */
        forget(handle);
        return;
    }
    struct entry *entry = find(handle, true);
    if (!entry)
        return;
    if (role->stream >= 0) {
        keep(entry, STREAM, field[role->stream]);
    } else if (role->ptr >= 0) {
        keep(entry, PTR, field[role->ptr]);
        keep(entry, SIZE, field[role->size]);
    } else {
        keep(entry, VALUE, field[role->value]);
    }
}
