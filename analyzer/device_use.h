/*
 * device_use.h - how full the devices were, by NVML's word, beside what the program is known to
 * hold: rows of `device_use`.
 *
 * Samples come from NVML (nvml.h) while a collector follows a live target, and from the program's
 * own cudaMemGetInfo. What is known to be held at each is worked out when the recording is
 * finished (device_use_split.c). One thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_DEVICE_USE_H
#define LAYOUTSPY_DEVICE_USE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ls_ingest;
struct ls_nvml;
struct ls_trace_db;

struct ls_device_use {
    struct ls_nvml *nvml;
    bool tried;           /* to start it */
    char why[200];        /* there is none, or what it does not tell */
    int64_t first_ms;     /* when the first call was seen; 0: not yet */
    int64_t asked_ms;     /* for the last sample */
    int64_t eager_ms;     /* until then, ask more often */
    int64_t oom_ms;       /* ingest->ooms.committed_ms as last seen */
    bool allocated;       /* memory was seen to be allocated, */
    bool asked_for_first; /* and a sample was asked for then */
};

/* After each drain of a live target's spool. `pid`: the target's, 0 where it is in another pid
 * namespace. Never waits. */
void ls_device_use_tick(struct ls_ingest *ingest, pid_t pid);

/* At the end of a recording: samples that are left, what the program held at each, coverage. */
void ls_device_use_finish(struct ls_ingest *ingest);

void ls_device_use_close(struct ls_device_use *use);

/* ---- device_use_split.c ---- */

/* Leave out what cannot be true, and complete the rows. `note` gets why some were left out. False:
 * there is no memory to; the rows are as they were told. */
bool ls_device_use_split(struct ls_trace_db *db, char *note, size_t size);

#endif
