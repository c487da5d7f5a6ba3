/*
 * shape.h - contract 1, its part on layouts: the operands of calls, and LS_REC_SHAPE.
 *
 * Included by layoutspy/format.h, which see for the spool as a whole.
 */
#ifndef LAYOUTSPY_SHAPE_H
#define LAYOUTSPY_SHAPE_H

#include <stdint.h>

#include "layoutspy/format.h"

/* An operand of a call: what it is to it, how it lies in memory, and where. */
struct ls_operand {
    uint64_t what;    /* LS_OPERAND() */
    uint64_t address; /* of its first element; 0: none was given */
};
#define LS_OPERANDS_MOST 64
#define LS_OPERAND(role, flags, shape)                                                             \
    ((uint64_t)(uint8_t)(role) | (uint64_t)(uint8_t)(flags) << 8 |                                 \
     (uint64_t)(uint32_t)(shape) << 32)
#define LS_OPERAND_ROLE(what) ((uint8_t)(what))
#define LS_OPERAND_FLAGS(what) ((uint8_t)((what) >> 8))
#define LS_OPERAND_SHAPE(what) ((uint32_t)((what) >> 32)) /* of an LS_REC_SHAPE; 0: not known */
enum ls_operand_flag {
    LS_OPERAND_ARRAY = 1, /* the address is that of an array of addresses, in device memory */
    LS_OPERAND_MORE = 2,  /* the last one: there were more */
};
enum ls_role_id {
#define ROLE(ID, name, direction) LS_ROLE_##ID,
#include "layoutspy/role.def"
    LS_ROLE_COUNT
};

/* Where a call's operands lie behind its `fields` fields, and how many; 0: it has none. */
#define LS_CALL_OPERAND_COUNT(call, fields)                                                        \
    ((call)->head.flags & LS_CALL_OPERANDS ? *LS_CALL_OPERAND_WORD(call, fields) : 0)
#define LS_CALL_OPERAND_LIST(call, fields)                                                         \
    ((const struct ls_operand *)(LS_CALL_OPERAND_WORD(call, fields) + 1))
#define LS_CALL_OPERAND_WORD(call, fields)                                                         \
    (&(call)->field[(fields) + !!((call)->head.flags & LS_CALL_CORRELATED)])

/*
 * LS_REC_SHAPE: how something lies in memory, or what a library was told of its work: met again and
 * again, told once, before the first call that has it. Of one number all records are alike.
 */
enum ls_shape_kind {
#define SHAPE(ID, name, what) LS_SHAPE_##ID,
#include "layoutspy/shape.def"
    LS_SHAPE_KINDS
};
enum ls_dtype {
#define DTYPE(ID, name, bits, cuda, cudnn, nccl) LS_DTYPE_##ID,
#include "layoutspy/dtype.def"
    LS_DTYPE_COUNT
};
enum ls_shape_flag {
    LS_SHAPE_UID = 1,     /* `uid` is the number that the program gave to the tensor */
    LS_SHAPE_ROWS = 2,    /* MATRIX: rows are contiguous, not columns */
    LS_SHAPE_TILED = 4,   /* MATRIX: neither is; strides mean nothing (cuBLASLt's other orders) */
    LS_SHAPE_BYTES = 8,   /* strides are in bytes: the type is not known */
    LS_SHAPE_SCALAR = 16, /* one value, in host memory or by value */
};
#define LS_SHAPE_DIMS 8
#define LS_SHAPE_VALUES 40
#define LS_RNN_NOT_TOLD                                                                            \
    INT32_MIN /* RNN: the size of the input, which a setter of cuDNN 8 leaves out */
/* PRODUCT: the order of its values. Strides are 0 where there is no batch or where the matrices are
 * told one by one; types are the library's numbers, as the compute type is. */
enum ls_product_value {
    LS_PRODUCT_M,
    LS_PRODUCT_N,
    LS_PRODUCT_K,
    LS_PRODUCT_LDA,
    LS_PRODUCT_LDB,
    LS_PRODUCT_LDC,
    LS_PRODUCT_STRIDE_A,
    LS_PRODUCT_STRIDE_B,
    LS_PRODUCT_STRIDE_C,
    LS_PRODUCT_BATCH,
    LS_PRODUCT_OP_A, /* 0 N, 1 T, 2 C; as passed */
    LS_PRODUCT_OP_B,
    LS_PRODUCT_DTYPE_B, /* enum ls_dtype; of A: the record's */
    LS_PRODUCT_DTYPE_C,
    LS_PRODUCT_COMPUTE, /* cublasComputeType_t as passed, -1: none was */
    LS_PRODUCT_VALUES
};
struct ls_rec_shape {
    struct ls_record head;
    uint32_t id;           /* from 1, unique in the recorded process */
    uint8_t kind;          /* enum ls_shape_kind */
    uint8_t dims;          /* at most LS_SHAPE_DIMS */
    uint8_t flags;         /* enum ls_shape_flag */
    uint8_t dtype;         /* enum ls_dtype; UNKNOWN: the library's own number is `dtype_told` */
    int32_t dtype_told;    /* as the program passed it */
    uint16_t vector_count; /* elements of vector_dim that lie together as one; 0, 1: none */
    uint16_t vector_dim;
    int64_t uid;
    int64_t value[]; /* by kind, see layoutspy/shape.def */
};

_Static_assert(sizeof(struct ls_rec_shape) == 32, "shape record");
_Static_assert(LS_ROLE_COUNT <= 256, "a role is a byte");

#endif
