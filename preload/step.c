/*
 * step.c - layoutspy_step(): the program itself says where a step begins.
 *
 * Called by the user, from any language (Python: ctypes.CDLL(None).layoutspy_step()); any thread.
 * Without it steps are found from what the program does (docs/schema.md).
 */
#include "mark.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "export.h"
#include "measure.h"
#include "state.h"

LS_EXPORT void layoutspy_step(void);
LS_EXPORT void layoutspy_step(void) {
    static _Atomic bool early; /* one began before the recording did: it is told with the next */
    ls_measure_ended();
    uint64_t epoch = atomic_load_explicit(&ls_live->epoch, memory_order_acquire);
    if (epoch == 0) {
        atomic_store(&early, true);
        return;
    }
    if (atomic_load_explicit(&early, memory_order_relaxed) && atomic_exchange(&early, false))
        ls_mark_at(LS_MARK_STEP, 0, 0, 0, "");
    ls_mark(LS_MARK_STEP, 0, 0, "");
    ls_measure_begun();
}
