/*
 * nvtx_abi.h - what an NVTX v3 injection library shares with the program's own NVTX: numbers and
 * layouts, as NVTX fixes them for all versions of its headers. Ours, so that no toolkit is needed;
 * preload/check_nvtx.c compares them with NVIDIA's headers where there are some.
 */
#ifndef LS_NVTX_ABI_H
#define LS_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>

#define LS_NVTX_ETID_CALLBACKS 1 /* which export table */
#define LS_NVTX_MODULE_CORE 1
#define LS_NVTX_MODULE_CORE2 5

/* HANDLED(module, number of the callback, its name in NVTX without "nvtx") */
#define LS_NVTX_HANDLED                                                                            \
    HANDLED(CORE, 1, MarkEx)                                                                       \
    HANDLED(CORE, 2, MarkA)                                                                        \
    HANDLED(CORE, 3, MarkW)                                                                        \
    HANDLED(CORE, 4, RangeStartEx)                                                                 \
    HANDLED(CORE, 5, RangeStartA)                                                                  \
    HANDLED(CORE, 6, RangeStartW)                                                                  \
    HANDLED(CORE, 7, RangeEnd)                                                                     \
    HANDLED(CORE, 8, RangePushEx)                                                                  \
    HANDLED(CORE, 9, RangePushA)                                                                   \
    HANDLED(CORE, 10, RangePushW)                                                                  \
    HANDLED(CORE, 11, RangePop)                                                                    \
    HANDLED(CORE2, 1, DomainMarkEx)                                                                \
    HANDLED(CORE2, 2, DomainRangeStartEx)                                                          \
    HANDLED(CORE2, 3, DomainRangeEnd)                                                              \
    HANDLED(CORE2, 4, DomainRangePushEx)                                                           \
    HANDLED(CORE2, 5, DomainRangePop)                                                              \
    HANDLED(CORE2, 10, DomainRegisterStringA)                                                      \
    HANDLED(CORE2, 11, DomainRegisterStringW)                                                      \
    HANDLED(CORE2, 12, DomainCreateA)                                                              \
    HANDLED(CORE2, 13, DomainCreateW)

#define LS_NVTX_NO_TRACKING (-2) /* of a push or pop: no level is known */

enum ls_nvtx_message { LS_NVTX_ASCII = 1, LS_NVTX_UNICODE = 2, LS_NVTX_REGISTERED = 3 };

struct ls_nvtx_attributes {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type; /* enum ls_nvtx_message */
    const void *message;  /* text, wide text, or a handle that registering gave */
};

typedef void (*ls_nvtx_function)(void);

/* The export table of callbacks: get a module's table, an array of pointers to the function
 * pointers that its calls go through; *count is the array's length. */
struct ls_nvtx_callbacks {
    size_t struct_size;
    int (*module_table)(int module, ls_nvtx_function ***table, unsigned *count);
};

typedef const void *(*ls_nvtx_get_table)(uint32_t id);

#endif
