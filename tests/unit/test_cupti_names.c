/*
 * test_cupti_names.c - kernel names as numbers: by what is written, and none where nothing can be
 * read.
 */
#include "cupti_fixture.h"

#include <stdio.h>

static void test_names_that_are_none(void **state) {
    (void)state;
    static const char control[] = "a\tb", names_end[] = "ends";
    char *page = page_with_an_end();
    memcpy(page + 4096 - sizeof names_end, names_end, sizeof names_end);
    const char *const none[] = {NULL,
                                (const char *)1,
                                (const char *)4096,
                                (const char *)0xdeadbeef0000,
                                (const char *)0xffffffffff600000,
                                (const char *)0x8000000000000000,
                                page + 4096,
                                "",
                                control};
    ls_self->busy = true;
    struct ls_names_seen *seen = calloc(1, sizeof *seen);
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < sizeof none / sizeof *none; i++)
            assert_int_equal(ls_kernel_told(ls_self, seen, none[i]), 0);
    assert_int_equal(ls_kernel_told(ls_self, seen, page + 4096 - sizeof names_end), 1);
    assert_string_equal(kernel_name[1], "ends");
    page[4095] = 'x'; /* no end any more */
    memset(seen, 0, sizeof *seen);
    assert_int_equal(ls_kernel_told(ls_self, seen, page + 10), 0);
    assert_int_equal(kernels, 1);
    assert_int_equal(header.lost[LS_LOST_KERNELS], 0);
    munmap(page, 8192);
    free(seen);
}

/* The first 64 KiB tell a name from others: read from a record or given by a launch, wherever it
 * lies within its page, and whether or not it ends soon after. */
static void test_long_names(void **state) {
    (void)state;
    enum { MOST = 64 << 10, ROOM = MOST + 3 * 4096 };
    char *map = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    ls_self->busy = true;
    struct ls_names_seen *seen = calloc(1, sizeof *seen);
    for (size_t at = 0; at < 4096; at += 1365) {
        for (long more = -2; more <= 2; more++) {
            memset(map, 'n', ROOM);
            map[at + MOST + (size_t)more] = 0;
            memset(seen, 0, sizeof *seen);
            uint32_t id = ls_kernel_told(ls_self, seen, map + at);
            assert_int_not_equal(id, 0);
            assert_int_equal(ls_kernel_named(ls_self, map + at), id);
        }
    }
    assert_int_equal(kernels, 3); /* two that are shorter, and one */
    memset(map, 'n', ROOM);
    map[ROOM - 1] = 0;
    map[100] = 'm';
    memset(seen, 0, sizeof *seen);
    assert_int_equal(ls_kernel_told(ls_self, seen, map), 4);
    assert_int_equal(ls_kernel_named(ls_self, map), 4);
    munmap(map, ROOM);
    free(seen);
}

/* By what is written there: at another place the same number, another name at the same place
 * another one, as far as a buffer goes. */
static void test_names_by_content(void **state) {
    (void)state;
    char here[32] = "_Z3addv", there[32] = "_Z3addv";
    ls_self->busy = true;
    struct ls_names_seen *seen = calloc(1, sizeof *seen);
    uint32_t add = ls_kernel_told(ls_self, seen, here);
    assert_int_equal(ls_kernel_told(ls_self, seen, there), add);
    assert_int_equal(ls_kernel_named(ls_self, "_Z3addv"), add);
    strcpy(here, "_Z3mulv");
    assert_int_equal(ls_kernel_told(ls_self, seen, here), add); /* seen in this buffer */
    memset(seen, 0, sizeof *seen);
    uint32_t mul = ls_kernel_told(ls_self, seen, here);
    assert_int_not_equal(mul, add);
    assert_int_equal(ls_kernel_named(ls_self, "_Z3mulv"), mul);
    assert_int_equal(kernels, 2);
    free(seen);
}

/* More names than a buffer's memory of them holds. */
static void test_many_names(void **state) {
    (void)state;
    static char name[2000][16];
    ls_self->busy = true;
    struct ls_names_seen *seen = calloc(1, sizeof *seen);
    for (unsigned i = 0; i < 2000; i++)
        snprintf(name[i], sizeof name[i], "kernel%u", i);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < 2000; i++)
            assert_int_equal(ls_kernel_told(ls_self, seen, name[i]), i + 1);
    free(seen);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_names_that_are_none, forget),
        cmocka_unit_test_setup(test_names_by_content, forget),
        cmocka_unit_test_setup(test_long_names, forget),
        cmocka_unit_test_setup(test_many_names, forget),
    };
    return cmocka_run_group_tests(tests, NULL, let_go);
}
