/*
 * test_record_check.c - which bytes are a record.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include "layoutspy/table.h"
#include "record_check.h"

static union {
    struct ls_record head;
    struct ls_rec_call call;
    struct ls_rec_stack stack;
    struct ls_rec_module module;
    struct ls_rec_text text;
    struct ls_rec_code code;
    struct ls_rec_python python;
    struct ls_rec_mark mark;
    struct ls_rec_census census;
    struct ls_rec_storage storage;
    struct ls_rec_tensor tensor;
    struct ls_rec_gpu gpu;
    struct ls_rec_gpu_clock gpu_clock;
    struct ls_rec_gpu_state gpu_state;
    struct ls_rec_shape shape;
    uint8_t bytes[512];
} r;

static void begin(int type, size_t size) {
    memset(&r, 0, sizeof r);
    r.head.type = (uint8_t)type;
    r.head.size = (uint16_t)size;
}

static void test_call(void **state) {
    (void)state;
    size_t size = sizeof r.call + 8 * (size_t)ls_api_info[LS_API_cudaMalloc].field_count;
    begin(LS_REC_CALL, size);
    r.head.api = LS_API_cudaMalloc;
    assert_int_equal(ls_record_check(&r, sizeof r), size);
    assert_int_equal(ls_record_check(&r, size), size);
    assert_int_equal(ls_record_check(&r, size - 1), 0);
    r.head.size = (uint16_t)(size + 8);
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.head.size = (uint16_t)size;
    r.head.api = LS_API_NONE;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.head.api = LS_API_COUNT;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.head.api = LS_API___cudaRegisterFunction; /* has no record */
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
}

/* One word more, and only with the flag. */
static void test_numbered_call(void **state) {
    (void)state;
    size_t size = sizeof r.call + 8 * (size_t)ls_api_info[LS_API_cudaMalloc].field_count;
    begin(LS_REC_CALL, size + 8);
    r.head.api = LS_API_cudaMalloc;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.head.flags = LS_CALL_CORRELATED | LS_CALL_CUPTI;
    assert_int_equal(ls_record_check(&r, sizeof r), size + 8);
    assert_int_equal(ls_record_check(&r, size), 0);
    r.head.size = (uint16_t)size;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
}

/* The operands come last, and fill the record. */
static void test_call_with_operands(void **state) {
    (void)state;
    unsigned fields = (unsigned)ls_api_info[LS_API_cudaMalloc].field_count;
    for (unsigned numbered = 0; numbered < 2; numbered++) {
        size_t size = sizeof r.call + 8 * (fields + numbered);
        begin(LS_REC_CALL, size + 8 + 2 * sizeof(struct ls_operand));
        r.head.api = LS_API_cudaMalloc;
        assert_int_equal(ls_record_check(&r, sizeof r), 0);
        r.head.flags = (uint8_t)(LS_CALL_OPERANDS | (numbered ? LS_CALL_CORRELATED : 0));
        for (uint64_t count = 0; count < 5; count++) {
            r.call.field[fields + numbered] = count;
            assert_int_equal(ls_record_check(&r, sizeof r), count == 2 ? r.head.size : 0);
        }
        r.call.field[fields + numbered] = UINT64_MAX / sizeof(struct ls_operand) + 3; /* wraps */
        assert_int_equal(ls_record_check(&r, sizeof r), 0);
        r.head.size = (uint16_t)(size + 8); /* a count of none */
        r.call.field[fields + numbered] = 0;
        assert_int_equal(ls_record_check(&r, sizeof r), 0);
        r.head.size = (uint16_t)size; /* no count */
        assert_int_equal(ls_record_check(&r, sizeof r), 0);
    }
}

