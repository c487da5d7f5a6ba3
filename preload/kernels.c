/*
 * kernels.c - kernel registrations kept in memory of our own. See kernels.h.
 *
 * Registration takes the lock (library constructors, first uses); launches look up without one.
 * Any thread. A program that registers 20,000 kernels and launches none costs 20,000 table
 * entries and no record.
 */
#include "kernels.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "common/kernel_words.h"
#include "cupti/names.h"
#include "intern.h"
#include "lock.h"
#include "pages.h"
#include "spool.h"

#define TABLE_SIZE (1u << 18)
#define TABLE_FULL (TABLE_SIZE / 4 * 3)

struct entry {
    _Atomic uintptr_t
        key; /* stub, handle or registering module; 0: free. Never freed, only renamed */
    const char *_Atomic name;
    _Atomic uint32_t id; /* 0: not launched yet */
    _Atomic uint32_t
        alias;        /* a handle's: 1 + index of the stub's entry; a module's: of its first */
    uint32_t next;    /* a stub's: 1 + index of the next one of its module; 0: the last */
    uintptr_t module; /* who registered it */
};

static struct entry *_Atomic table;
static uint32_t used;
static _Atomic uint32_t next_id = 1;
static _Atomic bool overfull; /* some name found no room: launches without one */

static uint32_t home(uintptr_t key) {
    return (uint32_t)((key * 0x9e3779b97f4a7c15u) >> 40) & (TABLE_SIZE - 1);
}

static struct entry *find(uintptr_t key) {
    struct entry *entries = atomic_load_explicit(&table, memory_order_acquire);
    if (!entries || !key)
        return NULL;
    for (uint32_t i = home(key);; i = (i + 1) & (TABLE_SIZE - 1)) {
        uintptr_t found = atomic_load_explicit(&entries[i].key, memory_order_acquire);
        if (found == key)
            return &entries[i];
        if (!found)
            return NULL;
    }
}

/* The entry of `key`, made if need be; the lock is held. NULL: no room, the launch has no name. */
static struct entry *find_or_make(uintptr_t key) {
    struct entry *entry = find(key);
    if (entry || !key)
        return entry;
    struct entry *entries = atomic_load(&table);
    if (!entries) {
        entries = ls_map_pages(TABLE_SIZE * sizeof *entries);
        if (!entries)
            return NULL;
        atomic_store(&table, entries);
    }
    if (used >= TABLE_FULL)
        return NULL;
    used++;
    uint32_t i = home(key);
    while (atomic_load(&entries[i].key))
        i = (i + 1) & (TABLE_SIZE - 1);
    atomic_store_explicit(&entries[i].key, key, memory_order_release);
    return &entries[i];
}

void ls_kernel_register(void *module, const void *stub, const char *name) {
    ls_lock(LS_LOCK_KERNELS);
    struct entry *entry = find_or_make((uintptr_t)stub);
    struct entry *list = find_or_make((uintptr_t)module);
    if (entry) {
        atomic_store(&entry->id, 0); /* another library at a reused address */
        atomic_store(&entry->alias, 0);
        atomic_store(&entry->name, name);
        if (list && entry->module == 0) {
            entry->module = (uintptr_t)module;
            entry->next = atomic_load(&list->alias);
            atomic_store(&list->alias, 1 + (uint32_t)(entry - atomic_load(&table)));
        }
    } else if (stub) {
        atomic_store(&overfull, true);
    }
    ls_unlock(LS_LOCK_KERNELS);
}

/* The names lie in the library, which is about to go. */
void ls_kernel_unregister(void *module) {
    ls_lock(LS_LOCK_KERNELS);
    struct entry *entries = atomic_load(&table);
    struct entry *list = find((uintptr_t)module);
    for (uint32_t i = list ? atomic_exchange(&list->alias, 0) : 0; i; i = entries[i - 1].next) {
        if (entries[i - 1].module == (uintptr_t)module) { /* or registered by another one since */
            atomic_store(&entries[i - 1].name, NULL);
            entries[i - 1].module = 0;
        }
    }
    ls_unlock(LS_LOCK_KERNELS);
}

void ls_kernel_alias(const void *handle, const void *stub) {
    if (!handle || handle == stub)
        return;
    struct entry *entry = find((uintptr_t)handle);
    struct entry *target = find((uintptr_t)stub);
    if (!target)
        return;
    uint32_t index = 1 + (uint32_t)(target - atomic_load(&table));
    if (entry && atomic_load(&entry->alias) == index)
        return;
    ls_lock(LS_LOCK_KERNELS);
    entry = find_or_make((uintptr_t)handle);
    if (entry)
        atomic_store(&entry->alias, index);
    ls_unlock(LS_LOCK_KERNELS);
}

/*
 * Names that nobody else keeps, each once: a module that is loaded again hands out other handles
 * under the same names. Nothing is given back, so there is an end. The lock is held.
 */
#define COPIES_SIZE (1u << 16)
#define COPIES_FULL (COPIES_SIZE / 4 * 3)
#define COPIES_MOST (32u << 20) /* bytes */
static struct {
    const char **at; /* by hash; NULL: free */
    uint32_t used;
    size_t bytes;
    char *block; /* for the next ones */
    size_t left;
} copies;

