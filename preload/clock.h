/*
 * clock.h - ticks: the time-stamp counter where it is invariant, else CLOCK_MONOTONIC ns.
 *
 * Any thread; async-signal-safe.
 */
#ifndef LS_CLOCK_H
#define LS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include <x86intrin.h>

extern bool ls_clock_tsc; /* set once by ls_clock_init(), before the first record */

void ls_clock_init(void);

static inline uint64_t ls_ns(clockid_t clock) {
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint64_t ls_ticks(void) {
    return __builtin_expect(ls_clock_tsc, 1) ? __rdtsc() : ls_ns(CLOCK_MONOTONIC);
}

#endif
