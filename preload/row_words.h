/*
 * row_words.h - the words that the fields' expressions of the table may use beside a row's
 * parameters. Whoever expands the rows (wrap.c, cupti/rows.c) has `ls_status`, the call's status,
 * and `ls_device`, the thread's current device before the call.
 *
 * Any thread, after the real call; not async-signal-safe.
 */
#ifndef LS_ROW_WORDS_H
#define LS_ROW_WORDS_H

#include <stdint.h>

#include "driver_words.h"
#include "kernels.h"
#include "layoutspy/api/types.h"
#include "row_value.h"

#define ls_out(p) ((p) && ls_status == 0 ? (uint64_t)(uintptr_t) * (p) : 0)
#define ls_outf(p, member) ((p) && ls_status == 0 ? (uint64_t)(uintptr_t)(p)->member : 0)
#define ls_outp(p) ((p) && ls_status == 0 ? (const void *)*(p) : NULL)
#define ls_get(p, member) ((p) ? (uint64_t)(uintptr_t)(p)->member : 0)
#define ls_get_dim(p, member) ((p) ? LS_GRID((p)->member) : 0)
#define ls_format(desc)                                                                            \
    ((desc) ? (uint64_t)(uint8_t)(desc)->x | (uint64_t)(uint8_t)(desc)->y << 8 |                   \
                  (uint64_t)(uint8_t)(desc)->z << 16 | (uint64_t)(uint8_t)(desc)->w << 24          \
            : 0)
#define ls_driver_device(prop)                                                                     \
    ((prop) && (prop)->location.type == CU_MEM_LOCATION_TYPE_DEVICE                                \
         ? (uint64_t)(uint32_t)(prop)->location.id                                                 \
         : 0)
/* Of struct cudaDeviceProp, whose begin no version has changed. */
#define ls_total_memory(prop)                                                                      \
    ((prop) && ls_status == 0 ? *(const uint64_t *)((const char *)(prop) + LS_DEVICE_PROP_TOTAL)   \
                              : 0)
/* Attributes of a pool: 64 bits from cudaMemPoolAttrReleaseThreshold on. */
#define ls_pool_value(attr, value)                                                                 \
    (!(value) ? 0 : (attr) >= 4 ? *(const uint64_t *)(value) : *(const uint32_t *)(value))
#define ls_pool_device(props)                                                                      \
    ((props) && (props)->location.type == cudaMemLocationTypeDevice                                \
         ? (uint64_t)(uint32_t)(props)->location.id                                                \
         : 0)

#endif
