/*
 * pool_rounding.h - what a stream of requests would have taken from a pool that rounds sizes up.
 *
 * For `pool-miss`. Sizes in bytes. Main thread only; not for signal handlers.
 */
#ifndef LAYOUTSPY_POOL_ROUNDING_H
#define LAYOUTSPY_POOL_ROUNDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A request, with the real lifetime of what it asked for. */
struct ls_request {
    int64_t start_ns, end_ns, start_call, end_call;
    uint64_t size, wanted; /* asked of the driver, and by whoever wanted it */
    uint32_t stack, site, free_site;
    size_t step;
};

/* The requests in the order of their ends; to be freed. */
const struct ls_request **ls_pool_ends(const struct ls_request *at, size_t count);

/* Requests (by start; `end` has them by end) over their real lifetimes: the sum of what such a pool
 * would have asked of the driver, in so many calls. Sizes are rounded up to powers of two, or to
 * eighths between them. */
uint64_t ls_pool_rounded(const struct ls_request *at, size_t count,
                         const struct ls_request *const *end, bool eighths, size_t *calls);

/* The same for what a pool asked for, whose lifetimes are not those of what was in it. What it asks
 * for in one step is in use at once, and what it asked for in an earlier one was free again.
 * Where there are too few steps for that, of one size it has as many pieces as are in use at once,
 * else it would have used one again. */
uint64_t ls_pool_rounded_by_steps(const struct ls_request *at, size_t count, size_t steps,
                                  bool eighths, size_t *calls);

#endif
