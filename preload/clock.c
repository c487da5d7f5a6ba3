/*
 * clock.c - choosing the clock. See clock.h.
 */
#include "clock.h"

#include <cpuid.h>

bool ls_clock_tsc;

/* CPUID 0x80000007 EDX bit 8: the counter runs at one rate through frequency and sleep states. */
void ls_clock_init(void) {
    unsigned a, b, c, d;
    ls_clock_tsc = __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1u << 8);
}
