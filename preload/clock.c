/*
 * clock.c - choosing the clock and taking calibration pairs. See clock.h.
 */
#include "clock.h"

#include <cpuid.h>

bool ls_clock_tsc;

/* CPUID 0x80000007 EDX bit 8: the counter runs at one rate through frequency and sleep states. */
void ls_clock_init(void) {
    unsigned a, b, c, d;
    ls_clock_tsc = __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
}

struct ls_clock_pair ls_clock_pair(void) {
    struct ls_clock_pair best = {0};
    uint64_t best_gap = UINT64_MAX;
    /* The tightest bracket of a few: a preemption inside one would skew the whole recording. */
    for (int i = 0; i < 5; i++) {
        uint64_t before = ls_ticks();
        uint64_t mono = ls_ns(CLOCK_MONOTONIC);
        uint64_t after = ls_ticks();
        if (after - before < best_gap) {
            best_gap = after - before;
            best.ticks = before + (after - before) / 2;
            best.mono_ns = mono;
        }
    }
    best.real_ns = ls_ns(CLOCK_REALTIME) - (ls_ns(CLOCK_MONOTONIC) - best.mono_ns);
    return best;
}
