/*
 * cublaslt_matmul.c - cuBLASLt: handles, heuristics, the product and the layout transform. Any
 * thread; not safe in a signal handler.
 *
 * Fields of cublasLtMatmul: as cublas_gemm.c's, with c and d apart, orders (0 column, 1 row),
 * epilogue, bias and the workspace.
 */
#include <stdlib.h>
#include <string.h>

#include "cublaslt.h"

#define ALGORITHMS 3

struct cublasLtContext {
    int magic;
};

static bool handle_good(cublasLtHandle_t handle) {
    return handle && handle->magic == STANDIN_CUBLASLT_MAGIC;
}

STANDIN_EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    LIB_ENTER(call);
    int status = lib_status(&call, handle ? 0 : CUBLAS_STATUS_INVALID_VALUE);
    if (status == 0 && standin_need_context())
        status = CUBLAS_STATUS_NOT_INITIALIZED;
    if (status == 0) {
        *handle = malloc(sizeof **handle);
        if (*handle)
            (*handle)->magic = STANDIN_CUBLASLT_MAGIC;
        else
            status = CUBLAS_STATUS_ALLOC_FAILED;
    }
    lib_put_pointer(&call, "handle", status ? NULL : *handle);
    return standin_leave(&call, status);
}

STANDIN_EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "handle", handle);
    int status = lib_status(&call, handle_good(handle) ? 0 : CUBLAS_STATUS_NOT_INITIALIZED);
    if (status == 0)
        free(handle);
    return standin_leave(&call, status);
}

STANDIN_EXPORT size_t cublasLtGetVersion(void) {
    return STANDIN_CUBLAS_VERSION;
}

STANDIN_EXPORT size_t cublasLtGetCudartVersion(void) {
    return (size_t)standin_cuda_version();
}

/* ---- checks ---- */

static bool holds(const struct lt_layout *layout) {
    if (layout->order == CUBLASLT_ORDER_COL)
        return layout->ld >= (int64_t)layout->rows;
    if (layout->order == CUBLASLT_ORDER_ROW)
        return layout->ld >= (int64_t)layout->cols;
    return true; /* tiled orders: not looked into */
}

static uint64_t op_rows(const struct lt_layout *layout, int op) {
    return op == CUBLAS_OP_N ? layout->rows : layout->cols;
}

static uint64_t op_cols(const struct lt_layout *layout, int op) {
    return op == CUBLAS_OP_N ? layout->cols : layout->rows;
}

static int check_product(const struct lt_matmul *matmul, const struct lt_layout *a,
                         const struct lt_layout *b, const struct lt_layout *c,
                         const struct lt_layout *d) {
    if (!matmul || !a || !b || !c || !d)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!holds(a) || !holds(b) || !holds(c) || !holds(d))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (op_rows(a, matmul->op_a) != d->rows || op_cols(b, matmul->op_b) != d->cols ||
        op_cols(a, matmul->op_a) != op_rows(b, matmul->op_b) || c->rows != d->rows ||
        c->cols != d->cols)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (a->batch_count != d->batch_count || b->batch_count != d->batch_count)
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- heuristics ---- */

/* The algorithms differ in their workspace: one wants none, the others 1 and 2 MiB. */
static void fill_result(cublasLtMatmulHeuristicResult_t *result, int algorithm, size_t workspace) {
    memset(result, 0, sizeof *result);
    result->algo.data[0] = (uint64_t)algorithm + 1;
    result->workspaceSize = workspace;
    result->wavesCount = 1.0f;
}

static int choose(const struct lt_preference *preference, int requested,
                  cublasLtMatmulHeuristicResult_t *results) {
    int count = 0;
    for (int i = ALGORITHMS - 1; i >= 0 && count < requested; i--) {
        size_t workspace = (size_t)i << 20;
        if (!preference || workspace <= preference->max_workspace)
            fill_result(&results[count++], i, workspace);
    }
    return count;
}

