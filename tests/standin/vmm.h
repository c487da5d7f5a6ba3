/*
 * vmm.h - the driver's virtual memory calls: addresses, physical memory, and mappings of one at
 * the other.
 *
 * Callers hold the core lock. Statuses are the driver's: 0, 1, 2, 400.
 */
#ifndef STANDIN_VMM_H
#define STANDIN_VMM_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"

#define VMM_GRANULARITY ARENA_PAGE

struct physical {
    struct device *device;
    uint64_t size, offset; /* in the device's arena */
    unsigned references;   /* the handle's own, and one of each mapping */
    bool released;         /* the handle is gone */
};

int sd_vmm_reserve(uint64_t size, uint64_t alignment, uint64_t *start);
int sd_vmm_unreserve(uint64_t start, uint64_t size);
bool sd_vmm_reserved(const void *address);

int sd_vmm_create(struct device *device, uint64_t size, struct physical **out);
int sd_vmm_release(struct physical *physical);
int sd_vmm_map(uint64_t start, uint64_t size, uint64_t offset, struct physical *physical);
/* Ends all mappings in the range, which they have to fill; *device is the first one's. */
int sd_vmm_unmap(uint64_t start, uint64_t size, int *device);
int sd_vmm_set_access(uint64_t start, uint64_t size);

/* Ends the mappings of a device's memory, and forgets that memory. */
void sd_vmm_reset(struct device *device);

#endif
