/*
 * arena.h - the memory of one device: addresses that the host cannot touch, a shadow of them that
 * copies use, and a capacity.
 *
 * As on hardware, memory is taken from the device in pages of 2 MiB; allocations of up to 1 MiB
 * share pages, at a granularity of 512 bytes.
 *
 * Callers hold the core lock.
 */
#ifndef STANDIN_ARENA_H
#define STANDIN_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "tree.h"

#define ARENA_PAGE (2ull << 20)
#define ARENA_UNIT 512ull

struct small_page;
struct ipc_table;

#define ARENA_TABLE (1ull << 18) /* bytes at the end of the file, for struct ipc_table */

struct arena {
    char *base;             /* PROT_NONE: a host access faults */
    char *view;             /* the same bytes, readable and writable */
    uint64_t size;          /* of the address range; a multiple of the capacity, as VA is plenty */
    uint64_t capacity;      /* bytes */
    uint64_t used;          /* bytes, in whole pages */
    _Atomic uint64_t *told; /* where other processes see them; NULL: nowhere (use.h) */
    int fd;                 /* of the memory's file, for other processes; -1: none */
    uint64_t inode; /* of that file: a program may close descriptors that it does not know */
    struct ipc_table *table; /* see ipc.h */
    struct tree free_by_start, free_by_size;
    struct tree small;          /* pages cut up, by start */
    struct small_page *partial; /* those with room */
};

/* False when the host refuses the address range. */
bool sd_arena_open(struct arena *arena, uint64_t capacity);
/* An offset into the arena, or UINT64_MAX when the device is full. */
uint64_t sd_arena_alloc(struct arena *arena, uint64_t bytes);
/* `bytes` as at the allocation. The contents are gone, once no allocation shares the page. */
void sd_arena_free(struct arena *arena, uint64_t offset, uint64_t bytes);
/* Addresses without memory, in whole pages: an offset, or UINT64_MAX. Memory comes and goes by
 * back (false when the device is full) and unback. */
uint64_t sd_arena_reserve(struct arena *arena, uint64_t bytes);
bool sd_arena_back(struct arena *arena, uint64_t bytes);
void sd_arena_unback(struct arena *arena, uint64_t offset, uint64_t bytes);
void sd_arena_unreserve(struct arena *arena, uint64_t offset, uint64_t bytes);
bool sd_arena_holds(const struct arena *arena, const void *address);

#endif
