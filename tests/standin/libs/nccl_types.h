/*
 * nccl_types.h - the types of NCCL's API, for building without a toolkit. As cublas_types.h:
 * STANDIN_NVIDIA_HEADERS compares with NVIDIA's.
 */
#ifndef STANDIN_NCCL_TYPES_H
#define STANDIN_NCCL_TYPES_H

#include <stddef.h>

#ifdef STANDIN_NVIDIA_HEADERS
#include <nccl.h>
#define VALUE(name, value) _Static_assert((int)(name) == (value), #name);
#include "nccl_values.def"
#else
enum {
#define VALUE(name, value) name = value,
#include "nccl_values.def"
};
typedef struct CUstream_st *cudaStream_t;
typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct {
    char internal[128];
} ncclUniqueId;
typedef int ncclResult_t, ncclRedOp_t, ncclDataType_t, ncclScalarResidence_t;
typedef struct ncclConfig_v22800 ncclConfig_t; /* never looked into */
typedef struct ncclSimInfo_v22200 {
    size_t size;
    unsigned int magic, version;
    float estimatedTime;
} ncclSimInfo_t;
#endif

/* The version that the stand-in tells: that of the library whose exports symbols/ holds. */
#define STANDIN_NCCL_VERSION 22809

#endif
