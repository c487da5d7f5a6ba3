/*
 * tell.h - work that is done and memory that comes and goes, told to the listener of tap.h and,
 * with STANDIN_LOG_GPU, to the ground-truth log (README.md).
 *
 * Callers hold the core lock.
 */
#ifndef STANDIN_TELL_H
#define STANDIN_TELL_H

#include <stdbool.h>
#include <stdint.h>

#include "memory.h"
#include "options.h"
#include "pool.h"
#include "stream.h"
#include "tap.h"
#include "work.h"

/* Whether anybody wants to know. */
static inline bool sd_told(void) {
    return atomic_load_explicit(&sd_tap, memory_order_acquire) || sd_options()->log_gpu;
}

/* A graph's launch that is under way: told as a whole once the last of its work is done. Counted
 * references: one for each piece of work, one for the launch itself. */
struct graph_run {
    unsigned references;
    uint32_t graph, correlation, stream;
    int device;
    uint64_t start_ns, end_ns;
};
struct graph_run *sd_graph_run_new(uint32_t graph, const struct stream *stream);

/* A stream's work is done, at the model's time `end`. */
void sd_tell_work(const struct stream *stream, const struct work *work, uint64_t end);

/* The calling thread has waited since `start_ns`, which is sd_wait_start() of before. */
static inline uint64_t sd_wait_start(void) {
    return sd_told() ? sd_now_ns() : 0;
}
enum sd_wait { WAIT_EVENT = 1, WAIT_STREAM_EVENT, WAIT_STREAM, WAIT_CONTEXT };
void sd_tell_wait(enum sd_wait wait, int device, uint32_t stream, uint64_t start_ns);

/* Before it goes and after it came; `stream` NULL: not in a stream's order. */
enum sd_came_or_went { SD_CAME = 1, SD_WENT };
void sd_tell_memory(enum sd_came_or_went operation, const struct memory *memory,
                    const struct stream *stream);
enum sd_pool_operation { SD_POOL_MADE = 1, SD_POOL_DESTROYED, SD_POOL_TRIMMED };
void sd_tell_pool(enum sd_pool_operation operation, const struct pool *pool, uint64_t keep);
void sd_tell_context(int device, bool made);

/* What CUPTI calls a kind of memory. */
uint32_t sd_tap_memory(enum standin_kind kind);

#endif
