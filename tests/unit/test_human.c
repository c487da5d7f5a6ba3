/*
 * test_human.c - sizes, times and counts as a person reads them (analyzer/human.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "human.h"

static struct ls_human h;

static void bytes(void **state) {
    (void)state;
    assert_string_equal(ls_human_bytes(&h, 0), "0 bytes");
    assert_string_equal(ls_human_bytes(&h, 1), "1 byte");
    assert_string_equal(ls_human_bytes(&h, 1023), "1023 bytes");
    assert_string_equal(ls_human_bytes(&h, 1024), "1.00 KiB");
    assert_string_equal(ls_human_bytes(&h, 1023 * 1024), "1.00 MiB");
    assert_string_equal(ls_human_bytes(&h, 20 << 20), "20.0 MiB");
    assert_string_equal(ls_human_bytes(&h, INT64_C(11643387904)), "10.8 GiB");
    assert_string_equal(ls_human_bytes(&h, -5), "-5 bytes");
    assert_string_equal(ls_human_bytes(&h, INT64_MAX), "8.00 EiB");
}

static void times(void **state) {
    (void)state;
    assert_string_equal(ls_human_ns(&h, 999), "999 ns");
    assert_string_equal(ls_human_ns(&h, 1000), "1.00 us");
    assert_string_equal(ls_human_ns(&h, 999600), "1.00 ms");
    assert_string_equal(ls_human_ns(&h, 67000000), "67.0 ms");
    assert_string_equal(ls_human_ns(&h, INT64_C(119000000000)), "119 s");
    assert_string_equal(ls_human_ns(&h, INT64_C(200000000000)), "3 min 20 s");
    assert_string_equal(ls_human_ns(&h, INT64_C(7260000000000)), "2 h 1 min");
}

static void counts_and_shares(void **state) {
    (void)state;
    assert_string_equal(ls_human_count(&h, 0), "0");
    assert_string_equal(ls_human_count(&h, 999), "999");
    assert_string_equal(ls_human_count(&h, 1000), "1,000");
    assert_string_equal(ls_human_count(&h, -1234567), "-1,234,567");
    assert_string_equal(ls_human_count(&h, INT64_MIN), "-9,223,372,036,854,775,808");
    assert_string_equal(ls_human_share(&h, 0.042), "4.2 %");
    assert_string_equal(ls_human_share(&h, 0.5), "50 %");
    assert_string_equal(ls_human_share(&h, 0), "0.0 %");
    assert_string_equal(ls_human_share(&h, 1e-5), "less than 0.1 %");
    assert_string_equal(ls_plural(1, "copy", "copies"), "copy");
    assert_string_equal(ls_plural(0, "copy", "copies"), "copies");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes), cmocka_unit_test(times),
                                       cmocka_unit_test(counts_and_shares)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
