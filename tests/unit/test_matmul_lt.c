/*
 * test_matmul_lt.c - what is told of cuBLASLt's descriptors equals what NVIDIA's own library
 * answers, which needs no GPU for that: random matrices and products, each asked of both.
 *
 * The library: the toolkit's (LS_CUBLASLT), else the simulated one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "preload/on_gemm.h"
#include "preload/on_matmul_lt.h"
#include "preload/shape.h"
#include "preload/state.h"

enum { ROUNDS = 1000, MATMUL_BYTES = 256 };

static int (*make_layout)(void *, size_t, int, uint64_t, uint64_t, int64_t);
static int (*make_matmul)(void *, size_t, int, int);
static int (*make_transform)(void *, size_t, int);
static int (*set_layout)(void *, int, const void *, size_t);
static int (*set_matmul)(void *, int, const void *, size_t);
static int (*set_transform)(void *, int, const void *, size_t);
static int (*get_layout)(const void *, int, void *, size_t, size_t *);
static int (*get_matmul)(const void *, int, void *, size_t, size_t *);

static struct ls_thread self;

static int setup_library(void **state) {
    (void)state;
    void *library = dlopen(LS_CUBLASLT, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen(LS_CUBLASLT_STANDIN, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return -1;
    *(void **)&make_layout = dlsym(library, "cublasLtMatrixLayoutInit_internal");
    *(void **)&make_matmul = dlsym(library, "cublasLtMatmulDescInit_internal");
    *(void **)&make_transform = dlsym(library, "cublasLtMatrixTransformDescInit_internal");
    *(void **)&set_layout = dlsym(library, "cublasLtMatrixLayoutSetAttribute");
    *(void **)&set_matmul = dlsym(library, "cublasLtMatmulDescSetAttribute");
    *(void **)&set_transform = dlsym(library, "cublasLtMatrixTransformDescSetAttribute");
    *(void **)&get_layout = dlsym(library, "cublasLtMatrixLayoutGetAttribute");
    *(void **)&get_matmul = dlsym(library, "cublasLtMatmulDescGetAttribute");
    ls_live_page();
    ls_session.env.layouts = true;
    srandom(7);
    return make_layout && make_matmul && get_layout && get_matmul ? 0 : -1;
}

static int one_of(int count, const int *values) {
    return values[random() % count];
}
#define ONE_OF(...) one_of(sizeof((int[]){__VA_ARGS__}) / sizeof(int), (const int[]){__VA_ARGS__})
#define SET(kind, descriptor, attribute, value)                                                    \
    assert_int_equal(set_##kind(descriptor, attribute, &(value), sizeof(value)), 0)

static int random_type(void) {
    return ONE_OF(0, 1, 2, 3, 4, 5, 10, 14, 28, 29);
}

static void random_layout(uint64_t *bytes, uint64_t rows, uint64_t columns) {
    assert_int_equal(make_layout(bytes, LS_LT_LAYOUT_BYTES, random_type(), rows, columns,
                                 (int64_t)rows + random() % 5),
                     0);
    if (random() % 2) {
        int32_t order = ONE_OF(0, 0, 1, 1, 2, 3, 4);
        SET(layout, bytes, 1, order);
    }
    if (random() % 2) {
        int32_t batch = (int32_t)(random() % 7) + 1;
        int64_t stride = random() % 100000 - 1000;
        SET(layout, bytes, 5, batch);
        SET(layout, bytes, 6, stride);
        uint32_t mode = random() % 4 == 0; /* since CUDA 13 */
        set_layout(bytes, 8, &mode, sizeof mode);
    }
}

static uint64_t told_layout(const void *descriptor, int attribute, size_t size) {
    uint64_t value = 0;
    size_t written = 0;
    assert_int_equal(get_layout(descriptor, attribute, &value, size, &written), 0);
    assert_int_equal(written, size);
    return value;
}

static bool is_array(const void *descriptor) {
    uint32_t mode = 0;
    return get_layout(descriptor, 8, &mode, sizeof mode, NULL) == 0 && mode == 1;
}

