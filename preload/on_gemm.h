/*
 * on_gemm.h - operands of cuBLAS's calls, as the rows of api/library_blas*.def tell them.
 *
 * A product (gemm) is one shape for the whole, from which the collector derives its matrices. In
 * the others, whose matrices do not follow from m, n and k alone, each has a shape of its own, and
 * the product beside them says what was passed. Nothing here follows a pointer, but for beta after
 * a call that succeeded, and the host's arrays of a grouped call that did.
 *
 * Any thread, after the real call, while the thread is busy; lock-free. errno is kept.
 */
#ifndef LS_ON_GEMM_H
#define LS_ON_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "layoutspy/format.h"
#include "thread.h"

/* cudaDataType, of cuBLAS's functions that have the type in their name. */
enum ls_cuda_type {
    LS_CUDA_R_32F = 0,
    LS_CUDA_R_64F = 1,
    LS_CUDA_R_16F = 2,
    LS_CUDA_C_32F = 4,
    LS_CUDA_C_64F = 5,
    LS_CUDA_R_32I = 10,
    LS_CUDA_R_16BF = 14,
    LS_CUDA_TYPE_NONE = -1,
};

/* enum ls_dtype of a cudaDataType. */
uint8_t ls_cuda_dtype(int type);
/* The type of alpha and beta (enum ls_cuda_type) where a call has this compute type and result. */
int ls_scale_type(int compute, int type_c);
/* Whether a factor of that type is 0. Reads it. */
bool ls_is_zero(const void *factor, int type);

/* What a call of cuBLAS was given, as far as it has it: names are those of gemm's parameters. Of
 * vectors `ld` is the increment. */
struct ls_blas {
    const void *handle;
    const void *a, *b, *c;
    const void *beta;
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    int64_t stride_a, stride_b, stride_c, batch;
    int op_a, op_b;
    int type_a, type_b, type_c; /* cudaDataType */
    int compute;                /* cublasComputeType_t; -1: none was passed */
    int scale;                  /* type of beta */
    bool right;                 /* CUBLAS_SIDE_RIGHT */
    bool array;                 /* a, b and c are arrays of addresses in device memory */
};

void ls_gemm(struct ls_thread *self, int status, const struct ls_blas *call);
void ls_gemv(struct ls_thread *self, int status, const struct ls_blas *call);
void ls_ger(struct ls_thread *self, const struct ls_blas *call);
void ls_geam(struct ls_thread *self, int status, const struct ls_blas *call);
void ls_symm(struct ls_thread *self, int status, const struct ls_blas *call);
void ls_syrk(struct ls_thread *self, int status, const struct ls_blas *call);
void ls_trsm(struct ls_thread *self, const struct ls_blas *call);
void ls_dgmm(struct ls_thread *self, const struct ls_blas *call);

/* A grouped call: the host's arrays, of int or of int64_t. Operands of each group in turn. */
struct ls_blas_groups {
    const void *handle;
    const int *op_a, *op_b;
    const void *m, *n, *k, *lda, *ldb, *ldc, *sizes;
    const void *beta;
    const void *const *a, *const *b, *const *c; /* in device memory */
    int64_t count;
    int type_a, type_b, type_c, compute, scale;
    bool wide; /* int64_t */
};
void ls_gemm_grouped(struct ls_thread *self, int status, const struct ls_blas_groups *call);

/* For other products (on_matmul_lt.c): the shape of what was passed. */
uint32_t ls_product_shape(const struct ls_blas *call);

#endif
