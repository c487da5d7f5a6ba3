/*
 * on_matmul_lt.c - see on_matmul_lt.h.
 */
#include "on_matmul_lt.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "layoutspy/api.h"
#include "on_gemm.h"
#include "operand.h"
#include "readable.h"
#include "resolve.h"
#include "shape.h"

/* ---- asking -----------------------------------------------------------------------------------
 */

enum {
    TYPE,
    ORDER,
    ROWS,
    COLS,
    LD,
    BATCH_COUNT,
    BATCH_OFFSET,
    BATCH_MODE = 8
};     /* of a matrix's layout */
enum { /* of a product */
       COMPUTE = 0,
       SCALE = 1,
       POINTER_MODE = 2,
       TRANSA = 3,
       TRANSB = 4,
       EPILOGUE = 7,
       BIAS = 8,
       AUX = 11,
       AUX_LD = 12,
       A_SCALE = 17,
       B_SCALE = 18,
       AUX_TYPE = 22,
       BIAS_TYPE = 26,
       A_SCALE_MODE = 31,
       B_SCALE_MODE = 32,
};
enum { TRANSFORM_SCALE = 0, TRANSFORM_POINTER_MODE = 1, TRANSFORM_TRANSA = 2 }; /* and _TRANSB 3 */

_Atomic uint64_t ls_lt_asked;

typedef int getter(const void *, int, void *, size_t, size_t *);
static getter *_Atomic of_layout, *_Atomic of_product, *_Atomic of_transform;

static bool ask(getter *_Atomic *known, const char *name, const void *descriptor, int attribute,
                void *value, size_t size) {
    getter *get = atomic_load_explicit(known, memory_order_acquire);
    if (!get) {
        get = (getter *)ls_resolve_other(LS_LIB_CUBLASLT, name);
        atomic_store_explicit(known, get, memory_order_release);
    }
    size_t written = 0;
    return get && get(descriptor, attribute, value, size, &written) == 0 && written == size;
}

static bool ask_product(const void *descriptor, int attribute, void *value, size_t size) {
    return ask(&of_product, "cublasLtMatmulDescGetAttribute", descriptor, attribute, value, size);
}

static bool ask_layout(const void *descriptor, struct ls_lt_layout *out) {
    const struct {
        int attribute;
        void *value;
        size_t size;
    } wanted[] = {{TYPE, &out->type, sizeof out->type},
                  {ORDER, &out->order, sizeof out->order},
                  {ROWS, &out->rows, sizeof out->rows},
                  {COLS, &out->columns, sizeof out->columns},
                  {LD, &out->ld, sizeof out->ld},
                  {BATCH_COUNT, &out->batch, sizeof out->batch},
                  {BATCH_OFFSET, &out->stride, sizeof out->stride}};
    atomic_fetch_add_explicit(&ls_lt_asked, 1, memory_order_relaxed);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!ask(&of_layout, "cublasLtMatrixLayoutGetAttribute", descriptor, wanted[i].attribute,
                 wanted[i].value, wanted[i].size))
            return false;
    if (!ask(&of_layout, "cublasLtMatrixLayoutGetAttribute", descriptor, BATCH_MODE, &out->array,
             sizeof out->array))
        out->array = 0;
    return true;
}

/* ---- the shape of a matrix ------------------------------------------------------------------- */

enum { COLUMN_ORDER, ROW_ORDER };

static uint32_t shape_of(const struct ls_lt_layout *layout) {
    const bool stacked = layout->batch > 1 && !layout->array, rows = layout->order == ROW_ORDER;
    const bool tiled = !rows && layout->order != COLUMN_ORDER;
    struct ls_shape shape = {.kind = LS_SHAPE_MATRIX,
                             .dims = stacked ? 3 : 2,
                             .flags = rows    ? LS_SHAPE_ROWS
                                      : tiled ? LS_SHAPE_TILED
                                              : 0,
                             .dtype = ls_cuda_dtype(layout->type),
                             .dtype_told = layout->type,
                             .values = stacked ? 6 : 4,
                             .value = {(int64_t)layout->rows, (int64_t)layout->columns}};
    int64_t *next = shape.value + 2;
    if (stacked)
        *next++ = layout->batch;
    *next++ = tiled ? 0 : rows ? layout->ld : 1;
    *next++ = tiled ? 0 : rows ? 1 : layout->ld;
    if (stacked)
        *next = layout->stride;
    return ls_shape_number(&shape);
}

