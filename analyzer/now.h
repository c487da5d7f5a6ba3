/*
 * now.h - the time for waits and limits: milliseconds of CLOCK_MONOTONIC. Any thread.
 */
#ifndef LAYOUTSPY_NOW_H
#define LAYOUTSPY_NOW_H

#include <stdint.h>
#include <time.h>

static inline int64_t ls_now_ms(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

#endif
