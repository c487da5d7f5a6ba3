/*
 * nvml.h - what NVML says of the devices' memory, asked in a thread of its own.
 *
 * For the collector alone: the library is loaded by dlopen, is never linked, and never comes into
 * the target. The caller puts a question and takes answers, and waits for neither. A call into NVML
 * that has not come back after LS_NVML_PATIENCE_MS is given up, with the thread that made it.
 * Every function but the thread's own: the collector's one thread; not async-signal-safe.
 */
#ifndef LAYOUTSPY_NVML_H
#define LAYOUTSPY_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "nvml_match.h"

#define LS_NVML_PATIENCE_MS 2000

/* One device at one moment, in bytes; -1: NVML does not tell. */
struct ls_nvml_reading {
    int device; /* as the target numbers it */
    int64_t used, total;
    int64_t own;    /* of the target's process */
    int64_t others; /* of all other processes, none of which is the target's */
};

struct ls_nvml_sample {
    int64_t mono_ns; /* CLOCK_MONOTONIC */
    size_t count;
    struct ls_nvml_reading reading[LS_NVML_DEVICES];
};

struct ls_nvml_setup {
    const char *library; /* a path, or NULL: wherever it is usually found */
    const char *visible; /* CUDA_VISIBLE_DEVICES of the target; NULL: unset */
    const char *order;   /* CUDA_DEVICE_ORDER; NULL: unset */
    pid_t pid;           /* the target's, as seen from here; 0: NVML cannot know it by that */
    bool all_pids;       /* we see all processes of the machine by their own numbers */
};

enum ls_nvml_state {
    LS_NVML_STARTING,
    LS_NVML_READY, /* it answers */
    LS_NVML_OFF,   /* it never will: ls_nvml_why() */
};

struct ls_nvml;

/* NULL: no thread can be started, or there is no memory. Ends with ls_nvml_stop(). */
struct ls_nvml *ls_nvml_start(const struct ls_nvml_setup *setup);

/* Ask for a sample; while one is being taken, for nothing more. */
void ls_nvml_ask(struct ls_nvml *nvml);

/* The oldest sample that was not taken yet. Also gives up on a call that hangs. */
bool ls_nvml_take(struct ls_nvml *nvml, struct ls_nvml_sample *sample);

enum ls_nvml_state ls_nvml_state(struct ls_nvml *nvml);

/* Why it is off, or what is to be said of the match of devices; "" where there is nothing. */
void ls_nvml_why(struct ls_nvml *nvml, char *why, size_t size);

/* Leaves the thread alone where it hangs. */
void ls_nvml_stop(struct ls_nvml *nvml);

/* Some thread hangs in NVML: exit handlers could wait for what it holds, so end by _exit(). */
bool ls_nvml_hangs(void);

#endif
