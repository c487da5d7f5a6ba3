/*
 * memory.h - what lies at which address: every allocation, registration and mapping.
 *
 * Callers hold the core lock, except where a function says otherwise.
 */
#ifndef STANDIN_MEMORY_H
#define STANDIN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "standin.h"
#include "tree.h"

struct memory {
    struct tree_node node; /* key: the address */
    enum standin_kind kind;
    int device;
    uint64_t size; /* as asked for */
    uint64_t span; /* bytes that the allocation spans, where it was rounded up */
    uint64_t id;
    char *view; /* where the host reads and writes the first byte */
    unsigned flags;
    struct pool *pool; /* of STANDIN_ASYNC */
    bool internal;     /* not the program's: a library's workspace, a module's variable, an array */
    struct graph_allocation *graph; /* of a graph's memory, which has no pool */
    bool exported;                  /* another process may have a handle of it */
};

static inline void *sd_memory_address(const struct memory *m) {
    return (void *)(uintptr_t)m->node.key;
}

/* The record that holds the address, or NULL. An end address is not within. */
struct memory *sd_memory_find(const void *address);
/* The record that starts there, or NULL. */
struct memory *sd_memory_exact(const void *address);
/* Whether any record overlaps [address, address + size). */
bool sd_memory_overlaps(const void *address, uint64_t size);

/* Takes `size` > 0 bytes of device memory. NULL when it is full. */
struct memory *sd_memory_device(struct device *device, uint64_t size, enum standin_kind kind);
/* Page-locked or managed host memory. NULL when the host has no more. */
struct memory *sd_memory_host(struct device *device, uint64_t size, enum standin_kind kind);
/* Takes note of memory that is somebody else's (registered) or has a view of its own (VMM). */
struct memory *sd_memory_note(struct device *device, void *address, uint64_t size,
                              enum standin_kind kind, char *view);
/* Gives back what the function that made the record took, and forgets it. */
void sd_memory_release(struct memory *memory);
/* Forgets the record only; its device memory stays taken (a pool keeps it). */
void sd_memory_forget(struct memory *memory);
/* Releases everything that belongs to a device. */
void sd_memory_release_all(struct device *device);
/* Writes a `#live` note for each allocation of the program's. */
void sd_memory_note_live(void);

/* One side of a copy, made out. */
struct span {
    enum standin_kind kind;
    int device; /* -1 for pageable memory */
    char *view; /* where the host reads and writes it */
    struct memory *memory;
};
/* What lies at [address, address + size), or false where real CUDA calls it an invalid value:
 * beyond an allocation's end, or device addresses that nothing is allocated at. */
bool sd_memory_span(const void *address, uint64_t size, struct span *out);

#endif
