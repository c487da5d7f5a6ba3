/*
 * test_record_check.c - which bytes are a record.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_call),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_stack),
        cmocka_unit_test(test_strings_end_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
