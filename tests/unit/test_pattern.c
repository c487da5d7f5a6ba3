/*
 * test_pattern.c - names of traces (common/pattern.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/pattern.h"

static const struct ls_pattern_values values = {
    .pid = 4321, .host = "box", .rank = "3", .program = "/usr/bin/train"};

static void expect(const char *pattern, const char *result) {
    char out[64];
    assert_int_equal(ls_pattern_expand(out, sizeof out, pattern, &values), 0);
    assert_string_equal(out, result);
}

static void expands_each_letter(void **state) {
    (void)state;
    expect("plain.db", "plain.db");
    expect("/a/%p.%h.%r.%n.db", "/a/4321.box.3.train.db");
    expect("100%%.db", "100%.db");
    expect("%%p%p%%", "%p4321%");
    expect(LS_PATTERN_DEFAULT, "layoutspy.4321.db");
}

static void refuses_bad_patterns(void **state) {
    (void)state;
    char out[64];
    assert_int_equal(ls_pattern_expand(out, sizeof out, "a%", &values), LS_PATTERN_TRAILING);
    assert_int_equal(ls_pattern_expand(out, sizeof out, "", &values), LS_PATTERN_EMPTY);
    assert_int_equal(ls_pattern_expand(out, sizeof out, "dir/", &values), LS_PATTERN_EMPTY);
    int code = ls_pattern_expand(out, sizeof out, "a%qb", &values);
    assert_true(code <= LS_PATTERN_UNKNOWN);
    assert_int_equal(ls_pattern_unknown_letter(code), 'q');
    code = ls_pattern_expand(out, sizeof out, "%\xff", &values);
    assert_int_equal((unsigned char)ls_pattern_unknown_letter(code), 0xff);
    assert_int_equal(ls_pattern_unknown_letter(LS_PATTERN_EMPTY), 0);
}

static void fits_or_says_so(void **state) {
    (void)state;
    char out[10];
    memset(out, 'x', sizeof out);
    assert_int_equal(ls_pattern_expand(out, 8, "1234567", &values), 0);
    assert_string_equal(out, "1234567");
    assert_int_equal(out[8], 'x');
    assert_int_equal(ls_pattern_expand(out, 8, "12345678", &values), LS_PATTERN_TOO_LONG);
    assert_int_equal(ls_pattern_expand(out, 8, "12345%p", &values), LS_PATTERN_TOO_LONG);
    assert_int_equal(out[8], 'x');
    assert_int_equal(ls_pattern_expand(out, 0, "a", &values), LS_PATTERN_TOO_LONG);
    assert_int_equal(ls_pattern_expand(NULL, 8, "1234567", &values), 0);
    assert_int_equal(ls_pattern_expand(NULL, 8, "12345678", &values), LS_PATTERN_TOO_LONG);
}

static void values_stay_one_name(void **state) {
    (void)state;
    char out[64];
    const struct ls_pattern_values odd = {.pid = 0, .host = "", .rank = "../x", .program = NULL};
    assert_int_equal(ls_pattern_expand(out, sizeof out, "%h.%r.%n.%p", &odd), 0);
    assert_string_equal(out, "unknown..._x.unknown.0");
}

static void finds_the_rank(void **state) {
    (void)state;
    char *none[] = {"PATH=/bin", "XRANK=5", NULL};
    char *slurm[] = {"SLURM_PROCID=7", NULL};
    char *empty[] = {"PMI_RANK=", "SLURM_PROCID=2", NULL};
    char *torchrun[] = {"SLURM_PROCID=1", "LOCAL_RANK=2", "RANK=10", NULL};
    char *stale[] = {"RANK=0", "OMPI_COMM_WORLD_RANK=4", NULL};
    assert_string_equal(ls_pattern_rank(none), "0");
    assert_string_equal(ls_pattern_rank(NULL), "0");
    assert_string_equal(ls_pattern_rank(slurm), "7");
    assert_string_equal(ls_pattern_rank(empty), "2");
    assert_string_equal(ls_pattern_rank(torchrun), "10");
    assert_string_equal(ls_pattern_rank(stale), "4");
}

static void inserts_numbers(void **state) {
    (void)state;
    static const char *const pairs[][2] = {{"t.db", "t.7.db"},
                                           {"a.b/t", "a.b/t.7"},
                                           {"/x/.hidden", "/x/.hidden.7"},
                                           {"a.b.db", "a.b.7.db"}};
    char out[32];
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        assert_int_equal(ls_pattern_insert(out, sizeof out, pairs[i][0], 7), 0);
        assert_string_equal(out, pairs[i][1]);
    }
    assert_int_equal(ls_pattern_insert(out, 6, "t.db", 7), LS_PATTERN_TOO_LONG);
}

static void escaped_is_what_it_was(void **state) {
    (void)state;
    char pattern[64], out[64];
    assert_int_equal(ls_pattern_escape(pattern, sizeof pattern, "/a%p/100%%.db"), 0);
    assert_int_equal(ls_pattern_expand(out, sizeof out, pattern, &values), 0);
    assert_string_equal(out, "/a%p/100%%.db");
    assert_int_equal(ls_pattern_escape(pattern, 3, "a%"), LS_PATTERN_TOO_LONG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(expands_each_letter),    cmocka_unit_test(refuses_bad_patterns),
        cmocka_unit_test(fits_or_says_so),        cmocka_unit_test(values_stay_one_name),
        cmocka_unit_test(finds_the_rank),         cmocka_unit_test(inserts_numbers),
        cmocka_unit_test(escaped_is_what_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