/* ---- remembering ------------------------------------------------------------------------------
 */

/* Answers by the descriptor's bytes: a place for each hash, which a later one may take over. A
 * place's sequence is odd while it is written; who finds it so, or changed, asks the library. */
#define PLACES 1024
#define WORDS ((LS_LT_LAYOUT_BYTES + sizeof(struct ls_lt_layout)) / 8)
static struct {
    _Atomic uint64_t sequence;
    _Atomic uint64_t word[WORDS]; /* the bytes, the answers */
} places[PLACES];
_Static_assert(sizeof(struct ls_lt_layout) % 8 == 0, "as words");

union known {
    uint64_t word[WORDS];
    struct {
        char bytes[LS_LT_LAYOUT_BYTES];
        struct ls_lt_layout layout;
    };
};

static bool recall(size_t place, union known *out) {
    uint64_t before = atomic_load_explicit(&places[place].sequence, memory_order_acquire);
    if (!before || before & 1)
        return false;
    for (size_t i = 0; i < WORDS; i++)
        out->word[i] = atomic_load_explicit(&places[place].word[i], memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&places[place].sequence, memory_order_relaxed) == before;
}

static void remember(size_t place, const union known *known) {
    uint64_t before = atomic_load_explicit(&places[place].sequence, memory_order_relaxed);
    if (before & 1 || !atomic_compare_exchange_strong(&places[place].sequence, &before, before + 1))
        return;
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < WORDS; i++)
        atomic_store_explicit(&places[place].word[i], known->word[i], memory_order_relaxed);
    atomic_store_explicit(&places[place].sequence, before + 2, memory_order_release);
}

bool ls_lt_layout(const void *descriptor, struct ls_lt_layout *out) {
    union known told, own;
    memcpy(own.bytes, descriptor, sizeof own.bytes);
    size_t place = XXH3_64bits(own.bytes, sizeof own.bytes) % PLACES;
    if (recall(place, &told) && memcmp(told.bytes, own.bytes, sizeof own.bytes) == 0) {
        *out = told.layout;
        return true;
    }
    memset(&own.layout, 0, sizeof own.layout);
    if (!ask_layout(own.bytes, &own.layout))
        return false;
    own.layout.shape = shape_of(&own.layout);
    remember(place, &own);
    *out = own.layout;
    return true;
}

/* ---- shapes -----------------------------------------------------------------------------------
 */

static bool can_read(const void *descriptor, size_t size, int status) {
    uintptr_t at = (uintptr_t)descriptor;
    return at && (status == 0 || (ls_is_readable(at) && ls_is_readable(at + size - 8)));
}

/* Where nothing is known of it: rows and columns 0, which no matrix has. */
static struct ls_lt_layout layout_of(const void *descriptor, int status) {
    struct ls_lt_layout layout = {0};
    if (!can_read(descriptor, LS_LT_LAYOUT_BYTES, status) || !ls_lt_layout(descriptor, &layout))
        return (struct ls_lt_layout){0};
    return layout;
}

static void put(struct ls_thread *self, enum ls_role_id role, uint32_t shape, const void *address) {
    ls_operand_add(self, role, 0, shape, (uintptr_t)address);
}

static void put_matrix(struct ls_thread *self, enum ls_role_id role,
                       const struct ls_lt_layout *layout, const void *address) {
    ls_operand_add(self, role, layout->array ? LS_OPERAND_ARRAY : 0, (uint32_t)layout->shape,
                   (uintptr_t)address);
}

static uint32_t vector_shape(int type, int64_t size) {
    struct ls_shape shape = {.kind = LS_SHAPE_TENSOR,
                             .dims = 1,
                             .dtype = ls_cuda_dtype(type),
                             .dtype_told = type,
                             .values = 2,
                             .value = {size, 1}};
    return ls_shape_number(&shape);
}

static uint32_t matrix_shape(int type, int64_t rows, int64_t columns, int64_t ld) {
    struct ls_shape shape = {.kind = LS_SHAPE_MATRIX,
                             .dims = 2,
                             .dtype = ls_cuda_dtype(type),
                             .dtype_told = type,
                             .values = 4,
                             .value = {rows, columns, 1, ld}};
    return ls_shape_number(&shape);
}

/* ---- the product ------------------------------------------------------------------------------
 */