static void test_shape(void **state) {
    (void)state;
    static const struct {
        int kind;
        unsigned dims, values;
    } good[] = {{LS_SHAPE_TENSOR, 0, 0},       {LS_SHAPE_TENSOR, 4, 8},
                {LS_SHAPE_TENSOR, 8, 16},      {LS_SHAPE_MATRIX, 3, 6},
                {LS_SHAPE_CONVOLUTION, 2, 11}, {LS_SHAPE_POOLING, 3, 10},
                {LS_SHAPE_RNN, 0, 6},          {LS_SHAPE_PRODUCT, 0, LS_PRODUCT_VALUES}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        size_t size = sizeof r.shape + 8 * good[i].values;
        begin(LS_REC_SHAPE, size);
        r.shape.id = 1;
        r.shape.kind = (uint8_t)good[i].kind;
        r.shape.dims = (uint8_t)good[i].dims;
        assert_int_equal(ls_record_check(&r, sizeof r), size);
        r.shape.dtype = LS_DTYPE_COUNT;
        assert_int_equal(ls_record_check(&r, sizeof r), 0);
        r.shape.dtype = LS_DTYPE_COUNT - 1;
        r.shape.id = 0;
        assert_int_equal(ls_record_check(&r, sizeof r), 0);
        r.shape.id = UINT32_MAX;
        assert_int_equal(ls_record_check(&r, sizeof r), size);
        r.shape.dims = LS_SHAPE_DIMS + 1;
        assert_int_equal(ls_record_check(&r, sizeof r), 0);
        r.shape.dims = (uint8_t)good[i].dims;
        r.shape.kind = LS_SHAPE_NONE;
        assert_int_equal(ls_record_check(&r, sizeof r), 0);
        r.shape.kind = LS_SHAPE_KINDS;
        assert_int_equal(ls_record_check(&r, sizeof r), 0);
        r.shape.kind = (uint8_t)good[i].kind;
        r.head.size += 8;
        assert_int_equal(ls_record_check(&r, sizeof r),
                         good[i].kind == LS_SHAPE_RNN ? size + 8 : 0);
    }
    begin(LS_REC_SHAPE, sizeof r.shape - 8); /* cut off in its fields */
    r.shape.id = 1;
    r.shape.kind = LS_SHAPE_TENSOR;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
}

static void test_gpu(void **state) {
    (void)state;
    begin(LS_REC_GPU, sizeof r.gpu);
    for (uint16_t kind = 0; kind <= LS_GPU_KINDS; kind++) {
        r.head.api = kind;
        bool good = kind > LS_GPU_NONE && kind < LS_GPU_KINDS;
        assert_int_equal(ls_record_check(&r, sizeof r), good ? sizeof r.gpu : 0);
    }
    r.head.api = LS_GPU_KERNEL;
    assert_int_equal(ls_record_check(&r, sizeof r.gpu - 8), 0);
    r.head.size += 8;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    begin(LS_REC_GPU_CLOCK, sizeof r.gpu_clock);
    assert_int_equal(ls_record_check(&r, sizeof r), sizeof r.gpu_clock);
    r.head.size -= 8;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    size_t text = offsetof(struct ls_rec_gpu_state, text);
    begin(LS_REC_GPU_STATE, text + 8);
    for (uint32_t s = 0; s <= LS_GPU_STATES; s++) {
        r.gpu_state.state = s;
        bool good = s == LS_GPU_STATE_ON || s == LS_GPU_STATE_OFF;
        assert_int_equal(ls_record_check(&r, sizeof r), good ? text + 8 : 0);
    }
    r.gpu_state.state = LS_GPU_STATE_ON;
    memset(r.gpu_state.text, 'x', 8); /* does not end */
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.head.size = 16; /* cut off in its fields */
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
}

static void test_head(void **state) {
    (void)state;
    begin(LS_REC_PAD, 0);
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.head.size = 8;
    assert_int_equal(ls_record_check(&r, sizeof r), 8);
    assert_int_equal(ls_record_check(&r, 7), 0);
    r.head.size = 12;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    begin(LS_REC_TYPE_COUNT, 16);
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
}

static void test_stack(void **state) {
    (void)state;
    begin(LS_REC_STACK, sizeof r.stack + 16);
    r.stack.id = 1;
    r.stack.depth = 2;
    assert_int_equal(ls_record_check(&r, sizeof r), sizeof r.stack + 16);
    r.stack.depth = 3;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.stack.depth = 2;
    r.stack.id = 0;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
}

static void test_strings_end_inside(void **state) {
    (void)state;
    size_t path = offsetof(struct ls_rec_module, path);
    begin(LS_REC_MODULE, (path + 8 + 7) & ~7u);
    r.module.start = 1;
    r.module.end = 2;
    strcpy(r.module.path, "/a");
    assert_int_not_equal(ls_record_check(&r, sizeof r), 0);
    r.module.build_id_size = 33;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.module.build_id_size = 0;
    memset(r.module.path, 'x', 32);
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    begin(LS_REC_COVERAGE, sizeof r.text + 8);
    memcpy(r.text.text, "a\0b\0c\0", 6);
    assert_int_not_equal(ls_record_check(&r, sizeof r), 0);
    assert_string_equal(ls_record_text(&r.text, 2), "c");
    memcpy(r.text.text, "a\0b\0cccc", 8);
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
}

