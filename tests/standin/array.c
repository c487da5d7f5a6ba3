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

uint64_t sd_array_bytes(const struct array *a) {
    return a->width * sd_array_rows(a) * sd_array_slices(a) * a->element;
}

/* ---- mipmaps -------------------------------------------------------------------------------- */

static uint64_t smaller(uint64_t length, unsigned level) {
    return length && !(length >> level) ? 1 : length >> level;
}

int sd_mipmap_new(struct device *device, const int bits[4], int format, const uint64_t extent[3],
                  unsigned levels, unsigned flags, struct mipmap **out) {
    bool layered = flags & 5; /* layers and a cube's faces do not shrink */
    uint64_t longest = extent[0] > extent[1] ? extent[0] : extent[1];
    if (!layered && extent[2] > longest)
        longest = extent[2];
    unsigned most = 1;
    while (longest >> most && most < MIPMAP_LEVELS)
        most++;
    struct mipmap *m = sd_handle_new(HANDLE_MIPMAP, sizeof *m);
    if (!m)
        return SD_OUT_OF_MEMORY;
    int status = SD_OK;
    for (unsigned i = 0; i < most && (i < levels || i == 0) && !status; i++) {
        status = sd_array_new(device, bits, format, smaller(extent[0], i), smaller(extent[1], i),
                              layered ? extent[2] : smaller(extent[2], i), flags, &m->level[i]);
        if (!status)
            m->level[m->count++]->mipmap = m;
    }
    if (status)
        sd_mipmap_delete(m);
    else
        *out = m;
    return status;
}

void sd_mipmap_delete(struct mipmap *m) {
    for (unsigned i = 0; i < m->count; i++)
        sd_array_delete(m->level[i]);
    sd_handle_delete(m);
}

uint64_t sd_mipmap_bytes(const struct mipmap *m) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < m->count; i++)
        bytes += sd_array_bytes(m->level[i]);
    return bytes;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void reset(void *object, void *data) {
    struct array *a = object;
    if (a->memory->device == ((struct device *)data)->ordinal && !a->mipmap)
        sd_array_delete(a);
}

static void reset_mipmap(void *object, void *data) {
    struct mipmap *m = object;
    if (m->level[0]->memory->device == ((struct device *)data)->ordinal)
        sd_mipmap_delete(m);
}

void sd_array_reset(struct device *device) {
    sd_handle_each(HANDLE_MIPMAP, reset_mipmap, device);
    sd_handle_each(HANDLE_ARRAY, reset, device);
}

static void note(const void *handle, uint64_t bytes) {
    sd_truth_note("#live %d array %" PRIu64 " %" PRIu64, (int)getpid(), (uint64_t)(uintptr_t)handle,
                  bytes);
}

static void note_live(void *object, void *data) {
    (void)data;
    const struct array *a = object;
    if (!a->mipmap)
        note(a, sd_array_bytes(a));
}

static void note_live_mipmap(void *object, void *data) {
    (void)data;
    note(object, sd_mipmap_bytes(object));
}

void sd_array_note_live(void) {
    sd_handle_each(HANDLE_ARRAY, note_live, NULL);
    sd_handle_each(HANDLE_MIPMAP, note_live_mipmap, NULL);
}
