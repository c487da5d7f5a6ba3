/*
 * gpu_clock.c - CUPTI's clock beside ours. See activity.h. Any thread, busy inside layoutspy.
 */
#include <stdatomic.h>

#include "abi.h"
#include "activity.h"
#include "clock.h"
#include "layoutspy/format.h"
#include "load.h"
#include "spool.h"
#include "state.h"

#define READINGS 3
#define INTERVAL_NS 10000000u

/* When the last pair was due, CLOCK_MONOTONIC ns, and which session's it was. */
static _Atomic uint64_t last_ns, last_epoch;

/* The tightest of some: a thread may be stopped between two readings. False: CUPTI has no clock. */
static bool take_pair(struct ls_rec_gpu_clock *pair) {
    pair->width = UINT64_MAX;
    for (int i = 0; i < READINGS; i++) {
        uint64_t ns = 0, before = ls_ticks();
        if (!ls_cupti.cuptiGetTimestamp || ls_cupti.cuptiGetTimestamp(&ns) != LS_CUPTI_OK || !ns)
            return false;
        uint64_t width = ls_ticks() - before;
        if (width >= pair->width)
            continue;
        pair->ticks = before + width / 2;
        pair->width = width;
        pair->gpu_ns = ns;
    }
    return true;
}

void ls_gpu_clock(struct ls_thread *self) {
    struct ls_rec_gpu_clock pair = {.head = {.size = sizeof pair, .type = LS_REC_GPU_CLOCK}};
    if (!take_pair(&pair))
        return;
    struct ls_rec_gpu_clock *record = ls_spool_reserve(self, sizeof pair);
    if (!record) /* the records that it would have dated find no room either */
        return;
    *record = pair;
    ls_spool_commit(self, sizeof pair);
}

/* One thread at most finds that it is time. */
static bool is_due(void) {
    uint64_t epoch = atomic_load(&ls_live->epoch), now = ls_ns(CLOCK_MONOTONIC);
    uint64_t last = atomic_load(&last_ns);
    if (atomic_exchange(&last_epoch, epoch) != epoch) {
        atomic_store(&last_ns, now);
        return true;
    }
    return now - last >= INTERVAL_NS && atomic_compare_exchange_strong(&last_ns, &last, now);
}

void ls_gpu_clock_if_due(struct ls_thread *self) {
    if (is_due())
        ls_gpu_clock(self);
}