STANDIN_EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int requested, cublasLtMatmulHeuristicResult_t results[],
    int *returned) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "handle", handle);
    int status = lib_status(&call, handle_good(handle) ? 0 : CUBLAS_STATUS_NOT_INITIALIZED);
    if (status == 0 && (requested <= 0 || !results || !returned))
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (status == 0)
        status = check_product(lt_matmul_of(matmul), lt_layout_of(a), lt_layout_of(b),
                               lt_layout_of(c), lt_layout_of(d));
    if (status == 0) {
        *returned = choose((void *)preference, requested, results);
        if (*returned == 0)
            status = CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return standin_leave(&call, status);
}

STANDIN_EXPORT cublasStatus_t cublasLtMatmulAlgoCheck(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t matmul, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result) {
    LIB_ENTER(call);
    lib_put_pointer(&call, "handle", handle);
    int status = lib_status(&call, handle_good(handle) ? 0 : CUBLAS_STATUS_NOT_INITIALIZED);
    if (status == 0)
        status = check_product(lt_matmul_of(matmul), lt_layout_of(a), lt_layout_of(b),
                               lt_layout_of(c), lt_layout_of(d));
    if (status == 0 && (!algo || !result || algo->data[0] == 0 || algo->data[0] > ALGORITHMS))
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (status == 0)
        fill_result(result, (int)algo->data[0] - 1, (size_t)(algo->data[0] - 1) << 20);
    return standin_leave(&call, status);
}

/* ---- the product ---- */

struct matrix {
    const char *name;
    const void *pointer;
    const struct lt_layout *layout;
};

/* `a`, `a_type`, `a_rows`, `a_cols`, `a_order`, `lda` and `stride_a` for the matrix "a". */
static void put_matrix(struct standin_call *call, const struct matrix *matrix) {
    const struct lt_layout *layout = matrix->layout;
    char letter = matrix->name[0];
    char type[] = {letter, '_', 't', 'y', 'p', 'e', 0};
    char rows[] = {letter, '_', 'r', 'o', 'w', 's', 0};
    char cols[] = {letter, '_', 'c', 'o', 'l', 's', 0};
    char order[] = {letter, '_', 'o', 'r', 'd', 'e', 'r', 0};
    char ld[] = {'l', 'd', letter, 0};
    char stride[] = {'s', 't', 'r', 'i', 'd', 'e', '_', letter, 0};
    lib_put_pointer(call, matrix->name, matrix->pointer);
    if (!layout)
        return;
    standin_put_signed(call, type, layout->type);
    standin_put(call, rows, layout->rows);
    standin_put(call, cols, layout->cols);
    standin_put_signed(call, order, layout->order);
    standin_put_signed(call, ld, layout->ld);
    if (layout->batch_count > 1)
        standin_put_signed(call, stride, layout->batch_stride);
}

static void put_product(struct standin_call *call, const struct lt_matmul *matmul,
                        const struct matrix matrices[4]) {
    static const char *const op_names[] = {"N", "T", "C"};
    const struct lt_layout *a = matrices[0].layout, *d = matrices[3].layout;
    if (matmul && a && d) {
        standin_put_text(call, "op_a", op_names[(unsigned)matmul->op_a % 3]);
        standin_put_text(call, "op_b", op_names[(unsigned)matmul->op_b % 3]);
        standin_put(call, "m", d->rows);
        standin_put(call, "n", d->cols);
        standin_put(call, "k", op_cols(a, matmul->op_a));
        standin_put_signed(call, "batch", d->batch_count);
        standin_put_signed(call, "compute", matmul->compute);
        standin_put_signed(call, "epilogue", matmul->epilogue);
        standin_put(call, "bias", matmul->bias);
    }
    for (int i = 0; i < 4; i++)
        put_matrix(call, &matrices[i]);
}