static void test_layouts(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t bytes[LS_LT_LAYOUT_BYTES / 8], copy[LS_LT_LAYOUT_BYTES / 8];
        struct ls_lt_layout first, again;
        random_layout(bytes, (uint64_t)random() % 5000 + 1, (uint64_t)random() << (random() % 20));
        assert_true(ls_lt_layout(bytes, &first));
        assert_int_equal((uint32_t)first.type, told_layout(bytes, 0, 4));
        assert_int_equal((uint32_t)first.order, told_layout(bytes, 1, 4));
        assert_int_equal(first.rows, told_layout(bytes, 2, 8));
        assert_int_equal(first.columns, told_layout(bytes, 3, 8));
        assert_int_equal(first.ld, told_layout(bytes, 4, 8));
        assert_int_equal((uint32_t)first.batch, told_layout(bytes, 5, 4));
        assert_int_equal(first.stride, told_layout(bytes, 6, 8));
        assert_int_equal(first.array, is_array(bytes));
        /* The answers depend on the bytes alone, and are not asked for again. */
        memcpy(copy, bytes, sizeof copy);
        memset(bytes, 0xff, sizeof bytes);
        assert_int_equal(first.rows, told_layout(copy, 2, 8));
        assert_int_equal(first.ld, told_layout(copy, 4, 8));
        uint64_t asked = ls_lt_asked;
        assert_true(ls_lt_layout(copy, &again));
        assert_memory_equal(&first, &again, sizeof first);
        assert_int_equal(asked, ls_lt_asked);
    }
}

/* ---- products ---- */

struct product {
    uint64_t layout[4][LS_LT_LAYOUT_BYTES / 8];
    uint64_t desc[MATMUL_BYTES / 8];
    struct ls_lt_call call;
};

static void random_product(struct product *p, float *beta) {
    uint64_t m = (uint64_t)random() % 99 + 1, n = (uint64_t)random() % 99 + 1,
             k = (uint64_t)random() % 99 + 1;
    int32_t op_a = ONE_OF(0, 1, 2), op_b = ONE_OF(0, 1, 2);
    assert_int_equal(
        make_matmul(p->desc, sizeof p->desc, ONE_OF(64, 68, 70, 72, 77), ONE_OF(0, 1, 2, 10)), 0);
    SET(matmul, p->desc, 3, op_a);
    SET(matmul, p->desc, 4, op_b);
    random_layout(p->layout[0], op_a ? k : m, op_a ? m : k);
    random_layout(p->layout[1], op_b ? n : k, op_b ? k : n);
    random_layout(p->layout[2], m, n);
    random_layout(p->layout[3], m, n);
    if (random() % 2) {
        int32_t epilogue =
            ONE_OF(1, 2, 4, 6, 130, 134, 136, 152, 32, 36, 160, 164, 192, 208, 256, 512);
        int64_t ld = 128 + random() % 9;
        uint64_t bias = 0x7000 + 16 * ((uint64_t)random() % 100), aux = bias + 0x100000;
        SET(matmul, p->desc, 7, epilogue);
        SET(matmul, p->desc, 8, bias);
        SET(matmul, p->desc, 11, aux);
        SET(matmul, p->desc, 12, ld);
    }
    if (random() % 3 == 0) {
        int32_t bias_type = ONE_OF(0, 2, 14);
        uint64_t scale = 0x90000;
        SET(matmul, p->desc, 26, bias_type);
        SET(matmul, p->desc, 17, scale);
    }
    if (random() % 3 == 0) {
        int32_t mode = ONE_OF(0, 1, 2, 3, 4);
        SET(matmul, p->desc, 2, mode);
    }
    p->call = (struct ls_lt_call){p->desc,        (void *)0x1000, (void *)0x2000, (void *)0x3000,
                                  (void *)0x4000, p->layout[0],   p->layout[1],   p->layout[2],
                                  p->layout[3],   beta,           (void *)0x5000, 4096};
}

static uint64_t told_matmul(const void *descriptor, int attribute, size_t size) {
    uint64_t value = 0;
    size_t written = 0;
    assert_int_equal(get_matmul(descriptor, attribute, &value, size, &written), 0);
    return value;
}

