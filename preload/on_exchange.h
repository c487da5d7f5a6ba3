/*
 * on_exchange.h - operands of NCCL's calls: elements in a row.
 *
 * Any thread, after the real call, while the thread is busy; lock-free. errno is kept.
 */
#ifndef LS_ON_EXCHANGE_H
#define LS_ON_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

/* The shape of `count` elements of an ncclDataType_t. */
uint32_t ls_nccl_line(int type, size_t count);

/* The same, as many for each rank of the communicator: how many these are is asked of the library
 * once the call has succeeded; 0 after one that did not. */
uint32_t ls_nccl_lines(const void *comm, int status, int type, size_t count);

#endif
