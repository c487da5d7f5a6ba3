/*
 * test_shape_text.c - the word for the order in which a tensor lies, by its sizes and strides.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shape_text.h"

static struct {
    struct ls_rec_shape shape;
    int64_t value[2 * LS_SHAPE_DIMS];
} made;
static struct ls_shape_facts facts;

static void measure(int kind, unsigned flags, enum ls_dtype dtype, unsigned dims,
                    const int64_t *value) {
    memset(&made, 0, sizeof made);
    made.shape.head.size = (uint16_t)(sizeof made.shape + 16 * dims);
    made.shape.kind = (uint8_t)kind;
    made.shape.flags = (uint8_t)flags;
    made.shape.dtype = (uint8_t)dtype;
    made.shape.dims = (uint8_t)dims;
    memcpy(made.value, value, 2 * dims * sizeof *value);
    ls_shape_measure(&made.shape, &facts);
}

/* `dims` sizes, then as many strides. */
#define LIES(dims, word, both, ...)                                                                \
    do {                                                                                           \
        measure(LS_SHAPE_TENSOR, 0, LS_DTYPE_FLOAT32, dims, (const int64_t[]){__VA_ARGS__});       \
        assert_string_equal(ls_layout_name[facts.layout], word);                                   \
        assert_int_equal(facts.ambiguous, both);                                                   \
    } while (0)
#define MATRIX(flags, dims, word, both, ...)                                                       \
    do {                                                                                           \
        measure(LS_SHAPE_MATRIX, flags, LS_DTYPE_FLOAT32, dims, (const int64_t[]){__VA_ARGS__});   \
        assert_string_equal(ls_layout_name[facts.layout], word);                                   \
        assert_int_equal(facts.ambiguous, both);                                                   \
    } while (0)

static void test_images(void **state) {
    (void)state;
    LIES(4, "nchw", 0, 2, 3, 4, 5, 60, 20, 5, 1);
    assert_true(facts.dense);
    assert_int_equal(facts.elements, 120);
    assert_int_equal(facts.bytes, 480);
    assert_int_equal(facts.span, 480);
    LIES(4, "nhwc", 0, 2, 3, 4, 5, 60, 1, 15, 3);
    assert_true(facts.dense);
    LIES(5, "nchw", 0, 2, 3, 4, 5, 6, 360, 120, 30, 6, 1);
    LIES(5, "nhwc", 0, 2, 3, 4, 5, 6, 360, 1, 90, 18, 3);
    LIES(4, "strided", 0, 2, 3, 4, 5, 60, 20, 1, 4); /* H and W exchanged */
    LIES(4, "strided", 0, 2, 3, 4, 5, 20, 40, 5, 1); /* N and C exchanged */
    /* an nhwc tensor by whose W other channels lie */
    LIES(4, "nhwc", 0, 2, 3, 4, 5, 120, 1, 30, 6);
    assert_false(facts.dense);
    assert_int_equal(facts.span, 4 * (120 + 2 + 90 + 24 + 1));
}

static void test_one_of_a_dimension(void **state) {
    (void)state;
    LIES(4, "nchw", 1, 2, 1, 4, 5, 20, 20, 5, 1); /* one channel */
    LIES(4, "nchw", 1, 2, 1, 4, 5, 20, 1, 5, 1);  /* with the strides of channels_last */
    LIES(4, "nchw", 1, 2, 3, 1, 1, 3, 1, 1, 1);   /* one pixel */
    LIES(4, "nchw", 1, 2, 3, 1, 1, 3, 1, 77, -5); /* strides that mean nothing */
    LIES(4, "none", 1, 1, 1, 1, 1, 1, 1, 1, 1);   /* one element */
    LIES(4, "nchw", 0, 2, 3, 1, 5, 15, 5, 5, 1);  /* a row of pixels is not */
    LIES(4, "nhwc", 0, 2, 3, 1, 5, 15, 1, 15, 3);
    LIES(4, "nchw", 0, 1, 3, 4, 5, 999, 20, 5, 1);
    LIES(4, "strided", 0, 2, 3, 1, 1, 60, 20, 5, 1); /* a pixel cut out of an nchw tensor */
    LIES(4, "nchw", 1, 0, 3, 1, 1, 3, 1, 1, 1);      /* nothing at all */
    assert_int_equal(facts.elements, 0);
    assert_int_equal(facts.bytes, 0);
    assert_int_equal(facts.span, 0);
}