/* Bits of cublasLtEpilogue_t. */
enum {
    EPILOGUE_BIAS = 4,
    EPILOGUE_DRELU = 8,
    EPILOGUE_BGRAD = 16,
    EPILOGUE_GELU = 32,
    EPILOGUE_DGELU = 64,
    EPILOGUE_AUX = 128,
    EPILOGUE_BGRADA = 256,
    EPILOGUE_BGRADB = 512,
};

static int number(const void *desc, int attribute, int otherwise) {
    int32_t value;
    return ask_product(desc, attribute, &value, sizeof value) ? value : otherwise;
}

static const void *pointer(const void *desc, int attribute) {
    uint64_t value;
    return ask_product(desc, attribute, &value, sizeof value) ? (const void *)(uintptr_t)value
                                                              : NULL;
}

/* A bias has the result's type, unless told otherwise; beside 8-bit types one of 16 bits. */
static int bias_type(const void *desc, int type_d, int type_c) {
    int type = number(desc, BIAS_TYPE, -1);
    if (type >= 0)
        return type;
    enum { FIRST_OF_8_BITS = 28 };
    return type_d < FIRST_OF_8_BITS ? type_d : type_c < FIRST_OF_8_BITS ? type_c : LS_CUDA_R_16BF;
}

static void put_epilogue(struct ls_thread *self, const void *desc, const struct ls_lt_layout *c,
                         const struct ls_lt_layout *d) {
    const int epilogue = number(desc, EPILOGUE, 0);
    const int gradient = EPILOGUE_BGRAD | EPILOGUE_BGRADA | EPILOGUE_BGRADB;
    if (epilogue & (EPILOGUE_BIAS | gradient)) {
        int64_t size = (int64_t)(epilogue & EPILOGUE_BGRADB ? d->columns : d->rows);
        put(self, epilogue & gradient ? LS_ROLE_BIAS_GRAD : LS_ROLE_BIAS,
            vector_shape(bias_type(desc, d->type, c->type), size), pointer(desc, BIAS));
    }
    if (epilogue & EPILOGUE_AUX) {
        int64_t ld = 0;
        int type = number(desc, AUX_TYPE, -1);
        bool known = epilogue & (EPILOGUE_GELU | EPILOGUE_DGELU) && /* ReLU's is of bits */
                     ask_product(desc, AUX_LD, &ld, sizeof ld);
        put(self, LS_ROLE_AUX,
            known ? matrix_shape(type >= 0 ? type : d->type, (int64_t)d->rows, (int64_t)d->columns,
                                 ld)
                  : 0,
            pointer(desc, AUX));
    }
}

/* Factors of matrices of 8 bits and less. Of several for one matrix the shape is not known. */
static void put_scales(struct ls_thread *self, const void *desc) {
    static const struct {
        int pointer, mode;
        enum ls_role_id role;
    } scales[] = {{A_SCALE, A_SCALE_MODE, LS_ROLE_SCALE_A},
                  {B_SCALE, B_SCALE_MODE, LS_ROLE_SCALE_B}};
    for (int i = 0; i < 2; i++) {
        const void *address = pointer(desc, scales[i].pointer);
        if (address)
            put(self, scales[i].role,
                number(desc, scales[i].mode, 0) == 0 ? vector_shape(LS_CUDA_R_32F, 1) : 0, address);
    }
}

/* Of a call that succeeded; mode 3: beta is 0 without being told, 4: it alone lies on the host. */
static bool beta_is_zero(const void *beta, int mode, int scale) {
    return mode == 3 || (beta && (mode == 0 || mode == 4) && ls_is_zero(beta, scale));
}

static bool small(int type) {
    enum { FP8 = 28, INT4 = 16, UINT4 = 18 };
    return type >= FP8 || type == INT4 || type == UINT4;
}

static void put_workspace(struct ls_thread *self, const struct ls_lt_call *call) {
    enum { UINT8 = 8 };
    if (call->workspace && call->workspace_size)
        put(self, LS_ROLE_WORKSPACE, vector_shape(UINT8, (int64_t)call->workspace_size),
            call->workspace);
}

