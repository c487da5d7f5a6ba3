/*
 * clamp.h - numbers of damaged recordings. Any thread; safe in a signal handler.
 */
#ifndef LAYOUTSPY_CLAMP_H
#define LAYOUTSPY_CLAMP_H

#include <stdint.h>

/* A damaged trace may hold any number; these, of what is real, add up without overflow. */
#define LS_LATEST (INT64_C(1) << 61)  /* ns: 70 years */
#define LS_LARGEST (INT64_C(1) << 50) /* bytes */

static inline int64_t ls_clamped(int64_t value, int64_t most) {
    return value < 0 ? 0 : value > most ? most : value;
}

/* Where they are not clamped they wrap. */
static inline int64_t ls_plus(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t ls_minus(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

#endif
