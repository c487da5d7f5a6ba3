/*
 * ipc.h - memory and events of one process in another.
 *
 * A device's memory is a memfd of the process that uses it, kept open. A handle names the process,
 * its descriptor, and the place in it; who opens the handle maps that part of the file through
 * /proc/PID/fd. At the end of the file lies a table that both processes see: which exported
 * allocations still live, and how far each interprocess event has come.
 *
 * Callers hold the core lock. Statuses: 0, 1, 2, 101, 201 (opened by the exporting process), 205
 * (what the handle names is not there any more), 304 (the program closed the device's descriptor),
 * 400.
 */
#ifndef STANDIN_IPC_H
#define STANDIN_IPC_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"

struct memory;
struct event;
struct marker;

#define IPC_MEMORIES 4096
#define IPC_EVENTS 4096

/* An event between processes: `done` follows `recorded`, both by tickets. Id 0: free. */
struct ipc_event {
    uint64_t id, recorded, done;
};

struct ipc_table {
    uint64_t memory[IPC_MEMORIES]; /* ids of exported allocations; 0: free */
    struct ipc_event event[IPC_EVENTS];
};

/* What cudaIpcMemHandle_t and cudaIpcEventHandle_t hold: 64 bytes. */
struct ipc_handle {
    uint64_t magic;
    int pid, fd;
    uint64_t device, inode; /* of the memfd */
    uint64_t offset, size;  /* of the memory in the file */
    uint64_t id;            /* of the allocation or event */
    uint32_t slot;          /* in the table */
    int ordinal;
};
_Static_assert(sizeof(struct ipc_handle) == 64, "as CUDA_IPC_HANDLE_SIZE");

int sd_ipc_export(struct memory *memory, struct ipc_handle *out);
/* The allocation is gone: its handle opens nothing any more. */
void sd_ipc_forget(struct memory *memory);
/* Maps it; opened again, the same address is given and has to be closed once more. */
int sd_ipc_open(const struct ipc_handle *handle, struct memory **out);
/* `memory` is one that sd_ipc_open() gave. Waiting for work is the caller's. */
void sd_ipc_close(struct memory *memory);
/* Closes all that lies on a device. */
void sd_ipc_reset(struct device *device);

/* For an event that other processes may open: its place in the table, or NULL when that is full. */
struct ipc_event *sd_ipc_event_new(struct device *device);
void sd_ipc_event_delete(struct ipc_event *event);
int sd_ipc_event_export(const struct event *event, struct ipc_handle *out);
int sd_ipc_event_open(const struct ipc_handle *handle, struct event **out);
/* A record of the event was put on a stream, and is reached. */
void sd_ipc_event_record(struct ipc_event *event, struct marker *marker);
void sd_ipc_event_reach(const struct marker *marker);
/* The latest record, whoever made it, is reached. */
bool sd_ipc_event_done(const struct ipc_event *event);
/* Waits until the records of now are reached; lets the lock go meanwhile. */
void sd_ipc_event_wait(const struct ipc_event *event);

#endif