static double bytes_of(const struct matrix *matrix) {
    const struct lt_layout *layout = matrix->layout;
    double element = layout->type == CUDA_R_64F ? 8 : layout->type == CUDA_R_32F ? 4 : 2;
    return element * (double)layout->rows * (double)layout->cols * (double)layout->batch_count;
}

/* A product and a sum for each element of D and each of the common length. */
static void tell_work(const struct lt_matmul *matmul, const struct matrix matrices[4]) {
    const struct lt_layout *d = matrices[3].layout;
    standin_work(bytes_of(&matrices[0]) + bytes_of(&matrices[1]) + bytes_of(&matrices[3]),
                 2.0 * (double)d->rows * (double)d->cols * (double)d->batch_count *
                     (double)op_cols(matrices[0].layout, matmul->op_a));
}

STANDIN_EXPORT cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *A,
    cublasLtMatrixLayout_t Adesc, const void *B, cublasLtMatrixLayout_t Bdesc, const void *beta,
    const void *C, cublasLtMatrixLayout_t Cdesc, void *D, cublasLtMatrixLayout_t Ddesc,
    const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_size, cudaStream_t stream) {
    LIB_ENTER(call);
    (void)algo; /* NULL lets the library choose */
    struct matrix matrices[4] = {{"a", A, lt_layout_of(Adesc)},
                                 {"b", B, lt_layout_of(Bdesc)},
                                 {"c", C, lt_layout_of(Cdesc)},
                                 {"d", D, lt_layout_of(Ddesc)}};
    lib_put_pointer(&call, "handle", handle);
    lib_put_pointer(&call, "stream", stream);
    put_product(&call, lt_matmul_of(desc), matrices);
    lib_put_pointer(&call, "workspace", workspace);
    standin_put(&call, "workspace_size", workspace_size);
    int status = lib_status(&call, handle_good(handle) ? 0 : CUBLAS_STATUS_NOT_INITIALIZED);
    if (status == 0)
        status = check_product(lt_matmul_of(desc), matrices[0].layout, matrices[1].layout,
                               matrices[2].layout, matrices[3].layout);
    if (status == 0 && (!alpha || !beta || !A || !B || !D))
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (status == 0)
        tell_work(lt_matmul_of(desc), matrices);
    if (status == 0 &&
        standin_launch((standin_stream)stream, "cublasLt_matmul_kernel", NULL, NULL, 0))
        status = CUBLAS_STATUS_EXECUTION_FAILED;
    return standin_leave(&call, status);
}

STANDIN_EXPORT cublasStatus_t cublasLtMatrixTransform(
    cublasLtHandle_t handle, cublasLtMatrixTransformDesc_t desc, const void *alpha, const void *A,
    cublasLtMatrixLayout_t Adesc, const void *beta, const void *B, cublasLtMatrixLayout_t Bdesc,
    void *C, cublasLtMatrixLayout_t Cdesc, cudaStream_t stream) {
    LIB_ENTER(call);
    (void)alpha;
    (void)beta;
    struct matrix matrices[3] = {{"a", A, lt_layout_of(Adesc)},
                                 {"b", B, lt_layout_of(Bdesc)},
                                 {"c", C, lt_layout_of(Cdesc)}};
    lib_put_pointer(&call, "handle", handle);
    lib_put_pointer(&call, "stream", stream);
    for (int i = 0; i < 3; i++)
        put_matrix(&call, &matrices[i]);
    int status = lib_status(&call, handle_good(handle) ? 0 : CUBLAS_STATUS_NOT_INITIALIZED);
    if (status == 0 && (!desc || (A && !Adesc) || (B && !Bdesc) || !C || !Cdesc))
        status = CUBLAS_STATUS_INVALID_VALUE;
    if (status == 0 &&
        standin_launch((standin_stream)stream, "cublasLt_transform_kernel", NULL, NULL, 0))
        status = CUBLAS_STATUS_EXECUTION_FAILED;
    return standin_leave(&call, status);
}