/* The operand of one of two roles, NULL: there is none. */
static const struct ls_operand *operand(enum ls_role_id role, enum ls_role_id other) {
    for (unsigned i = 0; i < self.operand_count; i++)
        if (LS_OPERAND_ROLE(self.operand[i].what) == role ||
            LS_OPERAND_ROLE(self.operand[i].what) == other)
            return &self.operand[i];
    return NULL;
}
static const struct ls_shape *shape_of(const struct ls_operand *operand) {
    return operand ? ls_shape_at(LS_OPERAND_SHAPE(operand->what)) : NULL;
}

static void check_matrix(enum ls_role_id role, enum ls_role_id other, const void *layout) {
    const struct ls_shape *shape = shape_of(operand(role, other));
    const int64_t batch = (int64_t)told_layout(layout, 5, 4),
                  ld = (int64_t)told_layout(layout, 4, 8);
    const int order = (int)told_layout(layout, 1, 4), dims = batch > 1 && !is_array(layout) ? 3 : 2;
    assert_non_null(shape);
    assert_int_equal(shape->kind, LS_SHAPE_MATRIX);
    assert_int_equal(shape->dims, dims);
    assert_int_equal(shape->dtype, ls_cuda_dtype((int)told_layout(layout, 0, 4)));
    assert_int_equal(shape->value[0], told_layout(layout, 2, 8));
    assert_int_equal(shape->value[1], told_layout(layout, 3, 8));
    assert_int_equal(shape->value[dims], order == 0 ? 1 : order == 1 ? ld : 0);
    assert_int_equal(shape->value[dims + 1], order == 0 ? ld : order == 1 ? 1 : 0);
    assert_int_equal(shape->flags, order == 0 ? 0 : order == 1 ? LS_SHAPE_ROWS : LS_SHAPE_TILED);
    assert_int_equal(LS_OPERAND_FLAGS(operand(role, other)->what),
                     is_array(layout) ? LS_OPERAND_ARRAY : 0);
    if (dims == 3) {
        assert_int_equal(shape->value[2], batch);
        assert_int_equal(shape->value[5], told_layout(layout, 6, 8));
    }
}

static void check_epilogue(const struct product *p) {
    const int epilogue = (int)told_matmul(p->desc, 7, 4);
    const struct ls_operand *bias = operand(LS_ROLE_BIAS, LS_ROLE_BIAS_GRAD);
    const struct ls_operand *aux = operand(LS_ROLE_AUX, LS_ROLE_AUX);
    const bool gradient = epilogue & (16 | 256 | 512);
    assert_int_equal(bias != NULL, (epilogue & 4) || gradient);
    if (bias) {
        int type = (int)told_matmul(p->desc, 26, 4);
        assert_int_equal(LS_OPERAND_ROLE(bias->what), gradient ? LS_ROLE_BIAS_GRAD : LS_ROLE_BIAS);
        assert_int_equal(bias->address, told_matmul(p->desc, 8, 8));
        assert_int_equal(shape_of(bias)->value[0],
                         told_layout(p->layout[3], epilogue & 512 ? 3 : 2, 8));
        if (type >= 0)
            assert_int_equal(shape_of(bias)->dtype, ls_cuda_dtype(type));
    }
    assert_int_equal(aux != NULL, (epilogue & 128) != 0);
    if (aux) {
        assert_int_equal(aux->address, told_matmul(p->desc, 11, 8));
        assert_int_equal(shape_of(aux) != NULL, (epilogue & (32 | 64)) != 0);
        if (shape_of(aux))
            assert_int_equal(shape_of(aux)->value[3], told_matmul(p->desc, 12, 8));
    }
}

static void check_product(const struct product *p) {
    const int64_t *value = shape_of(operand(LS_ROLE_PRODUCT, LS_ROLE_PRODUCT))->value;
    const int op_a = (int)told_matmul(p->desc, 3, 4);
    assert_int_equal(value[LS_PRODUCT_M], told_layout(p->layout[3], 2, 8));
    assert_int_equal(value[LS_PRODUCT_N], told_layout(p->layout[3], 3, 8));
    assert_int_equal(value[LS_PRODUCT_K], told_layout(p->layout[0], op_a ? 2 : 3, 8));
    assert_int_equal(value[LS_PRODUCT_OP_A], op_a);
    assert_int_equal(value[LS_PRODUCT_OP_B], told_matmul(p->desc, 4, 4));
    assert_int_equal(value[LS_PRODUCT_COMPUTE], told_matmul(p->desc, 0, 4));
    assert_int_equal(value[LS_PRODUCT_LDC], told_layout(p->layout[2], 4, 8));
    assert_int_equal(value[LS_PRODUCT_BATCH], told_layout(p->layout[3], 5, 4));
}