static void test_padded(void **state) {
    (void)state;
    LIES(4, "nchw", 0, 2, 3, 4, 5, 120, 20, 5, 1); /* half of the channels */
    assert_false(facts.dense);
    LIES(4, "nchw", 0, 2, 3, 4, 5, 96, 32, 8, 1); /* rows of 8 */
    LIES(4, "strided", 0, 2, 3, 4, 5, 120, 40, 10, 2);
    LIES(2, "row-major", 0, 4, 5, 8, 1);
    assert_false(facts.dense);
}

static void test_overlapping(void **state) {
    (void)state;
    LIES(4, "strided", 0, 2, 3, 4, 5, 60, 20, 3, 1);
    LIES(2, "strided", 0, 4, 5, 2, 1);
    LIES(4, "broadcast", 0, 2, 3, 4, 5, 0, 20, 5, 1);
    LIES(4, "nchw", 0, 1, 3, 4, 5, 0, 20, 5, 1); /* of one, it is none */
    LIES(1, "broadcast", 0, 7, 0);
}

static void test_few_dimensions(void **state) {
    (void)state;
    LIES(1, "row-major", 0, 7, 1);
    LIES(1, "strided", 0, 7, 2);
    LIES(1, "strided", 0, 7, -1);
    LIES(2, "row-major", 0, 4, 5, 5, 1);
    LIES(2, "column-major", 0, 4, 5, 1, 4);
    LIES(2, "row-major", 1, 1, 5, 5, 1);
    LIES(3, "row-major", 0, 2, 4, 5, 20, 5, 1);
    LIES(3, "column-major", 0, 2, 4, 5, 20, 1, 4);
    LIES(3, "strided", 0, 2, 4, 5, 5, 10, 1);
    LIES(6, "row-major", 0, 2, 2, 2, 2, 2, 2, 32, 16, 8, 4, 2, 1);
    LIES(0, "unknown", 0, 0);
    assert_int_equal(facts.elements, 0);
    LIES(2, "unknown", 0, -4, 5, 5, 1);
    measure(LS_SHAPE_TENSOR, LS_SHAPE_SCALAR, LS_DTYPE_FLOAT32, 0, made.value);
    assert_int_equal(facts.elements, 1);
    assert_int_equal(facts.layout, LS_LAYOUT_NONE);
}

static void test_matrices(void **state) {
    (void)state;
    MATRIX(0, 2, "column-major", 0, 4, 5, 1, 8);
    assert_false(facts.dense);
    MATRIX(0, 2, "column-major", 0, 4, 5, 1, 4);
    assert_true(facts.dense);
    MATRIX(LS_SHAPE_ROWS, 2, "row-major", 0, 4, 5, 5, 1);
    MATRIX(0, 2, "column-major", 1, 4, 1, 1, 4);
    MATRIX(LS_SHAPE_ROWS, 2, "row-major", 1, 4, 1, 1, 1);
    MATRIX(0, 2, "strided", 0, 4, 5, 1, 3); /* columns overlap */
    MATRIX(0, 3, "column-major", 0, 4, 5, 6, 1, 4, 20);
    assert_true(facts.dense);
    MATRIX(0, 3, "column-major", 0, 64, 5, 6, 1, 384, 64); /* heads beside each other */
    assert_false(facts.dense);
    MATRIX(0, 3, "broadcast", 0, 4, 5, 6, 1, 4, 0);
    MATRIX(LS_SHAPE_TILED, 2, "unknown", 0, 4, 5, 0, 0);
}

