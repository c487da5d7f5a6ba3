/*
 * vmm.c - reserved addresses, physical memory, mappings. See vmm.h.
 *
 * A reservation is two ranges: the addresses that programs see, which the host cannot touch, and
 * a shadow of the same length where each mapping's memory appears, so that neighbours in the one
 * are neighbours in the other.
 */
#include "vmm.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "handles.h"
#include "memory.h"
#include "tree.h"

struct reservation {
    struct tree_node node; /* key: start */
    uint64_t size;
    char *shadow;
};

struct mapping {
    struct tree_node node; /* key: start */
    struct physical *physical;
    struct memory *memory;
};

static struct tree reservations, mappings;

static struct reservation *reservation_of(uint64_t address) {
    struct tree_node *node = sd_tree_floor(&reservations, address, 0);
    if (!node)
        return NULL;
    struct reservation *r = TREE_OWNER(node, struct reservation, node);
    return address - node->key < r->size ? r : NULL;
}

bool sd_vmm_reserved(const void *address) {
    return reservation_of((uintptr_t)address) != NULL;
}

static bool whole_pages(uint64_t value) {
    return value % VMM_GRANULARITY == 0;
}

static void *reserve(uint64_t size, uint64_t alignment) {
    uint64_t wide = size + alignment;
    char *p = mmap(NULL, wide, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    char *start = (char *)(((uintptr_t)p + alignment - 1) & ~(alignment - 1));
    if (start > p)
        munmap(p, (size_t)(start - p));
    if (start + size < p + wide)
        munmap(start + size, (size_t)(p + wide - (start + size)));
    return start;
}

int sd_vmm_reserve(uint64_t size, uint64_t alignment, uint64_t *start) {
    if (!size || !whole_pages(size) || (alignment & (alignment - 1)) || size > 1ull << 46)
        return SD_INVALID_VALUE;
    if (alignment < VMM_GRANULARITY)
        alignment = VMM_GRANULARITY;
    struct reservation *r = calloc(1, sizeof *r);
    char *seen = reserve(size, alignment);
    char *shadow = reserve(size, alignment);
    if (!r || !seen || !shadow) {
        if (seen)
            munmap(seen, size);
        free(r);
        return SD_OUT_OF_MEMORY;
    }
    madvise(shadow, size, MADV_DONTDUMP);
    madvise(shadow, size, MADV_DONTFORK);
    r->node.key = (uintptr_t)seen;
    r->size = size;
    r->shadow = shadow;
    sd_tree_insert(&reservations, &r->node);
    *start = r->node.key;
    return SD_OK;
}

int sd_vmm_unreserve(uint64_t start, uint64_t size) {
    struct reservation *r = reservation_of(start);
    struct tree_node *mapped = sd_tree_ceiling(&mappings, start, 0);
    if (!r || r->node.key != start || r->size != size || (mapped && mapped->key < start + size))
        return SD_INVALID_VALUE;
    sd_tree_remove(&reservations, &r->node);
    munmap((void *)(uintptr_t)start, size);
    munmap(r->shadow, size);
    free(r);
    return SD_OK;
}

int sd_vmm_create(struct device *device, uint64_t size, struct physical **out) {
    if (!size || !whole_pages(size))
        return SD_INVALID_VALUE;
    uint64_t offset = sd_arena_alloc(&device->arena, size);
    if (offset == UINT64_MAX)
        return SD_OUT_OF_MEMORY;
    struct physical *p = sd_handle_new(HANDLE_PHYSICAL, sizeof *p);
    if (!p)
        abort();
    *p = (struct physical){device, size, offset, 1, false};
    *out = p;
    return SD_OK;
}

static void drop(struct physical *p) {
    if (--p->references)
        return;
    sd_arena_free(&p->device->arena, p->offset, p->size);
    sd_handle_free(p);
}

int sd_vmm_release(struct physical *p) {
    sd_handle_retire(p);
    p->released = true;
    drop(p);
    return SD_OK;
}

int sd_vmm_map(uint64_t start, uint64_t size, uint64_t offset, struct physical *p) {
    struct reservation *r = reservation_of(start);
    if (!r || !size || !whole_pages(size) || !whole_pages(start) || offset != 0 ||
        size != p->size || size > r->node.key + r->size - start ||
        sd_memory_overlaps((void *)(uintptr_t)start, size))
        return SD_INVALID_VALUE;
    struct mapping *m = calloc(1, sizeof *m);
    if (!m)
        abort();
    /* A second mapping of the arena's shadow, made without a descriptor. */
    char *shadow = r->shadow + (start - r->node.key);
    if (mremap(p->device->arena.view + p->offset, 0, size, MREMAP_MAYMOVE | MREMAP_FIXED, shadow) ==
        MAP_FAILED) {
        free(m);
        return SD_OUT_OF_MEMORY;
    }
    madvise(shadow, size, MADV_DONTFORK);
    p->references++;
    m->node.key = start;
    m->physical = p;
    m->memory = sd_memory_note(p->device, (void *)(uintptr_t)start, size, STANDIN_VMM, shadow);
    sd_tree_insert(&mappings, &m->node);
    return SD_OK;
}

/* The mappings that make up [start, start + size) exactly, or false. */
static bool covered(uint64_t start, uint64_t size) {
    for (uint64_t at = start; at < start + size;) {
        struct tree_node *node = sd_tree_floor(&mappings, at, 0);
        if (!node || node->key != at)
            return false;
        at += TREE_OWNER(node, struct mapping, node)->memory->size;
        if (at > start + size)
            return false;
    }
    return size > 0;
}

static void unmap(struct mapping *m) {
    mmap(m->memory->view, m->memory->size, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    sd_tree_remove(&mappings, &m->node);
    sd_memory_forget(m->memory);
    drop(m->physical);
    free(m);
}

int sd_vmm_unmap(uint64_t start, uint64_t size, int *device) {
    if (!covered(start, size))
        return SD_INVALID_VALUE;
    for (uint64_t at = start; at < start + size;) {
        struct mapping *m = TREE_OWNER(sd_tree_floor(&mappings, at, 0), struct mapping, node);
        if (at == start)
            *device = m->memory->device;
        at += m->memory->size;
        unmap(m);
    }
    return SD_OK;
}

static void forget(void *object, void *data) {
    struct physical *p = object;
    if (p->device == data)
        sd_vmm_release(p);
}

void sd_vmm_reset(struct device *device) {
    struct tree_node *node;
    for (uint64_t at = 0; (node = sd_tree_ceiling(&mappings, at, 0));) {
        struct mapping *m = TREE_OWNER(node, struct mapping, node);
        at = node->key + 1;
        if (m->memory->device == device->ordinal)
            unmap(m);
    }
    sd_handle_each(HANDLE_PHYSICAL, forget, device);
}

int sd_vmm_set_access(uint64_t start, uint64_t size) {
    return covered(start, size) ? SD_OK : SD_INVALID_VALUE;
}