static void matmul(struct ls_thread *self, int status, const struct ls_lt_call *call) {
    enum { PRODUCT_BYTES = 256 }; /* of its descriptor, where it is largest */
    const struct ls_lt_layout a = layout_of(call->layout_a, status),
                              b = layout_of(call->layout_b, status),
                              c = layout_of(call->layout_c, status),
                              d = layout_of(call->layout_d, status);
    const void *desc = can_read(call->desc, PRODUCT_BYTES, status) ? call->desc : NULL;
    const int op_a = desc ? number(desc, TRANSA, 0) : 0;
    const bool stacked = d.batch > 1;
    if (desc && d.rows) {
        const struct ls_blas told = {.m = (int64_t)d.rows,
                                     .n = (int64_t)d.columns,
                                     .k = (int64_t)(op_a ? a.rows : a.columns),
                                     .lda = a.ld,
                                     .ldb = b.ld,
                                     .ldc = c.ld,
                                     .stride_a = stacked ? a.stride : 0,
                                     .stride_b = stacked ? b.stride : 0,
                                     .stride_c = stacked ? c.stride : 0,
                                     .batch = d.batch,
                                     .op_a = op_a,
                                     .op_b = number(desc, TRANSB, 0),
                                     .type_a = a.type,
                                     .type_b = b.type,
                                     .type_c = c.type,
                                     .compute = number(desc, COMPUTE, -1)};
        put(self, LS_ROLE_PRODUCT, ls_product_shape(&told), NULL);
    }
    bool unused = status == 0 &&
                  beta_is_zero(call->beta, number(desc, POINTER_MODE, -1), number(desc, SCALE, -1));
    put_matrix(self, LS_ROLE_A, &a, call->a);
    put_matrix(self, LS_ROLE_B, &b, call->b);
    put_matrix(self, unused ? LS_ROLE_C_UNUSED : LS_ROLE_C_IN, &c, call->c);
    put_matrix(self, LS_ROLE_D, &d, call->d);
    if (desc)
        put_epilogue(self, desc, &c, &d);
    if (desc && (small(a.type) || small(b.type)))
        put_scales(self, desc);
    put_workspace(self, call);
}

/* ---- the transformation: C = alpha op(A) + beta op(B) ------------------------------------------
 */

static int transform_number(const void *desc, int attribute, int otherwise) {
    int32_t value;
    return desc && ask(&of_transform, "cublasLtMatrixTransformDescGetAttribute", desc, attribute,
                       &value, sizeof value)
               ? value
               : otherwise;
}

static void transform(struct ls_thread *self, int status, const struct ls_lt_call *call) {
    const struct ls_lt_layout a = layout_of(call->layout_a, status),
                              b = layout_of(call->layout_b, status),
                              c = layout_of(call->layout_c, status);
    const void *desc = can_read(call->desc, LS_LT_LAYOUT_BYTES, status) ? call->desc : NULL;
    if (desc && c.rows) {
        const struct ls_blas told = {.m = (int64_t)c.rows,
                                     .n = (int64_t)c.columns,
                                     .lda = a.ld,
                                     .ldb = b.ld,
                                     .ldc = c.ld,
                                     .batch = c.batch,
                                     .op_a = transform_number(desc, TRANSFORM_TRANSA, 0),
                                     .op_b = transform_number(desc, TRANSFORM_TRANSA + 1, 0),
                                     .type_a = a.type,
                                     .type_b = b.type,
                                     .type_c = c.type,
                                     .compute = -1};
        put(self, LS_ROLE_PRODUCT, ls_product_shape(&told), NULL);
    }
    bool unused =
        status == 0 && beta_is_zero(call->beta, transform_number(desc, TRANSFORM_POINTER_MODE, -1),
                                    transform_number(desc, TRANSFORM_SCALE, -1));
    put_matrix(self, LS_ROLE_A, &a, call->a);
    put_matrix(self, unused ? LS_ROLE_B_UNUSED : LS_ROLE_B, &b, call->b);
    put_matrix(self, LS_ROLE_C_OUT, &c, call->c);
}

/* ---- what the rows call: the kernel and the library may leave an errno behind ------------------
 */

void ls_lt_matmul(struct ls_thread *self, int status, const struct ls_lt_call *call) {
    int saved = errno;
    if (!ls_session.env.layouts)
        return;
    matmul(self, status, call);
    errno = saved;
}

void ls_lt_transform(struct ls_thread *self, int status, const struct ls_lt_call *call) {
    int saved = errno;
    if (!ls_session.env.layouts)
        return;
    transform(self, status, call);
    errno = saved;
}
