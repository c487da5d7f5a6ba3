/*
 * test_setting.c - what the LAYOUTSPY_ variables may be (common/setting.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/setting.h"

#define UNSET 77

static void is(enum ls_setting setting, const char *text, uint64_t want) {
    uint64_t value = UNSET;
    assert_true(ls_setting_parse(setting, text, &value));
    assert_int_equal(value, want);
}

static void is_wrong(enum ls_setting setting, const char *text) {
    uint64_t value = UNSET;
    assert_false(ls_setting_parse(setting, text, &value));
    assert_int_equal(value, UNSET);
}

static void what_is_not_said_is_right(void **state) {
    (void)state;
    for (enum ls_setting i = 0; i < LS_SETTINGS; i++) {
        is(i, NULL, UNSET);
        is(i, "", UNSET);
        is_wrong(i, " ");
        is_wrong(i, "|");
        is_wrong(i, "-1");
        is_wrong(i, "of");
    }
}

static void words_have_their_places(void **state) {
    (void)state;
    is(LS_SETTING_STACKS, "on", 0);
    is(LS_SETTING_STACKS, "1", 0);
    is(LS_SETTING_STACKS, "off", 1);
    is(LS_SETTING_STACKS, "no", 1);
    is(LS_SETTING_STACKS, "0", 1);
    is(LS_SETTING_CUPTI, "auto", 0);
    is(LS_SETTING_CUPTI, "copies", 1);
    is(LS_SETTING_CUPTI, "0", 2);
    is(LS_SETTING_CENSUS, "exit", 1);
    is(LS_SETTING_GRAPHS, "nodes", 1);
    is_wrong(LS_SETTING_CUPTI, "ful");
    is_wrong(LS_SETTING_CUPTI, "full auto");
    is_wrong(LS_SETTING_CUPTI, "full|copies");
    is_wrong(LS_SETTING_GRAPHS, "off");
    is_wrong(LS_SETTING_STACKS, "OFF");
    is(LS_SETTING_NVML, "off", 1);
    is(LS_SETTING_NVML, "/usr/lib/libnvidia-ml.so.1", 2);
    is_wrong(LS_SETTING_NVML, "libnvidia-ml.so.1");
}

static void numbers_are_whole(void **state) {
    (void)state;
    is(LS_SETTING_MEASURE, "1", 1);
    is(LS_SETTING_KERNEL_SAMPLE, "4294967295", UINT32_MAX);
    is(LS_SETTING_KERNEL_ROWS, "0", 0);
    is(LS_SETTING_KERNEL_ROWS, "9223372036854775807", INT64_MAX);
    is_wrong(LS_SETTING_MEASURE, "0");
    is_wrong(LS_SETTING_MEASURE, "2x");
    is_wrong(LS_SETTING_MEASURE, "+2");
    is_wrong(LS_SETTING_KERNEL_SAMPLE, "4294967296");
    is_wrong(LS_SETTING_KERNEL_ROWS, "9223372036854775808");
    is_wrong(LS_SETTING_KERNEL_ROWS, "99999999999999999999999");
}

static void sizes_have_suffixes(void **state) {
    (void)state;
    is(LS_SETTING_SPOOL_MAX, "307200", 307200);
    is(LS_SETTING_SPOOL_MAX, "3k", 3 << 10);
    is(LS_SETTING_SPOOL_MAX, "2T", UINT64_C(2) << 40);
    is_wrong(LS_SETTING_SPOOL_MAX, "0");
    is_wrong(LS_SETTING_SPOOL_MAX, "1GB");
    is_wrong(LS_SETTING_SPOOL_MAX, "16777216T");
}

static void says_what_is_right(void **state) {
    (void)state;
    char name[LS_SETTING_NAME], wrong[LS_SETTING_WRONG];
    ls_setting_name(LS_SETTING_KERNEL_SAMPLE, name);
    assert_string_equal(name, "LAYOUTSPY_KERNEL_SAMPLE");
    ls_setting_wrong(LS_SETTING_CUPTI, "ful", wrong);
    assert_string_equal(wrong, "LAYOUTSPY_CUPTI='ful' is no value of it; give full, copies or off");
    ls_setting_wrong(LS_SETTING_NVML, "x", wrong);
    assert_string_equal(wrong,
                        "LAYOUTSPY_NVML='x' is no value of it; give an absolute path, on or off");
    ls_setting_wrong(LS_SETTING_MEASURE, "none", wrong);
    assert_string_equal(wrong,
                        "LAYOUTSPY_MEASURE='none' is no value of it; give a number from 1 on");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_said_is_right), cmocka_unit_test(words_have_their_places),
        cmocka_unit_test(numbers_are_whole),         cmocka_unit_test(sizes_have_suffixes),
        cmocka_unit_test(says_what_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
