/*
 * on_call.h - what the target itself has to keep track of, by class of call.
 *
 * Each takes the call's fields as recorded (positions by name, resolved once), after the real
 * call, in the thread that made it. Everything else is the collector's business.
 */
#ifndef LS_ON_CALL_H
#define LS_ON_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/roles.h"
#include "handles.h"
#include "layoutspy/format.h"
#include "layoutspy/table.h"
#include "thread.h"

/* Streams of this process that are capturing, as far as the calls tell. While there are any, no
 * CUDA call of our own may be made. on_capture.c */
extern _Atomic int ls_capturing;
void ls_before_capture(const struct ls_thread *self); /* it counts from before its call on */
void ls_on_capture(const struct ls_thread *self, enum ls_api api, enum ls_class cls, int status,
                   const uint64_t *field);
/* Captures that end without a call of their own: a stream is destroyed, a device reset, a thread
 * ends; whatever there is, since ends went by unseen. */
void ls_on_stream_end(const struct ls_thread *self, enum ls_api api, int status,
                      const uint64_t *field);
void ls_capture_device_gone(uint64_t device);
void ls_capture_thread_gone(uint32_t tid);
void ls_capture_forget(void);
/* What can be done at another time waits: some capture began less than 10 s ago, and is not over.
 * Longer than that is no capture, or one whose end was not seen. */
bool ls_capture_awaited(void);

/* on_alloc.c: allocations make their addresses known. */
void ls_on_alloc(enum ls_api api, int status, const uint64_t *field);
/* So do a framework's blocks, whose segments may have come by calls that went by unseen. */
void ls_on_block(enum ls_api api, const uint64_t *field);

/* on_device.c: the thread's current device; devices that are reset. */
void ls_on_device(struct ls_thread *self, enum ls_api api, int status, const uint64_t *field);

/* on_copy.c: what CUDA says of host addresses that no recorded call made known. LS_KINDS(). */
uint8_t ls_on_copy(enum ls_api api, int status, const uint64_t *field);

/* Dispatch by class, which is a constant in each wrapper: the classes that are not named here cost
 * nothing. Returns the record's `kinds` byte. errno is kept. */
static inline __attribute__((always_inline)) uint8_t ls_on_call(struct ls_thread *self,
                                                                enum ls_api api, enum ls_class cls,
                                                                int status, const uint64_t *field) {
    if (api == LS_API_cudaStreamDestroy || api == LS_API_cuStreamDestroy_v2)
        ls_on_stream_end(self, api, status, field);
    switch (cls) {
    case LS_CLASS_DEVICE_ALLOC:
    case LS_CLASS_ASYNC_ALLOC:
    case LS_CLASS_MANAGED_ALLOC:
    case LS_CLASS_PINNED_ALLOC:
    case LS_CLASS_REGISTER:
    case LS_CLASS_VMM_MAP:
        ls_on_alloc(api, status, field);
        return 0;
    case LS_CLASS_BLOCK:
        ls_on_block(api, field);
        return 0;
    case LS_CLASS_CAPTURE_BEGIN:
    case LS_CLASS_CAPTURE_END:
        ls_on_capture(self, api, cls, status, field);
        return 0;
    case LS_CLASS_DEVICE:
    case LS_CLASS_CONTEXT:
        ls_on_device(self, api, status, field);
        return 0;
    case LS_CLASS_LIBRARY:
        ls_on_library(api, status, field);
        return 0;
    case LS_CLASS_COPY:
        return ls_on_copy(api, status, field);
    default:
        return 0;
    }
}

#endif
