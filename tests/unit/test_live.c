/*
 * test_live.c - lifetimes by address, against a plain list.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdlib.h>

#include <cmocka.h>

#include "live.h"

static struct ls_life *add(struct ls_live *live, uint64_t address, uint64_t size, int64_t start,
                           int64_t born) {
    struct ls_life *life = calloc(1, sizeof *life);
    assert_non_null(life);
    life->address = address;
    life->size = size;
    life->start_ns = start;
    life->born_ns = born;
    life->kind = LS_MEMORY_DEVICE;
    assert_true(ls_live_add(live, life));
    return life;
}

static void test_interior(void **state) {
    (void)state;
    struct ls_live live = {0};
    struct ls_life *a = add(&live, 1000, 100, 0, 1), *b = add(&live, 1200, 8, 0, 1);
    assert_ptr_equal(ls_live_find(&live, 1000), a);
    assert_ptr_equal(ls_live_find(&live, 1099), a);
    assert_null(ls_live_find(&live, 1100));
    assert_null(ls_live_find(&live, 999));
    assert_ptr_equal(ls_live_find(&live, 1207), b);
    ls_live_destroy(&live);
}

/* An old one whose free was not seen must not hide, nor be hidden by, newer ones inside it. */
static void test_overlap(void **state) {
    (void)state;
    struct ls_live live = {0};
    struct ls_life *old = add(&live, 0x1000, 0x1000, 0, 1), *new = add(&live, 0x1100, 0x10, 5, 6);
    assert_ptr_equal(ls_live_find(&live, 0x1108), new);
    assert_ptr_equal(ls_live_find(&live, 0x1200), old);
    assert_ptr_equal(ls_live_find(&live, 0x1fff), old);
    ls_live_destroy(&live);
}

/* The address is given out again before the record of the free that made it possible. */
static void test_reuse_across_threads(void **state) {
    (void)state;
    struct ls_live live = {0};
    struct ls_life *first = add(&live, 64, 8, 0, 1);
    struct ls_life *second = add(&live, 64, 8, 20, 30); /* during the free from 10 to 40 */
    assert_ptr_equal(ls_live_end(&live, 64, 10, false), first);
    assert_ptr_equal(ls_live_end(&live, 64, 50, false), second);
    assert_null(ls_live_end(&live, 64, 60, false));
    free(first);
    free(second);
    /* And freed by a third thread, whose record comes before the first free's, too. */
    first = add(&live, 64, 8, 0, 1);
    second = add(&live, 64, 8, 20, 30);
    assert_ptr_equal(ls_live_end(&live, 64, 35, false), second);
    assert_ptr_equal(ls_live_end(&live, 64, 10, false), first);
    free(first);
    free(second);
    assert_int_equal(live.count, 0);
    ls_live_destroy(&live);
}

/* Frees that are never seen must not pile lifetimes up at an address for ever. */
static void test_crowd(void **state) {
    (void)state;
    struct ls_live live = {0};
    struct ls_life *first = NULL;
    assert_null(ls_live_uncrowd(&live, 64));
    for (int i = 0; i < LS_LIVE_CROWD; i++) {
        struct ls_life *life = add(&live, 64, 8, i, i);
        first = first ? first : life;
        assert_null(ls_live_uncrowd(&live, 64));
    }
    struct ls_life *newest = add(&live, 64, 8, 100, 100);
    assert_ptr_equal(ls_live_uncrowd(&live, 64), first);
    assert_int_equal(live.count, LS_LIVE_CROWD);
    assert_null(ls_live_uncrowd(&live, 64));
    assert_ptr_equal(ls_live_find(&live, 64), newest);
    free(first);
    ls_live_destroy(&live);
}

static void test_registration_is_apart(void **state) {
    (void)state;
    struct ls_live live = {0};
    struct ls_life *life = add(&live, 64, 8, 0, 1);
    life->kind = LS_MEMORY_REGISTERED;
    assert_null(ls_live_end(&live, 64, 5, false));
    assert_ptr_equal(ls_live_end(&live, 64, 5, true), life);
    free(life);
    ls_live_destroy(&live);
}

#define SLOTS 512
static void test_random_against_list(void **state) {
    (void)state;
    struct ls_live live = {0};
    struct ls_life *list[SLOTS] = {0};
    unsigned seed = 7;
    for (int step = 0; step < 50000; step++) {
        unsigned i = (unsigned)rand_r(&seed) % SLOTS;
        uint64_t address = 0x10000 + i * 256;
        if (list[i]) {
            assert_ptr_equal(ls_live_end(&live, address, step, false), list[i]);
            free(list[i]);
            list[i] = NULL;
        } else {
            list[i] = add(&live, address, 1 + (unsigned)rand_r(&seed) % 256, step, step);
        }
        unsigned probe = (unsigned)rand_r(&seed) % (SLOTS * 256);
        struct ls_life *want = list[probe / 256];
        if (want && probe % 256 >= want->size)
            want = NULL;
        assert_ptr_equal(ls_live_find(&live, 0x10000 + probe), want);
    }
    ls_live_destroy(&live);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interior),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_reuse_across_threads),
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_registration_is_apart),
        cmocka_unit_test(test_random_against_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
