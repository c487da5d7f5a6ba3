/*
 * graph_memory.c - memory that graphs allocate. See graph_memory.h.
 */
#include "graph_memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "memory.h"
#include "stream.h"
#include "truth.h"

static struct graph_allocation *allocations;
/* Bytes of each device, as cudaGraphMemAttributeType numbers them. */
static uint64_t attributes[STANDIN_DEVICES_MAX][4];
enum { USED, USED_HIGH, RESERVED, RESERVED_HIGH };

static void count(const struct graph_allocation *a, int what, bool more) {
    uint64_t *value = attributes[a->device->ordinal];
    value[what] += more ? a->span : -a->span;
    if (value[what] > value[what + 1])
        value[what + 1] = value[what];
}

static void set_live(struct graph_allocation *a, bool live) {
    if (a->live != live)
        count(a, USED, live);
    a->live = live;
}

/* The device gets its memory back; the address stays. */
static void unback(struct graph_allocation *a) {
    if (!a->resident)
        return;
    count(a, RESERVED, false);
    sd_arena_unback(&a->device->arena, a->offset, a->span);
    a->resident = false;
}

static void forget(struct graph_allocation *a) {
    if (!a->memory)
        return;
    set_live(a, false);
    unback(a);
    sd_arena_unreserve(&a->device->arena, a->offset, a->span);
    sd_memory_forget(a->memory);
    a->memory = NULL;
}

/* Ends one that belongs to nobody any more. What no call has freed stays in the list, for its
 * `#live` note. */
static void end(struct graph_allocation *a) {
    forget(a);
    if (!a->told)
        return;
    struct graph_allocation **link = &allocations;
    while (*link != a)
        link = &(*link)->next;
    *link = a->next;
    free(a);
}

struct graph_memory *sd_graph_memory_new(void) {
    struct graph_memory *g = calloc(1, sizeof *g);
    if (!g)
        abort();
    g->references = 1;
    return g;
}

struct graph_memory *sd_graph_memory_hold(struct graph_memory *g) {
    g->references++;
    return g;
}

void sd_graph_memory_drop(struct graph_memory *g) {
    if (--g->references)
        return;
    for (size_t i = 0; i < g->count; i++) {
        struct graph_allocation *a = g->allocation[i];
        a->orphan = true;
        if (a->live)
            continue;
        if (a->resident)
            sd_device_wait(a->device);
        end(a);
    }
    free(g->allocation);
    free(g->release);
    free(g);
}

static uint64_t whole_pages(uint64_t bytes) {
    return (bytes + ARENA_PAGE - 1) & ~(ARENA_PAGE - 1);
}

struct memory *sd_graph_memory_add(struct graph_memory *g, struct device *device, uint64_t size) {
    struct arena *arena = &device->arena;
    if (size > arena->capacity)
        return NULL;
    uint64_t span = whole_pages(size), offset = sd_arena_reserve(arena, span);
    if (offset == UINT64_MAX)
        return NULL;
    struct graph_allocation *a = calloc(1, sizeof *a);
    struct graph_allocation **grown = realloc(g->allocation, (g->count + 1) * sizeof *grown);
    struct memory *m =
        sd_memory_note(device, arena->base + offset, size, STANDIN_ASYNC, arena->view + offset);
    if (!a || !grown || !m)
        abort();
    m->internal = true; /* noted here */
    m->graph = a;
    *a = (struct graph_allocation){.next = allocations,
                                   .memory = m,
                                   .address = m->node.key,
                                   .size = size,
                                   .device = device,
                                   .offset = offset,
                                   .span = span};
    allocations = a;
    g->allocation = grown;
    g->allocation[g->count++] = a;
    return m;
}

static bool own(const struct graph_memory *g, const struct graph_allocation *a) {
    size_t i = 0;
    while (i < g->count && g->allocation[i] != a)
        i++;
    return i < g->count;
}

int sd_graph_memory_release(struct graph_memory *g, struct memory *freed) {
    struct graph_allocation *a = freed->graph;
    if (!a || a->freed_inside)
        return SD_INVALID_VALUE;
    if (own(g, a)) {
        a->freed_inside = true;
    } else {
        for (size_t i = 0; i < g->releases; i++)
            if (g->release[i].id == freed->id)
                return SD_INVALID_VALUE;
        g->release = realloc(g->release, (g->releases + 1) * sizeof *g->release);
        if (!g->release)
            abort();
        g->release[g->releases].address = freed->node.key;
        g->release[g->releases++].id = freed->id;
    }
    a->told = true;
    return SD_OK;
}

/* The allocation of another graph that a launch frees, or NULL where it is not allocated. */
static struct memory *released(const struct graph_memory *g, size_t i) {
    struct memory *m = sd_memory_exact((void *)(uintptr_t)g->release[i].address);
    return m && m->id == g->release[i].id && m->graph->live ? m : NULL;
}

int sd_graph_memory_launch(struct graph_memory *g, bool auto_free) {
    for (size_t i = 0; i < g->count; i++)
        if (!g->allocation[i]->memory || (g->allocation[i]->live && !auto_free))
            return SD_INVALID_VALUE;
    for (size_t i = 0; i < g->releases; i++)
        if (!released(g, i))
            return SD_INVALID_VALUE;
    for (size_t i = 0; i < g->count; i++) {
        struct graph_allocation *a = g->allocation[i];
        if (!a->resident && !sd_arena_back(&a->device->arena, a->span))
            return SD_OUT_OF_MEMORY;
        if (!a->resident)
            count(a, RESERVED, true);
        a->resident = true;
    }
    for (size_t i = 0; i < g->count; i++)
        set_live(g->allocation[i], true);
    for (size_t i = 0; i < g->count; i++)
        if (g->allocation[i]->freed_inside)
            set_live(g->allocation[i], false);
    for (size_t i = 0; i < g->releases; i++)
        sd_graph_memory_free(released(g, i));
    return SD_OK;
}

int sd_graph_memory_free(struct memory *m) {
    struct graph_allocation *a = m->graph;
    if (!a->live)
        return SD_INVALID_VALUE;
    a->told = true;
    set_live(a, false);
    if (a->orphan) {
        sd_device_wait(a->device); /* what is queued may still use it */
        end(a);
    }
    return SD_OK;
}

uint64_t *sd_graph_memory_attribute(struct device *device, int number) {
    return number >= USED && number <= RESERVED_HIGH ? &attributes[device->ordinal][number] : NULL;
}

void sd_graph_memory_trim(struct device *device) {
    sd_device_wait(device);
    for (struct graph_allocation *a = allocations; a; a = a->next)
        if (a->memory && a->device == device && !a->live)
            unback(a);
}

void sd_graph_memory_reset(struct device *device) {
    struct graph_allocation *next;
    for (struct graph_allocation *a = allocations; a; a = next) {
        next = a->next;
        if (a->device != device)
            continue;
        a->told = true;
        forget(a);
        if (a->orphan)
            end(a);
    }
}

void sd_graph_memory_note_live(void) {
    for (struct graph_allocation *a = allocations; a; a = a->next)
        if (!a->told && (a->memory || !sd_memory_exact((void *)(uintptr_t)a->address)))
            sd_truth_note("#live %d graph %" PRIu64 " %" PRIu64, (int)getpid(), a->address,
                          a->size);
}
