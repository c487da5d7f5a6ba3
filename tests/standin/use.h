/*
 * use.h - how much of each simulated device each process holds: what the simulated NVML tells of
 * other processes. Each process of one command keeps its figures in a place of a small shared file.
 *
 * The file is $TMPDIR/standin-USER-KEY, where KEY is a hash of STANDIN_SESSION or else of the log's
 * path; without either a process knows only of itself. The last process that ends normally takes it
 * away.
 */
#ifndef STANDIN_USE_H
#define STANDIN_USE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "options.h"

struct sd_use {
    int pid;
    uint64_t used[STANDIN_DEVICES_MAX];    /* bytes */
    uint64_t context[STANDIN_DEVICES_MAX]; /* whether it has one there */
};

/* Core lock held. The process has a context on the device: where to keep the bytes that it uses. */
_Atomic uint64_t *sd_use_begin(int ordinal);
void sd_use_end(int ordinal);

/* Any thread, no lock: the processes that live, up to `max`; returns how many there are. */
int sd_use_read(struct sd_use *out, int max);

#endif
