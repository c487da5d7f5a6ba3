/*
 * driver_words.h - words for the fields of the driver's rows, as row_words.h, which includes it:
 * its own structures in the runtime's terms.
 */
#ifndef LS_DRIVER_WORDS_H
#define LS_DRIVER_WORDS_H

#include <stdint.h>

#include "layoutspy/api.h"
#include "layoutspy/api/types.h"

/* `which` is grid or block. */
#define ls_driver_grid(config, which)                                                              \
    ((config) ? LS_DIM3((config)->which##DimX, (config)->which##DimY, (config)->which##DimZ) : 0)

/* Of CUDA_MEMCPY2D and 3D; `side` is dst or src. */
#define ls_driver_side(copy, side)                                                                 \
    (!(copy) || (copy)->side##MemoryType == CU_MEMORYTYPE_ARRAY ? 0                                \
     : (copy)->side##MemoryType == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)(copy)->side##Host    \
                                                      : (uint64_t)(copy)->side##Device)
#define ls_driver_array(copy, side)                                                                \
    ((copy) && (copy)->side##MemoryType == CU_MEMORYTYPE_ARRAY                                     \
         ? (uint64_t)(uintptr_t)(copy)->side##Array                                                \
         : 0)
#define ls_driver_kind(copy)                                                                       \
    ((copy) ? ls_kind_of_sides((copy)->dstMemoryType, (copy)->srcMemoryType) : 0)
#define ls_driver_area(copy) ((copy) ? (uint64_t)((copy)->WidthInBytes * (copy)->Height) : 0)
#define ls_driver_volume(copy)                                                                     \
    ((copy) ? (uint64_t)((copy)->WidthInBytes * (copy)->Height * (copy)->Depth) : 0)

/* Of two CUmemorytypes, the cudaMemcpyKind. */
static inline uint64_t ls_kind_of_sides(unsigned dst, unsigned src) {
    if (dst == CU_MEMORYTYPE_UNIFIED || src == CU_MEMORYTYPE_UNIFIED)
        return cudaMemcpyDefault;
    if (src == CU_MEMORYTYPE_HOST)
        return dst == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
    return dst == CU_MEMORYTYPE_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

/* Of an array's descriptor: bits of its four channels, a byte each. Formats that are no such
 * channels (video, compressed blocks) are 0. */
#define ls_driver_format(array)                                                                    \
    ((array) ? ls_channel_bits((unsigned)(array)->Format, (array)->NumChannels) : 0)
static inline uint64_t ls_channel_bits(unsigned format, unsigned channels) {
    static const unsigned char bits[0x21] = {
        [0x01] = 8,  [0x02] = 16, [0x03] = 32, [0x08] = 8,
        [0x09] = 16, [0x0a] = 32, [0x10] = 16, [0x20] = 32,
    };
    uint64_t value = 0;
    for (unsigned i = 0; format < sizeof bits && i < channels && i < 4; i++)
        value |= (uint64_t)bits[format] << 8 * i;
    return value;
}

#endif
