/*
 * graph_memory.h - memory that graphs allocate.
 *
 * An allocation has its address from the moment its node is made, and memory of the device from
 * the first launch on: a launch on a full device is refused. What a graph frees itself stays with
 * it for the next launch, until the last graph made of it is gone or cudaDeviceGraphMemTrim; what
 * it leaves allocated is the program's to free, by cudaFree, cudaFreeAsync or a node of another
 * graph.
 *
 * In the log a lifetime goes from the call that made the node to the call that frees it, captured
 * or not: a launch has no line of its own for each allocation.
 *
 * Callers hold the core lock.
 */
#ifndef STANDIN_GRAPH_MEMORY_H
#define STANDIN_GRAPH_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"

struct memory;

struct graph_allocation {
    struct graph_allocation *next; /* of all */
    struct memory *memory;         /* NULL once it is gone */
    uint64_t address, size;        /* as asked for */
    struct device *device;
    uint64_t offset, span; /* in the device's arena */
    bool resident;         /* has memory of the device */
    bool live;             /* a launch allocated it, and nothing has freed it */
    bool freed_inside;     /* by a node of its own graph */
    bool told;             /* a call that frees it is in the log */
    bool orphan;           /* its graphs are gone */
};

/* What one graph allocates and frees, shared by it and all that is made of it. */
struct graph_memory {
    unsigned references, instances;
    struct graph_allocation **allocation;
    size_t count;
    struct {
        uint64_t address, id;
    } * release; /* allocations of other graphs that this one frees */
    size_t releases;
};

struct graph_memory *sd_graph_memory_new(void);
struct graph_memory *sd_graph_memory_hold(struct graph_memory *memory);
void sd_graph_memory_drop(struct graph_memory *memory);

/* A node allocates. NULL: no addresses left. */
struct memory *sd_graph_memory_add(struct graph_memory *memory, struct device *device,
                                   uint64_t size);
/* A node frees. 1 where `freed` is no graph's memory or is freed by a node already. */
int sd_graph_memory_release(struct graph_memory *memory, struct memory *freed);
/* Before a launch's work: 0, 1 (allocated by the last launch and not freed since), 2. */
int sd_graph_memory_launch(struct graph_memory *memory, bool auto_free);
/* The program frees what a launch left allocated. 1: nothing is. */
int sd_graph_memory_free(struct memory *memory);

/* cudaGraphMemAttributeType: used, its high, reserved, its high. */
uint64_t *sd_graph_memory_attribute(struct device *device, int number);
void sd_graph_memory_trim(struct device *device);
void sd_graph_memory_reset(struct device *device);
/* `#live` notes of what no call has freed. */
void sd_graph_memory_note_live(void);

#endif
