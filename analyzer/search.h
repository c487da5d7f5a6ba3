/*
 * search.h - looking up a moment or a number among sorted ones. Any thread; no state.
 */
#ifndef LAYOUTSPY_SEARCH_H
#define LAYOUTSPY_SEARCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How many of `count` elements of `size` bytes, sorted by the 64-bit number that lies `offset`
 * bytes into each, are at most `value`: also the place of the first one that is above. */
static inline size_t ls_search_up_to(const void *array, size_t count, size_t size, size_t offset,
                                     int64_t value) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int64_t number;
        memcpy(&number, (const char *)array + middle * size + offset, sizeof number);
        if (number <= value)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of structures, by one member; of numbers. Those below a value: up to the one before it. */
#define LS_UP_TO(array, count, member, value)                                                      \
    ls_search_up_to(array, count, sizeof *(array), offsetof(__typeof__(*(array)), member), value)
#define LS_NUMBERS_UP_TO(array, count, value)                                                      \
    ls_search_up_to(array, count, sizeof *(array), 0, value)

#endif