static void test_products(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct product p;
        float beta = (float)(random() % 2);
        random_product(&p, &beta);
        self.operand_count = 0;
        ls_lt_matmul(&self, 0, &p.call);
        check_product(&p);
        check_matrix(LS_ROLE_A, LS_ROLE_A, p.layout[0]);
        check_matrix(LS_ROLE_B, LS_ROLE_B, p.layout[1]);
        check_matrix(LS_ROLE_C_IN, LS_ROLE_C_UNUSED, p.layout[2]);
        check_matrix(LS_ROLE_D, LS_ROLE_D, p.layout[3]);
        check_epilogue(&p);
        int mode = (int)told_matmul(p.desc, 2, 4), scale = (int)told_matmul(p.desc, 1, 4);
        bool readable = (mode == 0 || mode == 4) && scale != 1; /* beta is a float here */
        if (mode == 3 || readable)
            assert_int_equal(operand(LS_ROLE_C_UNUSED, LS_ROLE_C_UNUSED) != NULL,
                             mode == 3 || ls_is_zero(&beta, scale));
        if (mode == 1 || mode == 2)
            assert_non_null(operand(LS_ROLE_C_IN, LS_ROLE_C_IN));
        assert_int_equal(shape_of(operand(LS_ROLE_WORKSPACE, LS_ROLE_WORKSPACE))->value[0], 4096);
    }
}

/* A call that failed may have been given anything. */
static void test_failed(void **state) {
    (void)state;
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(mprotect(map + 4096, 4096, PROT_NONE), 0);
    memset(map, 0xa5, 4096);
    char *const wrong[] = {NULL, (char *)8, map + 4096, map + 4096 - 8, map + 4096 - 60, map};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct ls_lt_call call = {wrong[i], map,      map,      map,      map, wrong[i],
                                  wrong[i], wrong[i], wrong[i], wrong[i], map, 8};
        self.operand_count = 0;
        ls_lt_matmul(&self, 7, &call);
        assert_int_equal(operand(LS_ROLE_D, LS_ROLE_D)->address, (uintptr_t)map);
        if (wrong[i] != map)
            assert_null(shape_of(operand(LS_ROLE_D, LS_ROLE_D)));
        self.operand_count = 0;
        ls_lt_transform(&self, 7, &call);
        assert_int_equal(operand(LS_ROLE_A, LS_ROLE_A)->address, (uintptr_t)map);
    }
    munmap(map, 8192);
}

static void test_transformation(void **state) {
    (void)state;
    uint64_t desc[8], a[8], c[8];
    int32_t row = 1, op = 1;
    float beta = 0;
    assert_int_equal(make_transform(desc, sizeof desc, 0), 0);
    SET(transform, desc, 2, op);
    assert_int_equal(make_layout(a, sizeof a, 0, 5, 4, 5), 0);
    assert_int_equal(make_layout(c, sizeof c, 0, 4, 5, 8), 0);
    SET(layout, c, 1, row);
    self.operand_count = 0;
    ls_lt_transform(&self, 0,
                    &(struct ls_lt_call){.desc = desc,
                                         .a = (void *)0x1000,
                                         .c = (void *)0x3000,
                                         .layout_a = a,
                                         .layout_c = c,
                                         .beta = &beta});
    assert_int_equal(self.operand_count, 3); /* no B */
    assert_int_equal(shape_of(&self.operand[0])->value[LS_PRODUCT_OP_A], 1);
    check_matrix(LS_ROLE_A, LS_ROLE_A, a);
    check_matrix(LS_ROLE_C_OUT, LS_ROLE_C_OUT, c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_failed),
        cmocka_unit_test(test_transformation),
    };
    return cmocka_run_group_tests(tests, setup_library, NULL);
}
