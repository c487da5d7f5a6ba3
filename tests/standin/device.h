/*
 * device.h - the simulated devices, their contexts, and the one lock.
 *
 * The core lock guards all state of the simulated device (memory, handles, streams, graphs,
 * kernels). It is taken at the start of an exported call, let go while work runs or the host
 * waits, and is held across fork(). Only the log's own lock is taken under it.
 *
 * Any thread; not in signal handlers.
 */
#ifndef STANDIN_DEVICE_H
#define STANDIN_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "options.h"
#include "standin.h"

struct stream;
struct pool;

struct device {
    int ordinal;
    bool context;   /* the primary context is there */
    unsigned flags; /* cudaSetDeviceFlags */
    bool peer[STANDIN_DEVICES_MAX];
    struct arena arena;
    struct pool *default_pool, *current_pool;
    /* Streams: see stream.c. */
    struct stream *legacy;
    struct stream *busy;    /* those with work, by their `next_busy` */
    uint64_t sequence;      /* of the latest work put on any stream */
    uint32_t stream_number; /* of the latest stream */
    pthread_cond_t work;    /* wakes the device's thread */
    bool worker;            /* the thread runs */
};

/* Statuses that the core itself returns; the names are the runtime's. */
enum sd_status {
    SD_OK = 0,
    SD_INVALID_VALUE = 1,
    SD_OUT_OF_MEMORY = 2,
    SD_INITIALIZATION = 3,
    SD_INVALID_CONFIGURATION = 9,
    SD_INVALID_PITCH = 12,
    SD_INVALID_SYMBOL = 13,
    SD_INVALID_CHANNEL = 20,
    SD_INVALID_DIRECTION = 21,
    SD_MISSING_CONFIGURATION = 52,
    SD_INVALID_FUNCTION = 98,
    SD_NO_DEVICE = 100,
    SD_INVALID_DEVICE = 101,
    SD_NO_CONTEXT = 201,
    SD_MAP_FAILED = 205,
    SD_OPERATING_SYSTEM = 304,
    SD_INVALID_HANDLE = 400,
    SD_ILLEGAL_STATE = 401,
    SD_NOT_FOUND = 500,
    SD_NOT_READY = 600,
    SD_PEER_ALREADY_ENABLED = 704,
    SD_PEER_NOT_ENABLED = 705,
    SD_ALREADY_REGISTERED = 712,
    SD_NOT_REGISTERED = 713,
    SD_NOT_PERMITTED = 800,
    SD_NOT_SUPPORTED = 801,
    SD_CAPTURE_UNSUPPORTED = 900,
    SD_CAPTURE_INVALIDATED = 901,
    SD_CAPTURE_MERGE = 902,
    SD_CAPTURE_UNMATCHED = 903,
    SD_CAPTURE_UNJOINED = 904,
    SD_CAPTURE_ISOLATION = 905,
    SD_CAPTURE_IMPLICIT = 906,
    SD_CAPTURED_EVENT = 907,
    SD_CAPTURE_WRONG_THREAD = 908,
};

extern pthread_mutex_t sd_core;

/*
 * Takes the core lock for a call that needs the driver but no context; after a status other than
 * 0 the lock is not held. 3: a fork child of a process that used the driver; 800: called from a
 * host function of a stream.
 */
int sd_begin(void);
/* The same, and makes the current device's context where it is not there. 100: no device. */
int sd_begin_context(struct device **out);
void sd_end(void);
/* Whether the driver was ever used, by any call. */
bool sd_driver_used(void);
/* Whether this is the child of a process that had used it. */
bool sd_driver_lost(void);
/* The CUcontext of a device's primary context, there or not. */
void *sd_context_handle(int ordinal);
/* `status`, after sd_end(): for the last line of a function. */
int sd_end_with(int status);

/* The lock for registrations of kernels, which need no driver. False in a fork child that must
 * leave everything alone; then the lock is not held. */
bool sd_begin_registration(void);

/* Lock held: the device by its ordinal, or NULL; with its context, made now if need be. */
struct device *sd_device(int ordinal);
int sd_device_context(int ordinal, struct device **out);
struct device *sd_current(void);

/* This thread's current device; no check. */
int sd_current_ordinal(void);
/* 101 where there is no such device. */
int sd_set_current(int ordinal);

/* Set in the devices' own threads while they run a host function. */
extern __thread bool sd_in_host_function;

/* Lock held. Destroys the context of a device: everything in it. */
void sd_device_reset(struct device *device);

uint64_t sd_now_ns(void);

#endif
