/*
 * begun.h - how much of an ordered row has begun by some point: the one binary search of those who
 * look up what was the case at a time, a generation or an address.
 * Any thread; no state; async-signal-safe.
 */
#ifndef LAYOUTSPY_BEGUN_H
#define LAYOUTSPY_BEGUN_H

#include <stddef.h>

/* Of the `count` elements of the array `row`, in ascending order of `member`: how many have it at
 * most `by`. The last of them has this number minus 1. */
#define LS_BEGUN(row, count, member, by)                                                           \
    ({                                                                                             \
        size_t begun_low = 0, begun_high = (count);                                                \
        while (begun_low < begun_high) {                                                           \
            size_t begun_middle = begun_low + (begun_high - begun_low) / 2;                        \
            if ((row)[begun_middle].member <= (by))                                                \
                begun_low = begun_middle + 1;                                                      \
            else                                                                                   \
                begun_high = begun_middle;                                                         \
        }                                                                                          \
        begun_low;                                                                                 \
    })

#endif
