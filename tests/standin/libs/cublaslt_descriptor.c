/*
 * cublaslt_descriptor.c - cuBLASLt's descriptors: matrix layout, product, preference, transform.
 * Each has a table of its attributes; one pair of functions sets and gets them. Any thread; not
 * safe in a signal handler. The descriptors are their programs' own to share or not.
 */
#include <stdlib.h>
#include <string.h>

#include "cublaslt.h"

struct attribute {
    int id;
    unsigned short size, offset;
};

#define ROW(id, type, field)                                                                       \
    { id, sizeof(((struct type *)0)->field), offsetof(struct type, field) }

static const struct attribute layout_attributes[] = {
    ROW(CUBLASLT_MATRIX_LAYOUT_TYPE, lt_layout, type),
    ROW(CUBLASLT_MATRIX_LAYOUT_ORDER, lt_layout, order),
    ROW(CUBLASLT_MATRIX_LAYOUT_ROWS, lt_layout, rows),
    ROW(CUBLASLT_MATRIX_LAYOUT_COLS, lt_layout, cols),
    ROW(CUBLASLT_MATRIX_LAYOUT_LD, lt_layout, ld),
    ROW(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, lt_layout, batch_count),
    ROW(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, lt_layout, batch_stride),
    ROW(CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, lt_layout, plane_offset),
    ROW(8, lt_layout, batch_mode), /* new in 13.0 */
    {0},
};

static const struct attribute matmul_attributes[] = {
    ROW(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, lt_matmul, compute),
    ROW(CUBLASLT_MATMUL_DESC_SCALE_TYPE, lt_matmul, scale_type),
    ROW(CUBLASLT_MATMUL_DESC_POINTER_MODE, lt_matmul, pointer_mode),
    ROW(CUBLASLT_MATMUL_DESC_TRANSA, lt_matmul, op_a),
    ROW(CUBLASLT_MATMUL_DESC_TRANSB, lt_matmul, op_b),
    ROW(5, lt_matmul, op_c),
    ROW(6, lt_matmul, fill_mode),
    ROW(CUBLASLT_MATMUL_DESC_EPILOGUE, lt_matmul, epilogue),
    ROW(CUBLASLT_MATMUL_DESC_BIAS_POINTER, lt_matmul, bias),
    ROW(10, lt_matmul, bias_batch_stride),
    ROW(11, lt_matmul, aux),
    ROW(12, lt_matmul, aux_ld),
    ROW(13, lt_matmul, aux_batch_stride),
    ROW(14, lt_matmul, alpha_vector_batch_stride),
    ROW(15, lt_matmul, sm_count_target),
    ROW(16, lt_matmul, unknown_16),
    ROW(17, lt_matmul, a_scale),
    ROW(18, lt_matmul, b_scale),
    ROW(19, lt_matmul, c_scale),
    ROW(20, lt_matmul, d_scale),
    ROW(21, lt_matmul, amax_d),
    ROW(22, lt_matmul, aux_type),
    ROW(23, lt_matmul, aux_scale),
    ROW(24, lt_matmul, aux_amax),
    ROW(25, lt_matmul, fast_accumulation),
    ROW(26, lt_matmul, bias_type),
    ROW(31, lt_matmul, a_scale_mode),
    ROW(32, lt_matmul, b_scale_mode),
    ROW(33, lt_matmul, c_scale_mode),
    ROW(34, lt_matmul, d_scale_mode),
    ROW(35, lt_matmul, aux_scale_mode),
    ROW(36, lt_matmul, d_out_scale),
    ROW(37, lt_matmul, d_out_scale_mode),
    ROW(38, lt_matmul, emulation),
    {0},
};

static const struct attribute preference_attributes[] = {
    ROW(CUBLASLT_MATMUL_PREF_SEARCH_MODE, lt_preference, search_mode),
    ROW(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, lt_preference, max_workspace),
    ROW(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, lt_preference, reduction_mask),
    ROW(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, lt_preference, min_alignment[0]),
    ROW(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + 1, lt_preference, min_alignment[1]),
    ROW(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + 2, lt_preference, min_alignment[2]),
    ROW(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + 3, lt_preference, min_alignment[3]),
    ROW(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, lt_preference, max_waves),
    ROW(CUBLASLT_MATMUL_PREF_IMPL_MASK, lt_preference, impl_mask),
    {0},
};

static const struct attribute transform_attributes[] = {
    ROW(CUBLASLT_MATRIX_TRANSFORM_DESC_SCALE_TYPE, lt_transform, scale_type),
    ROW(1, lt_transform, pointer_mode),
    ROW(2, lt_transform, op_a),
    ROW(CUBLASLT_MATRIX_TRANSFORM_DESC_TRANSB, lt_transform, op_b),
    {0},
};

/* The row of an attribute in a table that ends with a row of size 0, or NULL. */
static const struct attribute *find(const struct attribute *table, int id) {
    for (; table->size; table++)
        if (table->id == id)
            return table;
    return NULL;
}

