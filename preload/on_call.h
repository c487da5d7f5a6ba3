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
#include "layoutspy/format.h"
#include "layoutspy/table.h"
#include "thread.h"

/* Streams of this process that are capturing, as far as the capture calls tell. While there are
 * any, no CUDA call of our own may be made. on_capture.c */
extern _Atomic int ls_capturing;
void ls_before_capture(void); /* before a capture begins: it counts from then on */
void ls_on_capture(enum ls_class cls, int status);

/* on_alloc.c: allocations make their addresses known. */
void ls_on_alloc(enum ls_api api, int status, const uint64_t *field);

/* on_device.c: the thread's current device. */
void ls_on_device(struct ls_thread *self, enum ls_api api, int status, const uint64_t *field);

/* on_copy.c: what CUDA says of host addresses that no recorded call made known. LS_KINDS(). */
uint8_t ls_on_copy(enum ls_api api, int status, const uint64_t *field);

/* The classes that any of these is for: the others cost nothing (decided at compile time). */
static inline bool ls_class_is_tracked(enum ls_class cls) {
    switch (cls) {
    case LS_CLASS_DEVICE_ALLOC:
    case LS_CLASS_ASYNC_ALLOC:
    case LS_CLASS_MANAGED_ALLOC:
    case LS_CLASS_PINNED_ALLOC:
    case LS_CLASS_REGISTER:
    case LS_CLASS_CAPTURE_BEGIN:
    case LS_CLASS_CAPTURE_END:
    case LS_CLASS_DEVICE:
    case LS_CLASS_COPY:
        return true;
    default:
        return false;
    }
}

/* Dispatch by class. Returns the record's `kinds` byte. on_call.c */
uint8_t ls_on_call(struct ls_thread *self, enum ls_api api, int status, const uint64_t *field);

#endif