static void test_strides_in_bytes(void **state) {
    (void)state;
    static const int64_t row[] = {4, 5, 20, 4}, step[] = {4, 5, 40, 8}, odd[] = {4, 5, 22, 4};
    measure(LS_SHAPE_TENSOR, LS_SHAPE_BYTES, LS_DTYPE_FLOAT32, 2, row);
    assert_int_equal(facts.layout, LS_LAYOUT_ROW_MAJOR);
    assert_int_equal(facts.span, 80);
    measure(LS_SHAPE_TENSOR, LS_SHAPE_BYTES, LS_DTYPE_FLOAT32, 2, step);
    assert_int_equal(facts.layout, LS_LAYOUT_STRIDED);
    measure(LS_SHAPE_TENSOR, LS_SHAPE_BYTES, LS_DTYPE_UNKNOWN, 2, step);
    assert_int_equal(facts.layout, LS_LAYOUT_ROW_MAJOR); /* for all that is known */
    assert_int_equal(facts.unit, 8);
    measure(LS_SHAPE_TENSOR, LS_SHAPE_BYTES, LS_DTYPE_FLOAT32, 2, odd);
    assert_int_equal(facts.layout, LS_LAYOUT_STRIDED);
    measure(LS_SHAPE_TENSOR, 0, LS_DTYPE_INT4, 2, (const int64_t[]){3, 5, 5, 1});
    assert_int_equal(facts.bytes, 8);
}

static void test_several_as_one(void **state) {
    (void)state;
    measure(LS_SHAPE_TENSOR, 0, LS_DTYPE_INT8, 4, (const int64_t[]){2, 8, 4, 5, 160, 20, 5, 1});
    made.shape.vector_count = 4;
    made.shape.vector_dim = 1;
    ls_shape_measure(&made.shape, &facts);
    assert_int_equal(facts.layout, LS_LAYOUT_STRIDED);
}

/* Of a damaged record: sums and products stay numbers, texts stay in their room. */
static void test_any_numbers(void **state) {
    static const int64_t odd[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, 2, INT64_MAX / 2, INT64_MAX};
    unsigned seed = 7;
    char text[LS_NUMBERS_TEXT(LS_SHAPE_DIMS)], detail[LS_DETAIL_TEXT];
    int64_t value[2 * LS_SHAPE_DIMS];
    (void)state;
    for (int round = 0; round < 20000; round++) {
        for (size_t i = 0; i < sizeof value / sizeof *value; i++)
            value[i] = odd[(unsigned)rand_r(&seed) % 8];
        unsigned flags = (unsigned)rand_r(&seed) & 31;
        measure(round % 2 ? LS_SHAPE_TENSOR : LS_SHAPE_MATRIX, flags,
                (enum ls_dtype)((unsigned)rand_r(&seed) % LS_DTYPE_COUNT),
                (unsigned)rand_r(&seed) % (LS_SHAPE_DIMS + 1), value);
        assert_in_range(facts.layout, 0, LS_LAYOUTS - 1);
        assert_true(facts.elements >= 0 && facts.bytes >= 0 && facts.span >= 0);
    }
    for (int i = 0; i < LS_SHAPE_DIMS; i++)
        value[i] = INT64_MIN;
    ls_shape_numbers(text, sizeof text, value, LS_SHAPE_DIMS);
    assert_int_equal(text[strlen(text) - 1], ']');
    struct {
        struct ls_rec_shape shape;
        int64_t value[4 * LS_SHAPE_DIMS + 3];
    } settings = {.shape = {.head = {.size = sizeof settings},
                            .kind = LS_SHAPE_CONVOLUTION,
                            .dims = LS_SHAPE_DIMS}};
    for (size_t i = 0; i < sizeof settings.value / 8; i++)
        settings.value[i] = INT64_MIN;
    assert_true(ls_shape_detail(detail, &settings.shape));
    assert_int_equal(detail[strlen(detail) - 1], '}');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_images),           cmocka_unit_test(test_one_of_a_dimension),
        cmocka_unit_test(test_padded),           cmocka_unit_test(test_overlapping),
        cmocka_unit_test(test_few_dimensions),   cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_strides_in_bytes), cmocka_unit_test(test_several_as_one),
        cmocka_unit_test(test_any_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
