/*
 * alloc.h - allocations, frees and registrations as programs ask for them, for both the runtime
 * and the driver: with the checks of real CUDA.
 *
 * These functions take the core lock themselves. Out-pointers are never NULL here.
 */
#ifndef STANDIN_ALLOC_H
#define STANDIN_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

#include "pool.h"
#include "standin.h"

/* What a free ended, for the log. */
struct freed {
    bool known;
    enum standin_kind kind;
    uint64_t size;
    bool graph; /* a graph's memory */
};

int sd_malloc(uint64_t size, void **out);
int sd_malloc_managed(uint64_t size, unsigned flags, void **out);
int sd_malloc_host(uint64_t size, unsigned flags, void **out);
/* `pool` NULL: the device's current one. */
int sd_malloc_async(uint64_t size, const void *pool, const void *stream, bool per_thread,
                    void **out, bool *in_graph);
int sd_free(void *address, struct freed *out);
int sd_free_async(void *address, const void *stream, bool per_thread, struct freed *out);
int sd_free_host(void *address, struct freed *out);
int sd_register(void *address, uint64_t size, unsigned flags);
int sd_unregister(void *address, struct freed *out);
/* Pools. The device's own ones are `current` or the default. */
int sd_mem_pool_make(int ordinal, void **out);
int sd_mem_pool_destroy(const void *handle);
int sd_mem_pool_trim(const void *handle, uint64_t keep);
/* By cudaMemPoolAttr, which the driver numbers alike. */
int sd_mem_pool_set(const void *handle, int number, const void *value);
int sd_mem_pool_get(const void *handle, int number, void *value);
int sd_mem_pool_of(int ordinal, bool current, void **out);
int sd_mem_info(uint64_t *available, uint64_t *total);

/* The word for a kind in the log's `memory` key; a graph's memory is `graph` there. */
const char *sd_memory_word(enum standin_kind kind);
const char *sd_freed_word(const struct freed *freed);

#endif
