/*
 * test_seen_bytes.c - the hash of bytes that were seen before is that of the bytes that are there.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "seen_bytes.h"

static unsigned hashed;

static uint64_t hash_of(const char *bytes, size_t size) {
    uint64_t hash = size;
    hashed++;
    for (size_t i = 0; i < size; i++)
        hash = hash * 31 + (unsigned char)bytes[i];
    return hash;
}

static uint64_t anew(const char *bytes, size_t size) {
    return ls_seen_hash(NULL, bytes, size, hash_of);
}

static void equal_bytes_are_hashed_once(void **state) {
    (void)state;
    struct ls_seen_bytes *seen = ls_seen_bytes_new();
    char bytes[500] = "a line table";
    assert_non_null(seen);
    uint64_t first = ls_seen_hash(seen, bytes, sizeof bytes, hash_of);
    hashed = 0;
    assert_int_equal(ls_seen_hash(seen, bytes, sizeof bytes, hash_of), first);
    assert_int_equal(hashed, 0);
    assert_int_equal(first, anew(bytes, sizeof bytes));
}

static void any_byte_that_changes_counts(void **state) {
    (void)state;
    struct ls_seen_bytes *seen = ls_seen_bytes_new();
    char bytes[LS_SEEN_MOST] = "";
    ls_seen_hash(seen, bytes, sizeof bytes, hash_of);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)(1 + i % 100);
        assert_int_equal(ls_seen_hash(seen, bytes, sizeof bytes, hash_of),
                         anew(bytes, sizeof bytes));
    }
}

/* At the same address, of all sizes, those too small and too large to be kept among them. */
static void so_does_the_size(void **state) {
    (void)state;
    struct ls_seen_bytes *seen = ls_seen_bytes_new();
    char bytes[LS_SEEN_MOST + 100] = "";
    for (size_t size = 0; size <= sizeof bytes; size++)
        for (int again = 0; again < 2; again++)
            assert_int_equal(ls_seen_hash(seen, bytes, size, hash_of), anew(bytes, size));
}

/* More than there are places for: they take turns in one, and each gives its own. */
static void those_that_share_a_place_are_told_apart(void **state) {
    (void)state;
    struct ls_seen_bytes *seen = ls_seen_bytes_new();
    enum { TABLES = 1000, SIZE = 64 };
    static char bytes[TABLES][SIZE];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < TABLES; i++) {
            bytes[i][7] = (char)(i + round);
            bytes[i][SIZE - 1] = (char)(i / 200);
            assert_int_equal(ls_seen_hash(seen, bytes[i], SIZE, hash_of), anew(bytes[i], SIZE));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_bytes_are_hashed_once),
        cmocka_unit_test(any_byte_that_changes_counts),
        cmocka_unit_test(so_does_the_size),
        cmocka_unit_test(those_that_share_a_place_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
