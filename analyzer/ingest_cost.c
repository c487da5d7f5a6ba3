/*
 * ingest_cost.c - what recording cost the target, from the spool's counters into `meta`. See
 * ingest.h.
 *
 * One thread; not async-signal-safe. Can be done twice.
 */
#include "clamp.h"
#include "ingest_internal.h"

/* A duration in ticks as ns; the clock's lines need two points. */
static int64_t ticks_ns(struct ls_ingest *ingest, uint64_t ticks) {
    uint64_t start = ingest->spool->start.clock[0].ticks;
    return ls_clamped(
        ls_minus(ls_clock_ns(&ingest->clock, start + ticks), ls_clock_ns(&ingest->clock, start)),
        LS_LATEST);
}

static uint64_t counted(struct ls_ingest *ingest, enum ls_cost what) {
    return atomic_load(&ingest->spool->header->cost[what]);
}

/* The mean of a sample, in ns; 0: there was none. */
static double mean_ns(struct ls_ingest *ingest, enum ls_cost count, enum ls_cost ticks) {
    uint64_t samples = counted(ingest, count);
    return samples ? (double)ticks_ns(ingest, counted(ingest, ticks)) / (double)samples : 0;
}

/* Of a damaged header the product may be more than a number holds. */
static int64_t in_ns(double ns) {
    return ns < (double)LS_LATEST ? (int64_t)ns : LS_LATEST;
}

void ls_cost_put(struct ls_ingest *ingest) {
    struct ls_trace_db *db = &ingest->db;
    int64_t calls = ls_db_number(db, "SELECT COUNT(*) FROM call");
    int64_t stacks = ls_db_number(db, "SELECT COUNT(*) FROM call WHERE stack IS NOT NULL");
    double recording = (double)calls * mean_ns(ingest, LS_COST_LEAVES, LS_COST_LEAVE_TICKS) +
                       (double)stacks * mean_ns(ingest, LS_COST_STACKS, LS_COST_STACK_TICKS);
    ls_ingest_put_number(ingest, "cost.start_ns", (int64_t)counted(ingest, LS_COST_START_NS));
    ls_ingest_put_number(ingest, "cost.samples", (int64_t)counted(ingest, LS_COST_LEAVES));
    ls_ingest_put_number(ingest, "cost.calls", calls);
    ls_ingest_put_number(ingest, "cost.calls_ns", in_ns(recording));
    ls_ingest_put_number(ingest, "cost.buffers", (int64_t)counted(ingest, LS_COST_BUFFERS));
    ls_ingest_put_number(ingest, "cost.buffers_ns",
                         ticks_ns(ingest, counted(ingest, LS_COST_BUFFER_TICKS)));
    ls_ingest_put_number(ingest, "cost.flushes", (int64_t)counted(ingest, LS_COST_FLUSHES));
    ls_ingest_put_number(ingest, "cost.flushes_ns",
                         ticks_ns(ingest, counted(ingest, LS_COST_FLUSH_TICKS)));
}
