/*
 * ipc_call.h - memory and events of other processes as programs ask for them, for both the runtime
 * and the driver. See ipc.h. Handles are the 64 bytes of a struct ipc_handle.
 *
 * These functions take the core lock themselves.
 */
#ifndef STANDIN_IPC_CALL_H
#define STANDIN_IPC_CALL_H

#include <stdint.h>

struct freed;

/* What the log tells of a handle: 64-bit FNV-1a. */
uint64_t sd_ipc_hash(const void *handle);
int sd_ipc_get_memory(void *handle, void *ptr);
/* *size and *on, its device, are set where it is opened. */
int sd_ipc_open_memory(void **out, const void *handle, unsigned flags, uint64_t *size, int *on);
int sd_ipc_close_memory(void *ptr, struct freed *out);
int sd_ipc_get_event(void *handle, const void *event);
int sd_ipc_open_event(void **out, const void *handle);

#endif
