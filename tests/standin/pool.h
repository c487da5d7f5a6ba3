/*
 * pool.h - stream-ordered allocation: memory pools.
 *
 * A pool keeps what is freed into it. A block that a stream freed can be taken again by that
 * stream at once, by others when the free's place in the stream is reached. What is kept beyond
 * the release threshold goes back to the device when the host synchronises, as on hardware.
 *
 * Callers hold the core lock.
 */
#ifndef STANDIN_POOL_H
#define STANDIN_POOL_H

#include <stdint.h>

#include "device.h"
#include "memory.h"
#include "stream.h"

struct pool_block;

struct pool {
    struct device *device;
    struct pool_block *kept;                           /* freed blocks */
    uint64_t used, used_high, reserved, reserved_high; /* bytes */
    uint64_t threshold;
    int reuse[3]; /* the three reuse switches, as set */
    bool deleted; /* destroyed while allocations are live */
};

struct pool *sd_pool_new(struct device *device);
/* The default pool cannot be destroyed: 1. */
int sd_pool_delete(struct pool *pool);
/* NULL when the device is full. May wait for the stream. */
struct memory *sd_pool_alloc(struct pool *pool, struct stream *stream, uint64_t size);
/* Makes cudaMalloc's memory one of the default pool's, so that a stream can free it. */
void sd_pool_adopt(struct memory *memory);
/* Frees in the stream's order. */
void sd_pool_free(struct memory *memory, struct stream *stream);
/* Frees at once: the program says that nothing uses it. */
void sd_pool_free_now(struct memory *memory);
void sd_pool_trim(struct pool *pool, uint64_t keep);
/* At a synchronisation: every pool of the device down to its threshold. */
void sd_pools_settle(struct device *device);
void sd_pools_reset(struct device *device);

#endif
