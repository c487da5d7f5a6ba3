/*
 * cudnn_list.h - numbers for lists of tensors: what an operation, a graph or a plan of cuDNN's
 * graph API works on.
 *
 * A list is kept by its content for the life of the process, as a shape is (shape.h): a plan works
 * on long after its tensors and its graph are destroyed. Bounded: once the room is used up, new
 * lists have LS_CUDNN_LIST_NO_ROOM for a number, and executions of what has it are counted as lost
 * shapes. Any thread, lock-free, async-signal-safe.
 */
#ifndef LS_CUDNN_LIST_H
#define LS_CUDNN_LIST_H

#include <stdint.h>

/* A tensor, or a setting that is none (CONVOLUTION), and what it is to the operation. */
struct ls_cudnn_item {
    int64_t uid;
    uint32_t shape; /* shape.h; 0: not known */
    uint8_t role;   /* enum ls_role_id */
    uint8_t flags;
    uint16_t attribute; /* while an operation is set up: the one that it was given as; else 0 */
};
enum { LS_CUDNN_VIRTUAL = 1, LS_CUDNN_SETTING = 2 }; /* without memory; no tensor */
#define LS_CUDNN_ITEMS 64                            /* of a list, at most */

/* Not the number of a list: one of those that there was no room for. */
#define LS_CUDNN_LIST_NO_ROOM UINT32_MAX

/* The list's number, from 1; or LS_CUDNN_LIST_NO_ROOM. */
uint32_t ls_cudnn_list_number(const struct ls_cudnn_item *item, uint32_t count);

/* Its items, and how many; 0 for number 0 and LS_CUDNN_LIST_NO_ROOM. */
uint32_t ls_cudnn_list(uint32_t number, const struct ls_cudnn_item **item);

#endif