static int set(const struct attribute *table, void *descriptor, int id, const void *value,
               size_t size) {
    const struct attribute *row = find(table, id);
    if (!descriptor || !value || !row || size != row->size)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy((char *)descriptor + row->offset, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

/* With size 0 only the size is told. */
static int get(const struct attribute *table, const void *descriptor, int id, void *value,
               size_t size, size_t *written) {
    const struct attribute *row = find(table, id);
    if (!descriptor || !row || (size == 0 && !written) || (size && (!value || size < row->size)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (written)
        *written = row->size;
    if (size)
        memcpy(value, (const char *)descriptor + row->offset, row->size);
    return CUBLAS_STATUS_SUCCESS;
}

static int allocate(void **out, size_t size) {
    if (!out)
        return CUBLAS_STATUS_INVALID_VALUE;
    *out = calloc(1, size);
    return *out ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

static void init_layout(void *memory, int type, uint64_t rows, uint64_t cols, int64_t ld) {
    struct lt_layout layout = {
        .type = type, .rows = rows, .cols = cols, .ld = ld, .batch_count = 1};
    memcpy(memory, &layout, sizeof layout);
}

static void init_matmul(void *memory, int compute, int scale_type) {
    struct lt_matmul matmul = {.compute = compute,
                               .scale_type = scale_type,
                               .fill_mode = 2, /* full */
                               .epilogue = 1,  /* none */
                               .aux_type = -1,
                               .bias_type = -1};
    memcpy(memory, &matmul, sizeof matmul);
}

static void init_preference(void *memory) {
    struct lt_preference preference = {
        .reduction_mask = 7, .min_alignment = {256, 256, 256, 256}, .impl_mask = UINT64_MAX};
    memcpy(memory, &preference, sizeof preference);
}

static void init_transform(void *memory, int scale_type) {
    struct lt_transform transform = {.scale_type = scale_type};
    memcpy(memory, &transform, sizeof transform);
}

/* ---- the entry points ---- */

/*
 * The six functions of one kind of descriptor. (...) of INIT are the parameters and arguments that
 * creation takes besides the descriptor.
 */
#define PARAMETERS(...) __VA_ARGS__
#define DESCRIPTOR(Name, Type, AttributeType, table, init, parameters, arguments)                  \
    STANDIN_EXPORT cublasStatus_t cublasLt##Name##Init_internal(Type descriptor,                   \
                                                                size_t size parameters) {          \
        LIB_ENTER(call);                                                                           \
        lib_put_pointer(&call, "descriptor", descriptor);                                          \
        bool fits = descriptor && size >= sizeof *descriptor;                                      \
        int status = lib_status(&call, fits ? 0 : CUBLAS_STATUS_INVALID_VALUE);                    \
        if (status == 0)                                                                           \
            init(descriptor arguments);                                                            \
        return standin_leave(&call, status);                                                       \
    }                                                                                              \
    STANDIN_EXPORT cublasStatus_t cublasLt##Name##Create(Type *descriptor parameters) {            \
        LIB_ENTER(call);                                                                           \
        void *memory = NULL;                                                                       \
        int status =                                                                               \
            call.fault ? call.fault : allocate(descriptor ? &memory : NULL, sizeof **descriptor);  \
        if (status == 0) {                                                                         \
            init(memory arguments);                                                                \
            *descriptor = memory;                                                                  \
        }                                                                                          \
        lib_put_pointer(&call, "descriptor", memory);                                              \
        return standin_leave(&call, status);                                                       \
    }                                                                                              \
    STANDIN_EXPORT cublasStatus_t cublasLt##Name##Destroy(Type descriptor) {                       \
        LIB_ENTER(call);                                                                           \
        lib_put_pointer(&call, "descriptor", descriptor);                                          \
        if (!call.fault)                                                                           \
            free(descriptor);                                                                      \
        return standin_leave(&call, call.fault);                                                   \
    }                                                                                              \
    STANDIN_EXPORT cublasStatus_t cublasLt##Name##SetAttribute(                                    \
        Type descriptor, AttributeType attr, const void *buf, size_t sizeInBytes) {                \
        LIB_ENTER(call);                                                                           \
        lib_put_pointer(&call, "descriptor", descriptor);                                          \
        standin_put_signed(&call, "attribute", attr);                                              \
        int status = call.fault ? call.fault : set(table, descriptor, attr, buf, sizeInBytes);     \
        return standin_leave(&call, status);                                                       \
    }                                                                                              \
    STANDIN_EXPORT cublasStatus_t cublasLt##Name##GetAttribute(                                    \
        Type descriptor, AttributeType attr, void *buf, size_t sizeInBytes, size_t *sizeWritten) { \
        LIB_ENTER(call);                                                                           \
        lib_put_pointer(&call, "descriptor", descriptor);                                          \
        standin_put_signed(&call, "attribute", attr);                                              \
        int status =                                                                               \
            call.fault ? call.fault : get(table, descriptor, attr, buf, sizeInBytes, sizeWritten); \
        return standin_leave(&call, status);                                                       \
    }

DESCRIPTOR(MatrixLayout, cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, layout_attributes,
           init_layout, PARAMETERS(, cudaDataType type, uint64_t rows, uint64_t cols, int64_t ld),
           PARAMETERS(, type, rows, cols, ld))
DESCRIPTOR(MatmulDesc, cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, matmul_attributes,
           init_matmul, PARAMETERS(, cublasComputeType_t compute, cudaDataType_t scale),
           PARAMETERS(, compute, scale))
DESCRIPTOR(MatmulPreference, cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
           preference_attributes, init_preference, , )
DESCRIPTOR(MatrixTransformDesc, cublasLtMatrixTransformDesc_t,
           cublasLtMatrixTransformDescAttributes_t, transform_attributes, init_transform,
           PARAMETERS(, cudaDataType scale), PARAMETERS(, scale))
