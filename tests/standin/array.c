/*
 * array.c - CUDA arrays, kept as pitched rows of device memory. See array.h.
 */
#include "array.h"

#include <inttypes.h>
#include <unistd.h>

#include "handles.h"
#include "truth.h"

static uint64_t element_bytes(const int bits[4]) {
    /* Channels are 8, 16 or 32 bits, all the same, and 1, 2 or 4 of them. */
    int channels = 0;
    for (int i = 0; i < 4; i++) {
        if (bits[i] && bits[i] != bits[0])
            return 0;
        if (bits[i] && i != channels)
            return 0;
        channels += bits[i] != 0;
    }
    if ((bits[0] != 8 && bits[0] != 16 && bits[0] != 32) || channels == 3)
        return 0;
    return (uint64_t)(bits[0] / 8 * channels);
}

int sd_array_new(struct device *device, const int bits[4], int format, uint64_t width,
                 uint64_t height, uint64_t depth, unsigned flags, struct array **out) {
    uint64_t element = element_bytes(bits);
    if (!element)
        return SD_INVALID_CHANNEL;
    if (width == 0 || width > 131072 || height > 131072 || depth > 16384 ||
        (depth && !height && !(flags & 1)))
        return SD_INVALID_VALUE;
    struct array *a = sd_handle_new(HANDLE_ARRAY, sizeof *a);
    if (!a)
        return SD_OUT_OF_MEMORY;
    for (int i = 0; i < 4; i++)
        a->bits[i] = bits[i];
    a->format = format;
    a->element = element;
    a->width = width;
    a->height = height;
    a->depth = depth;
    a->flags = flags;
    a->pitch = (width * element + 511) & ~511ull;
    a->slice = a->pitch * sd_array_rows(a);
    a->memory = sd_memory_device(device, a->slice * sd_array_slices(a), STANDIN_ARRAY);
    if (!a->memory) {
        sd_handle_delete(a);
        return SD_OUT_OF_MEMORY;
    }
    a->memory->internal = true; /* the array is the program's, its address is not */
    *out = a;
    return SD_OK;
}

void sd_array_delete(struct array *a) {
    sd_memory_release(a->memory);
    sd_handle_delete(a);
}

static void reset(void *object, void *data) {
    struct array *a = object;
    if (a->memory->device == ((struct device *)data)->ordinal)
        sd_array_delete(a);
}

void sd_array_reset(struct device *device) {
    sd_handle_each(HANDLE_ARRAY, reset, device);
}

static void note_live(void *object, void *data) {
    (void)data;
    struct array *a = object;
    sd_truth_note("#live %d array %" PRIu64 " %" PRIu64, (int)getpid(), (uint64_t)(uintptr_t)a,
                  a->memory->size);
}

void sd_array_note_live(void) {
    sd_handle_each(HANDLE_ARRAY, note_live, NULL);
}
