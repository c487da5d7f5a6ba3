/*
 * step.c - layoutspy_step(): the program itself says where a step begins.
 *
 * Called by the user, from any language (Python: ctypes.CDLL(None).layoutspy_step()); any thread.
 * Without it steps are found from what the program does (docs/findings.md).
 */
#include "mark.h"

#include "export.h"

LS_EXPORT void layoutspy_step(void);
LS_EXPORT void layoutspy_step(void) {
    ls_mark(LS_MARK_STEP, 0, 0, "");
}
