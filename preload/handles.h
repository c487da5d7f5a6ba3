/*
 * handles.h - what the handles of NVIDIA's libraries were told last, as far as calls were recorded.
 *
 * Frameworks set the same stream and the same workspace before each call: whether a setter changes
 * anything decides whether it is recorded. Where that is not known (too many handles, another
 * recording), it counts as a change. Any thread, lock-free, async-signal-safe; two threads that set
 * up one handle at once may have a call recorded once too often.
 */
#ifndef LS_HANDLES_H
#define LS_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#include "layoutspy/table.h"

/* Before the call: does it tell the handle something new? */
bool ls_handle_stream_differs(uint64_t handle, uint64_t stream);
bool ls_handle_workspace_differs(uint64_t handle, uint64_t ptr, uint64_t size);
bool ls_handle_value_differs(uint64_t handle, uint64_t value); /* of the one setting there is */

/* After a recorded call of class LIBRARY. */
void ls_on_library(enum ls_api api, int status, const uint64_t *field);

#endif
