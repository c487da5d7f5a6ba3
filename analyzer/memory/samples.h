/*
 * samples.h - how full a device was over the recording, beside what the program is known to hold:
 * the rows of the view `device_memory`. One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_SAMPLES_H
#define LAYOUTSPY_SAMPLES_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes; -1: not known. */
struct ls_use {
    int64_t ts_ns;
    int64_t used, total;
    int64_t tracked, context, unknown;
    int64_t own, others; /* as NVML told of processes */
    int64_t uncertain;   /* up to so much of `unknown` is managed memory, pools', rounding */
    int64_t beside;      /* in use beside `tracked`: of this process alone where `alone` */
};

struct ls_samples {
    int device;
    bool nvml;          /* else the program's own cudaMemGetInfo */
    bool alone;         /* NVML told of this process in each: other processes are in no `beside` */
    struct ls_use *use; /* by time */
    size_t count;
};

/* Devices that there are samples of, in ascending order; at most `room`. */
size_t ls_samples_devices(sqlite3 *db, int *device, size_t room);

/* Of one source: NVML's, but where the program asked more often and of NVML there are few. None
 * where the trace has none, is of an older version, or has no end yet. To be freed. */
void ls_samples_load(struct ls_samples *samples, sqlite3 *db, int device);
void ls_samples_free(struct ls_samples *samples);

/* The one next to a moment, at most `within_ns` away; NULL: none. */
const struct ls_use *ls_samples_near(const struct ls_samples *samples, int64_t ts_ns,
                                     int64_t within_ns);

/* The first one at which most was in use; NULL: there are none. */
const struct ls_use *ls_samples_fullest(const struct ls_samples *samples);

#endif
