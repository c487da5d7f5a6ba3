/*
 * properties.c - the simulated card. See properties.h.
 */
#include "properties.h"

#include <stdio.h>
#include <string.h>

/* By attribute number; what is left out is 0. */
static const int attributes[] = {
    [1] = 1024,                                            /* threads per block */
    [2] = 1024,                                            /* block x, y, z */
    [3] = 1024,        [4] = 64,         [5] = 2147483647, /* grid x, y, z */
    [6] = 65535,       [7] = 65535,      [8] = 49152,      /* shared memory per block */
    [9] = 65536,                                           /* constant memory */
    [10] = 32,                                             /* warp */
    [11] = 2147483647,                                     /* pitch */
    [12] = 65536,                                          /* registers per block */
    [13] = 1980000,                                        /* clock, kHz */
    [14] = 512,                                            /* texture alignment */
    [15] = 1,                                              /* copies overlap */
    [16] = 132,                                            /* multiprocessors */
    [19] = 1,                                              /* maps host memory */
    [21] = 131072,                                         /* textures and surfaces */
    [22] = 131072,     [23] = 65536,     [24] = 16384,      [25] = 16384,  [26] = 16384,
    [27] = 32768,      [28] = 32768,     [29] = 2048,       [30] = 512, /* surface alignment */
    [31] = 1,                                                           /* concurrent kernels */
    [32] = 1,                                                           /* ECC */
    [36] = 2619000,                                                     /* memory clock, kHz */
    [37] = 5120,                                                        /* memory bus, bits */
    [38] = 52428800,                                                    /* L2 */
    [39] = 2048, /* threads per multiprocessor */
    [40] = 3,    /* copy engines */
    [41] = 1,    /* unified addressing */
    [42] = 32768,      [43] = 2048,      [45] = 32768,      [46] = 32768,  [47] = 8192,
    [48] = 8192,       [49] = 32768,     [51] = 32, /* texture pitch alignment */
    [52] = 32768,      [53] = 32768,     [54] = 2046,       [55] = 32768,  [56] = 131072,
    [57] = 65536,      [58] = 16384,     [59] = 16384,      [60] = 16384,  [61] = 32768,
    [62] = 2048,       [63] = 32768,     [64] = 32768,      [65] = 2048,   [66] = 32768,
    [67] = 32768,      [68] = 2046,      [69] = 268435456,  [70] = 131072, [71] = 65000,
    [72] = 2097120,    [73] = 32768,     [74] = 32768,      [75] = 9, /* compute capability */
    [76] = 0,          [77] = 32768,     [78] = 1,                    /* stream priorities */
    [79] = 1,          [80] = 1,         [81] = 233472, /* shared memory per multiprocessor */
    [82] = 65536,                                       /* registers per multiprocessor */
    [83] = 1,                                           /* managed memory */
    [87] = 2,          [89] = 1,                        /* concurrent managed access */
    [90] = 1,          [91] = 1,         [92] = 1,          [93] = 1,      [94] = 1,
    [95] = 1,                         /* cooperative launch */
    [96] = 1,          [97] = 232448, /* shared memory per block, opt-in */
    [98] = 1,          [99] = 1,      /* registers host memory */
    [102] = 1,                        /* virtual memory management */
    [103] = 1,                        /* shareable handle: descriptor */
    [106] = 32,                       /* blocks per multiprocessor */
    [107] = 1,         [108] = 32768000, [109] = 134213632, [111] = 1024, /* reserved shared memory
                                                                             per block */
    [112] = 1,         [113] = 0,        [114] = 1,         [115] = 1,    /* memory pools */
    [120] = 1,                                                            /* cluster launch */
    [121] = 1,         [123] = 1,        [125] = 1,         [126] = 4,     [130] = 0,
    [131] = -1,        [134] = 0,        [147] = 0,
};

int sd_attribute(int attribute, int ordinal, int *known) {
    *known = attribute > 0 && attribute < 148;
    switch (attribute) {
    case 33: /* PCI bus */
        return ordinal + 1;
    default:
        return *known ? attributes[attribute] : 0;
    }
}

void sd_device_uuid(int ordinal, char uuid[16]) {
    memcpy(uuid, "simulated-device", 16);
    uuid[15] = (char)ordinal;
}

void sd_device_bus_id(int ordinal, char *out, int size) {
    snprintf(out, (size_t)size, "0000:%02X:00.0", ordinal + 1);
}

int sd_occupancy(int threads, uint64_t shared) {
    if (threads <= 0 || threads > 1024)
        return 0;
    int rounded = (threads + 31) / 32 * 32;
    int blocks = 2048 / rounded;
    uint64_t by_shared = 233472 / (shared + 1024);
    if ((uint64_t)blocks > by_shared)
        blocks = (int)by_shared;
    return blocks > 32 ? 32 : blocks;
}
