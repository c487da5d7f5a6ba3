/*
 * test_python_lines.c - lines of instructions from CPython's three forms of line tables, by hand.
 * tests/python compares them with the interpreters' own answers for their whole library.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "preload/python_lines.h"

#define LINE(format, table, first, at)                                                             \
    ls_python_line(LS_PYTHON_LINES_##format, table, sizeof table, first, at)

static void test_lnotab_goes_by_steps(void **state) {
    (void)state;
    /* Lines 5, 6 from address 4 on, 8 from 10 on. */
    const uint8_t table[] = {0, 0, 4, 1, 6, 2};
    assert_int_equal(LINE(LNOTAB, table, 5, -1), 5);
    assert_int_equal(LINE(LNOTAB, table, 5, 0), 5);
    assert_int_equal(LINE(LNOTAB, table, 5, 3), 5);
    assert_int_equal(LINE(LNOTAB, table, 5, 4), 6);
    assert_int_equal(LINE(LNOTAB, table, 5, 9), 6);
    assert_int_equal(LINE(LNOTAB, table, 5, 10), 8);
    assert_int_equal(LINE(LNOTAB, table, 5, 100000), 8);
}

static void test_lnotab_takes_large_and_backward_steps(void **state) {
    (void)state;
    /* 300 bytes on, in two steps; 200 lines on, in two; then 3 lines back. */
    const uint8_t table[] = {255, 0, 45, 127, 0, 73, 2, 253};
    assert_int_equal(LINE(LNOTAB, table, 10, 299), 10);
    assert_int_equal(LINE(LNOTAB, table, 10, 300), 210);
    assert_int_equal(LINE(LNOTAB, table, 10, 302), 207);
}

static void test_ranges_have_ends_and_holes(void **state) {
    (void)state;
    /* [0, 4) line 7, [4, 10) no line, [10, 12) line 9, an empty one, [12, 266) line 4. */
    const uint8_t table[] = {4, 0, 6, 128, 2, 2, 0, 251, 254, 0};
    assert_int_equal(LINE(RANGES, table, 7, -2), 7);
    assert_int_equal(LINE(RANGES, table, 7, 0), 7);
    assert_int_equal(LINE(RANGES, table, 7, 3), 7);
    assert_int_equal(LINE(RANGES, table, 7, 4), 0);
    assert_int_equal(LINE(RANGES, table, 7, 10), 9);
    assert_int_equal(LINE(RANGES, table, 7, 12), 4);
    assert_int_equal(LINE(RANGES, table, 7, 265), 4);
    assert_int_equal(LINE(RANGES, table, 7, 266), 0);
}

#define ENTRY(kind, instructions) (0x80 | (kind) << 3 | ((instructions)-1))

static void test_locations_of_every_kind(void **state) {
    (void)state;
    const uint8_t table[] = {
        ENTRY(3, 2),  0x12,                   /* short, same line: [0, 4) line 20 */
        ENTRY(11, 1), 4,      9,              /* one line on, columns: [4, 6) line 21 */
        ENTRY(12, 8), 4,      9,              /* two lines on: [6, 22) line 23 */
        ENTRY(13, 1), 7,                      /* no columns, three lines back: [22, 24) line 20 */
        ENTRY(15, 1),                         /* no location: [24, 26) */
        ENTRY(14, 1), 64 | 0, 32, 1, 5, 9, 0, /* long: 1024 lines on */
        ENTRY(10, 1), 0,      0,              /* the same line */
    };
    assert_int_equal(LINE(LOCATIONS, table, 20, -2), 20);
    assert_int_equal(LINE(LOCATIONS, table, 20, 0), 20);
    assert_int_equal(LINE(LOCATIONS, table, 20, 2), 20);
    assert_int_equal(LINE(LOCATIONS, table, 20, 4), 21);
    assert_int_equal(LINE(LOCATIONS, table, 20, 6), 23);
    assert_int_equal(LINE(LOCATIONS, table, 20, 20), 23);
    assert_int_equal(LINE(LOCATIONS, table, 20, 22), 20);
    assert_int_equal(LINE(LOCATIONS, table, 20, 24), 0);
    assert_int_equal(LINE(LOCATIONS, table, 20, 26), 20 + (32 << 6) / 2);
    assert_int_equal(LINE(LOCATIONS, table, 20, 28), 20 + (32 << 6) / 2);
    assert_int_equal(LINE(LOCATIONS, table, 20, 30), 0);
}

/* Each prefix of a table, and tables of every byte: some line or none, never a read outside. */
static void test_damage_is_harmless(void **state) {
    (void)state;
    uint8_t table[64];
    for (unsigned fill = 0; fill < 256; fill++) {
        for (unsigned size = 0; size <= sizeof table; size++) {
            for (unsigned i = 0; i < size; i++)
                table[i] = (uint8_t)(fill + i * (fill & 7));
            for (int format = LS_PYTHON_LINES_LNOTAB; format <= LS_PYTHON_LINES_LOCATIONS; format++)
                for (int64_t at = -1; at < 4096; at = at * 3 + 5) {
                    uint32_t line =
                        ls_python_line((enum ls_python_lines)format, table + 64 - size, 0, 1, at);
                    assert_true(line <= 1);
                    line = ls_python_line((enum ls_python_lines)format, table, size, 1, at);
                    assert_true(line <= INT32_MAX);
                }
        }
    }
}

static void test_no_table_no_line(void **state) {
    (void)state;
    assert_int_equal(ls_python_line(LS_PYTHON_LINES_LNOTAB, NULL, 0, 3, 0), 3);
    assert_int_equal(ls_python_line(LS_PYTHON_LINES_RANGES, NULL, 0, 3, 0), 0);
    assert_int_equal(ls_python_line(LS_PYTHON_LINES_LOCATIONS, NULL, 0, 3, 0), 0);
    assert_int_equal(ls_python_line(LS_PYTHON_LINES_LOCATIONS, NULL, 0, -3, -1), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lnotab_goes_by_steps),
        cmocka_unit_test(test_lnotab_takes_large_and_backward_steps),
        cmocka_unit_test(test_ranges_have_ends_and_holes),
        cmocka_unit_test(test_locations_of_every_kind),
        cmocka_unit_test(test_damage_is_harmless),
        cmocka_unit_test(test_no_table_no_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