/* Room that stays; NULL: none. */
static char *keep(size_t size) {
    enum { BLOCK = 4 * LS_KERNEL_NAME_MOST };
    if (copies.bytes + size > COPIES_MOST)
        return NULL;
    if (size > copies.left) {
        char *block = ls_map_pages(BLOCK);
        if (!block)
            return NULL;
        copies.block = block;
        copies.left = BLOCK;
    }
    char *place = copies.block;
    copies.block += size;
    copies.left -= size;
    copies.bytes += size;
    return place;
}

static bool is_name(const char *kept, const char *name, size_t length) {
    return strncmp(kept, name, length) == 0 && kept[length] == 0;
}

/* NULL: there is no room. */
static const char *copy_of(const char *name) {
    size_t length = strnlen(name, LS_KERNEL_NAME_MOST - 1);
    if (!copies.at && !(copies.at = ls_map_pages(COPIES_SIZE * sizeof *copies.at)))
        return NULL;
    uint64_t hash = length;
    for (size_t i = 0; i < length; i++)
        hash = ls_hash_word(hash, (unsigned char)name[i]);
    uint32_t i = (uint32_t)(hash >> 32) & (COPIES_SIZE - 1);
    for (; copies.at[i]; i = (i + 1) & (COPIES_SIZE - 1))
        if (is_name(copies.at[i], name, length))
            return copies.at[i];
    char *copy = copies.used < COPIES_FULL ? keep(length + 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, name, length);
    copy[length] = 0;
    copies.used++;
    return copies.at[i] = copy;
}

void ls_kernel_name(const void *handle, const char *name) {
    if (!handle || !name)
        return;
    ls_lock(LS_LOCK_KERNELS);
    struct entry *entry = find_or_make((uintptr_t)handle);
    const char *had = entry ? atomic_load(&entry->name) : NULL, *now = had;
    if (entry &&
        (!had || atomic_load(&entry->alias) || strncmp(had, name, LS_KERNEL_NAME_MOST - 1) != 0)) {
        atomic_store(&entry->id, 0); /* of another module at a reused address */
        atomic_store(&entry->alias, 0);
        atomic_store(&entry->name, now = copy_of(name));
    }
    if (!now)
        atomic_store(&overfull, true);
    ls_unlock(LS_LOCK_KERNELS);
}

uint32_t ls_kernel_define(struct ls_thread *self, const char *name) {
    size_t length = strnlen(name, LS_RECORD_LARGEST - sizeof(struct ls_rec_kernel) - 8);
    uint32_t size = (uint32_t)(sizeof(struct ls_rec_kernel) + length + 1 + 7) & ~7u;
    struct ls_rec_kernel *record = ls_spool_reserve(self, size);
    if (!record)
        return 0;
    memset(record, 0, size);
    record->head.size = (uint16_t)size;
    record->head.type = LS_REC_KERNEL;
    memcpy(record->name, name, length);
    uint32_t id = atomic_fetch_add(&next_id, 1) << 1 | ls_kernel_moves(record->name);
    record->id = id;
    ls_spool_commit(self, size);
    return id;
}

/* By its name: CUPTI may have told of it first, or another library have the same one. */
static uint32_t define(struct ls_thread *self, struct entry *entry, const char *name) {
    uint32_t id = ls_kernel_named(self, name), expected = 0;
    atomic_compare_exchange_strong(&entry->id, &expected, id);
    return id;
}

/* A handle's is that of its stub. */
static struct entry *find_named(const void *stub_or_handle) {
    struct entry *entry = find((uintptr_t)stub_or_handle);
    uint32_t alias = entry ? atomic_load_explicit(&entry->alias, memory_order_acquire) : 0;
    return alias ? atomic_load(&table) + alias - 1 : entry;
}

const char *ls_kernel_text(const void *stub_or_handle) {
    struct entry *entry = find_named(stub_or_handle);
    return entry ? atomic_load_explicit(&entry->name, memory_order_acquire) : NULL;
}

bool ls_kernel_is_stub(const void *function) {
    struct entry *entry = find((uintptr_t)function);
    return entry && entry->module && atomic_load_explicit(&entry->name, memory_order_acquire);
}

uint32_t ls_kernel(const void *stub_or_handle) {
    struct entry *entry = find_named(stub_or_handle);
    uint32_t id = entry ? atomic_load_explicit(&entry->id, memory_order_acquire) : 0;
    if (id || !ls_self)
        return id;
    const char *name = entry ? atomic_load_explicit(&entry->name, memory_order_acquire) : NULL;
    if (name)
        return define(ls_self, entry, name);
    if (atomic_load_explicit(&overfull, memory_order_relaxed))
        ls_spool_lost(ls_self, LS_LOST_KERNELS, 1);
    return 0;
}

void ls_kernels_fork_reset(void) {
    struct entry *entries = atomic_load(&table);
    for (uint32_t i = 0; entries && i < TABLE_SIZE; i++)
        if (atomic_load_explicit(&entries[i].id, memory_order_relaxed))
            atomic_store(&entries[i].id, 0); /* read first: most pages stay shared */
    atomic_store(&next_id, 1);
}
