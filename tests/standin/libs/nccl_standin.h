/*
 * nccl_standin.h - what the files of NCCL's stand-in share.
 */
#ifndef STANDIN_NCCL_STANDIN_H
#define STANDIN_NCCL_STANDIN_H

#include <stdbool.h>

#include "lib.h"
#include "nccl_types.h"

/* A function, and the same under its profiling name. */
#define NCCL(name, ...)                                                                            \
    STANDIN_EXPORT ncclResult_t name(__VA_ARGS__);                                                 \
    STANDIN_EXPORT __typeof__(name) p##name __attribute__((alias(#name)));                         \
    ncclResult_t name(__VA_ARGS__)

struct ncclComm {
    ncclComm_t next;
    int ranks, rank, device;
    int operators; /* made by ncclRedOpCreatePreMulSum */
    void *workspace;
};

/* Whether it is a communicator that was made and not ended. */
bool nccl_live(ncclComm_t comm);

#endif
