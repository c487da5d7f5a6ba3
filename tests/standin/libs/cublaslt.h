/*
 * cublaslt.h - the inside of cuBLASLt's descriptors, as the stand-in keeps them in the opaque
 * structures that programs own.
 */
#ifndef STANDIN_CUBLASLT_H
#define STANDIN_CUBLASLT_H

#include "cublaslt_types.h"
#include "lib.h"

/* Has the real library's layout (13.1), so that whoever decodes the real one can be tested. */
struct lt_layout {
    int32_t type;
    int32_t order;
    uint64_t rows, cols;
    int64_t ld;
    int32_t batch_count;
    int32_t batch_mode;
    int64_t batch_stride;
    int64_t plane_offset;
    uint64_t unused;
};
_Static_assert(sizeof(struct lt_layout) == sizeof(cublasLtMatrixLayoutOpaque_t), "layout");

struct lt_matmul {
    int32_t compute, scale_type, pointer_mode, op_a, op_b, op_c, fill_mode, epilogue;
    uint64_t bias;
    int64_t bias_batch_stride;
    uint64_t aux;
    int64_t aux_ld, aux_batch_stride, alpha_vector_batch_stride;
    int32_t sm_count_target, unknown_16;
    uint64_t a_scale, b_scale, c_scale, d_scale, amax_d;
    int32_t aux_type, bias_type;
    uint64_t aux_scale, aux_amax;
    int32_t a_scale_mode, b_scale_mode, c_scale_mode, d_scale_mode, aux_scale_mode;
    int32_t d_out_scale_mode;
    uint64_t d_out_scale, emulation;
    int8_t fast_accumulation;
};
_Static_assert(sizeof(struct lt_matmul) <= sizeof(cublasLtMatmulDescOpaque_t), "descriptor");

struct lt_preference {
    uint64_t max_workspace;
    int32_t search_mode;
    uint32_t reduction_mask;
    uint32_t min_alignment[4]; /* A, B, C, D */
    float max_waves;
    uint64_t impl_mask;
};
_Static_assert(sizeof(struct lt_preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "pref");

struct lt_transform {
    int32_t scale_type, pointer_mode, op_a, op_b;
};

static inline struct lt_layout *lt_layout_of(cublasLtMatrixLayout_t layout) {
    return (struct lt_layout *)(void *)layout;
}

static inline struct lt_matmul *lt_matmul_of(cublasLtMatmulDesc_t desc) {
    return (struct lt_matmul *)(void *)desc;
}

#endif
