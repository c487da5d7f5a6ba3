/*
 * array.h - CUDA arrays: memory that is reached by a handle and coordinates only.
 *
 * Callers hold the core lock.
 */
#ifndef STANDIN_ARRAY_H
#define STANDIN_ARRAY_H

#include <stdint.h>

#include "device.h"
#include "memory.h"

struct array {
    struct memory *memory;         /* behind it, on its device */
    int bits[4];                   /* of the channels x, y, z, w */
    int format;                    /* enum cudaChannelFormatKind */
    uint64_t element;              /* bytes */
    uint64_t width, height, depth; /* in elements, as asked for: 0 height is one-dimensional */
    uint64_t pitch, slice;         /* bytes between rows and slices */
    unsigned flags;
};

/* Status 0, 1, 2 or 20. */
int sd_array_new(struct device *device, const int bits[4], int format, uint64_t width,
                 uint64_t height, uint64_t depth, unsigned flags, struct array **out);
void sd_array_delete(struct array *array);
void sd_array_reset(struct device *device);
void sd_array_note_live(void);

/* Rows and slices, where 0 stands for one. */
static inline uint64_t sd_array_rows(const struct array *a) {
    return a->height ? a->height : 1;
}
static inline uint64_t sd_array_slices(const struct array *a) {
    return a->depth ? a->depth : 1;
}

#endif
