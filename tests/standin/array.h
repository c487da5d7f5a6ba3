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
    struct mipmap *mipmap; /* whose level it is, or NULL */
};

/* Ever smaller copies of an array: each level is one, that goes with them. */
#define MIPMAP_LEVELS 18
struct mipmap {
    struct array *level[MIPMAP_LEVELS];
    unsigned count;
};

/* Status 0, 1, 2 or 20. */
int sd_array_new(struct device *device, const int bits[4], int format, uint64_t width,
                 uint64_t height, uint64_t depth, unsigned flags, struct array **out);
void sd_array_delete(struct array *array);
/* `levels` beyond what the extent allows are not made. Statuses as above. */
int sd_mipmap_new(struct device *device, const int bits[4], int format, const uint64_t extent[3],
                  unsigned levels, unsigned flags, struct mipmap **out);
void sd_mipmap_delete(struct mipmap *mipmap);
uint64_t sd_mipmap_bytes(const struct mipmap *mipmap);
void sd_array_reset(struct device *device);
void sd_array_note_live(void);

/* The bytes of its elements, without the gaps between rows. */
uint64_t sd_array_bytes(const struct array *array);

/* Rows and slices, where 0 stands for one. */
static inline uint64_t sd_array_rows(const struct array *a) {
    return a->height ? a->height : 1;
}
static inline uint64_t sd_array_slices(const struct array *a) {
    return a->depth ? a->depth : 1;
}

#endif
