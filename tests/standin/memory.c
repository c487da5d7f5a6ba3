/*
 * memory.c - the table of allocations. See memory.h.
 */
#include "memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc.h"
#include "graph_memory.h"
#include "ipc.h"
#include "truth.h"
#include "vmm.h"

static struct tree memories; /* by address; records never overlap */
static uint64_t last_id;

struct memory *sd_memory_find(const void *address) {
    struct tree_node *node = sd_tree_floor(&memories, (uintptr_t)address, 0);
    if (!node)
        return NULL;
    struct memory *m = TREE_OWNER(node, struct memory, node);
    return (uintptr_t)address - node->key < m->size ? m : NULL;
}

struct memory *sd_memory_exact(const void *address) {
    struct memory *m = sd_memory_find(address);
    return m && m->node.key == (uintptr_t)address ? m : NULL;
}

bool sd_memory_overlaps(const void *address, uint64_t size) {
    if (sd_memory_find(address))
        return true;
    struct tree_node *node = sd_tree_ceiling(&memories, (uintptr_t)address, 0);
    return node && node->key < (uintptr_t)address + size;
}

struct memory *sd_memory_note(struct device *device, void *address, uint64_t size,
                              enum standin_kind kind, char *view) {
    struct memory *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    m->node.key = (uintptr_t)address;
    m->kind = kind;
    m->device = device->ordinal;
    m->size = m->span = size;
    m->id = ++last_id;
    m->view = view;
    sd_tree_insert(&memories, &m->node);
    return m;
}

struct memory *sd_memory_device(struct device *device, uint64_t size, enum standin_kind kind) {
    uint64_t offset = sd_arena_alloc(&device->arena, size);
    if (offset == UINT64_MAX)
        return NULL;
    return sd_memory_note(device, device->arena.base + offset, size, kind,
                          device->arena.view + offset);
}

struct memory *sd_memory_host(struct device *device, uint64_t size, enum standin_kind kind) {
    uint64_t span = (size + 4095) & ~4095ull;
    if (span < size)
        return NULL;
    void *p = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    struct memory *m = sd_memory_note(device, p, size, kind, p);
    if (m)
        m->span = span;
    return m;
}

void sd_memory_forget(struct memory *m) {
    if (m->exported)
        sd_ipc_forget(m);
    sd_tree_remove(&memories, &m->node);
    free(m);
}

void sd_memory_release(struct memory *m) {
    switch (m->kind) {
    case STANDIN_DEVICE:
    case STANDIN_ASYNC:
    case STANDIN_ARRAY: {
        struct arena *arena = &sd_device(m->device)->arena;
        sd_arena_free(arena, m->node.key - (uintptr_t)arena->base, m->span);
        break;
    }
    case STANDIN_PINNED:
    case STANDIN_MANAGED:
        munmap(sd_memory_address(m), m->span);
        break;
    case STANDIN_PAGEABLE:
    case STANDIN_REGISTERED:
    case STANDIN_VMM:
    case STANDIN_IPC:
        break;
    }
    sd_memory_forget(m);
}

void sd_memory_release_all(struct device *device) {
    struct tree_node *node;
    for (uint64_t at = 0; (node = sd_tree_ceiling(&memories, at, 0)); at++) {
        at = node->key;
        struct memory *m = TREE_OWNER(node, struct memory, node);
        if (m->device == device->ordinal)
            sd_memory_release(m);
    }
}

static void note_live(struct tree_node *node, void *data) {
    (void)data;
    struct memory *m = TREE_OWNER(node, struct memory, node);
    if (!m->internal)
        sd_truth_note("#live %d %s %" PRIu64 " %" PRIu64, (int)getpid(), sd_memory_word(m->kind),
                      node->key, m->size);
}

void sd_memory_note_live(void) {
    sd_tree_each(&memories, note_live, NULL);
    sd_graph_memory_note_live();
}

/* Addresses that only a device can reach, allocated or not. */
static bool device_side(const void *address) {
    for (int i = 0; i < standin_device_count(); i++)
        if (sd_arena_holds(&sd_device(i)->arena, address))
            return true;
    return sd_vmm_reserved(address);
}

/* Mappings that lie side by side are one range to a copy; their views lie side by side too. */
static bool fits(const struct memory *m, uint64_t start, uint64_t size) {
    while (size > m->node.key + m->size - start) {
        if (m->kind != STANDIN_VMM)
            return false;
        uint64_t end = m->node.key + m->size;
        size -= end - start;
        start = end;
        m = sd_memory_find((void *)(uintptr_t)end);
        if (!m || m->kind != STANDIN_VMM)
            return false;
    }
    return true;
}

bool sd_memory_span(const void *address, uint64_t size, struct span *out) {
    struct memory *m = sd_memory_find(address);
    if (!m) {
        *out = (struct span){STANDIN_PAGEABLE, -1, (char *)(uintptr_t)address, NULL};
        return !device_side(address);
    }
    if (!fits(m, (uintptr_t)address, size))
        return false;
    *out = (struct span){m->kind, m->device, m->view + ((uintptr_t)address - m->node.key), m};
    return true;
}