static void test_python(void **state) {
    (void)state;
    begin(LS_REC_CODE, sizeof r.code + 8);
    memcpy(r.code.text, "f\0a.py\0", 7);
    assert_int_equal(ls_record_check(&r, sizeof r), 0); /* 0 is what is unknown */
    r.code.id = 1;
    assert_int_not_equal(ls_record_check(&r, sizeof r), 0);
    memcpy(r.code.text, "f\0a.pyxx", 8); /* the second does not end */
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    begin(LS_REC_PYTHON, sizeof r.python + 2 * sizeof r.python.frame[0]);
    r.python.id = 1;
    r.python.depth = 2;
    assert_int_not_equal(ls_record_check(&r, sizeof r), 0);
    r.python.depth = 3;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.python.depth = 2;
    r.python.id = 0;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    begin(LS_REC_PYTHON, sizeof r.head + 8);
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
}

static void test_mark(void **state) {
    (void)state;
    size_t text = offsetof(struct ls_rec_mark, text);
    begin(LS_REC_MARK, text + 8);
    assert_int_equal(ls_record_check(&r, sizeof r), 0); /* no kind */
    for (uint32_t kind = LS_MARK_STEP; kind < LS_MARK_KINDS; kind++) {
        r.mark.kind = kind;
        assert_int_equal(ls_record_check(&r, sizeof r), text + 8);
    }
    r.mark.kind = LS_MARK_KINDS;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.mark.kind = LS_MARK_STEP;
    memset(r.mark.text, 'x', 8);
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.head.size = (uint16_t)text; /* no room for a text */
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
}

static void test_census(void **state) {
    (void)state;
    begin(LS_REC_CENSUS, (offsetof(struct ls_rec_census, text) + 8 + 7) & ~7u);
    r.census.census = 1;
    for (uint32_t s = 0; s <= LS_CENSUS_STATES; s++) {
        for (uint32_t reason = 0; reason <= LS_CENSUS_REASONS; reason++) {
            r.census.state = s;
            r.census.reason = reason;
            bool good = s > 0 && s < LS_CENSUS_STATES && reason > 0 && reason < LS_CENSUS_REASONS;
            assert_int_equal(ls_record_check(&r, sizeof r) != 0, good);
        }
    }
    r.census.state = LS_CENSUS_FAILED;
    r.census.reason = LS_CENSUS_OOM;
    assert_int_not_equal(ls_record_check(&r, sizeof r), 0);
    r.census.census = 0;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.census.census = 1;
    memset(r.census.text, 'x', 16); /* does not end */
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.head.size = 32; /* cut off in its fields */
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    begin(LS_REC_STORAGE, sizeof r.storage);
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.storage.census = r.storage.id = 1;
    assert_int_equal(ls_record_check(&r, sizeof r), sizeof r.storage);
    r.head.size += 8;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
}

static void test_tensor(void **state) {
    (void)state;
    begin(LS_REC_TENSOR, sizeof r.tensor + 32 + 16); /* two sizes, two strides, 16 bytes of texts */
    r.tensor.census = r.tensor.storage = 1;
    r.tensor.dims = 2;
    r.tensor.paths = 3;
    r.tensor.paths_told = 2;
    memcpy(&r.tensor.shape[4], "half\0T\0a.b\0c[0]", 16);
    assert_int_equal(ls_record_check(&r, sizeof r), sizeof r.tensor + 48);
    r.tensor.paths_told = 3; /* one more than there are */
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.tensor.paths_told = UINT32_MAX;
    r.tensor.paths = UINT32_MAX;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.tensor.paths_told = 2;
    r.tensor.paths = 1; /* fewer than are told */
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.tensor.paths = 3;
    r.tensor.dims = LS_TENSOR_DIMS; /* would lie outside of it */
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.tensor.dims = UINT32_MAX;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.tensor.dims = 2;
    r.tensor.storage = 0;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.tensor.storage = 1;
    r.tensor.census = 0;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
    r.tensor.census = 1;
    assert_int_not_equal(ls_record_check(&r, sizeof r), 0);
    r.head.size = sizeof r.tensor - 8;
    assert_int_equal(ls_record_check(&r, sizeof r), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call),   cmocka_unit_test(test_head),
        cmocka_unit_test(test_stack),  cmocka_unit_test(test_strings_end_inside),
        cmocka_unit_test(test_python), cmocka_unit_test(test_mark),
        cmocka_unit_test(test_census), cmocka_unit_test(test_tensor),
        cmocka_unit_test(test_gpu),    cmocka_unit_test(test_numbered_call),
        cmocka_unit_test(test_shape),  cmocka_unit_test(test_call_with_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
