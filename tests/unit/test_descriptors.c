/*
 * test_descriptors.c - words by descriptors' addresses, and the blocks and lists of cuDNN's graph
 * API: many at once, gone and come again, in several threads, and when there is no room.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "preload/cudnn_graph.h"
#include "preload/cudnn_node.h"
#include "preload/descriptors.h"

#define AT(i) ((const void *)(uintptr_t)(0x7f0000000000 + 16 * (uint64_t)(i)))
#define WORD(i) LS_DESCRIBED(LS_DESCRIBED_SHAPE, (i) + 1)

static void test_nothing_is_known_of_null(void **state) {
    (void)state;
    ls_descriptor_put(NULL, WORD(1));
    assert_int_equal(ls_descriptor(NULL), 0);
    assert_int_equal(ls_descriptor_take(NULL), 0);
}

static void test_many_at_once(void **state) {
    (void)state;
    enum { MANY = 200000 };
    for (uint64_t i = 0; i < MANY; i++)
        ls_descriptor_put(AT(i), WORD(i));
    for (uint64_t i = 0; i < MANY; i++)
        assert_int_equal(ls_descriptor(AT(i)), WORD(i));
    for (uint64_t i = 0; i < MANY; i += 2)
        assert_int_equal(ls_descriptor_take(AT(i)), WORD(i));
    for (uint64_t i = 0; i < MANY; i++)
        assert_int_equal(ls_descriptor(AT(i)), i % 2 ? WORD(i) : 0);
    for (uint64_t i = 0; i < MANY; i++)
        ls_descriptor_put(AT(i), i % 3 ? WORD(2 * i) : 0);
    for (uint64_t i = 0; i < MANY; i++)
        assert_int_equal(ls_descriptor(AT(i)), i % 3 ? WORD(2 * i) : 0);
    for (uint64_t i = 0; i < MANY; i++)
        ls_descriptor_put(AT(i), 0);
}

static _Atomic int wrong;

/* Each thread's descriptors are its own, made and destroyed again and again. */
static void *busy(void *number) {
    uint64_t base = 1000000 * ((uint64_t)(uintptr_t)number + 1);
    for (uint64_t round = 0; round < 200; round++) {
        for (uint64_t i = 0; i < 400; i++)
            ls_descriptor_put(AT(base + i), WORD(base + round + i));
        for (uint64_t i = 0; i < 400; i++)
            wrong += ls_descriptor(AT(base + i)) != WORD(base + round + i);
        for (uint64_t i = 0; i < 400; i++)
            wrong += ls_descriptor_take(AT(base + i)) != WORD(base + round + i);
        for (uint64_t i = 0; i < 400; i++) {
            uint32_t one = ls_cudnn_block_take(LS_CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
            struct ls_cudnn_block *block = ls_cudnn_block(one);
            block->pack.workspace = base + i;
            wrong += block->pack.uids != 0 || block->pack.workspace != base + i;
            ls_cudnn_block_give(one);
        }
    }
    return NULL;
}

static void test_threads(void **state) {
    (void)state;
    pthread_t thread[4];
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, busy, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(wrong, 0);
}

static void test_lists_are_kept_by_content(void **state) {
    (void)state;
    struct ls_cudnn_item items[3] = {{.uid = 1, .shape = 5, .role = 2}, {.uid = 2}, {.uid = 3}};
    const struct ls_cudnn_item *kept;
    uint32_t three = ls_cudnn_list_number(items, 3), none = ls_cudnn_list_number(items, 0);
    assert_int_not_equal(three, 0);
    assert_int_not_equal(none, 0);
    assert_int_not_equal(ls_cudnn_list_number(items, 2), three);
    assert_int_equal(ls_cudnn_list_number(items, 3), three);
    items[0].role = 3;
    assert_int_not_equal(ls_cudnn_list_number(items, 3), three);
    assert_int_equal(ls_cudnn_list(three, &kept), 3);
    assert_int_equal(kept[0].role, 2);
    assert_int_equal(ls_cudnn_list(none, &kept), 0);
    assert_int_equal(ls_cudnn_list(0, &kept), 0);
    assert_int_equal(ls_cudnn_list(1u << 31, &kept), 0);
    assert_int_equal(ls_cudnn_list_number(items, LS_CUDNN_ITEMS + 1), LS_CUDNN_LIST_NO_ROOM);
}

/* More descriptors at once than there are blocks: the last ones are not known, and harm nothing. */
static void test_no_room(void **state) {
    (void)state;
    enum { MANY = 20000 };
    static void *descriptor[MANY];
    const int64_t uid = 7;
    for (uint64_t i = 0; i < MANY; i++) {
        descriptor[i] = (void *)(uintptr_t)AT(5000000 + i);
        ls_cudnn_created(0, LS_CUDNN_BACKEND_TENSOR_DESCRIPTOR, &descriptor[i]);
        ls_cudnn_set(0, descriptor[i], LS_CUDNN_ATTR_TENSOR_UNIQUE_ID, LS_CUDNN_TYPE_INT64, 1,
                     &uid);
    }
    ls_cudnn_finalized(0, descriptor[0]);
    ls_cudnn_finalized(0, descriptor[MANY - 1]);
    assert_int_not_equal(ls_cudnn_list_of(descriptor[0]), 0);
    assert_int_equal(ls_cudnn_list_of(descriptor[MANY - 1]), LS_CUDNN_LIST_NO_ROOM);
    for (int i = 0; i < MANY; i++)
        ls_cudnn_destroyed(0, descriptor[i], ls_cudnn_destroying(descriptor[i]));
    ls_cudnn_created(0, LS_CUDNN_BACKEND_TENSOR_DESCRIPTOR, &descriptor[5]);
    ls_cudnn_finalized(0, descriptor[5]);
    assert_int_not_equal(ls_cudnn_list_of(descriptor[5]), 0);
}

/* One that could not be destroyed is known as before; one that is made new in its place starts
 * anew. */
static void test_it_stays_and_starts_anew(void **state) {
    (void)state;
    void *tensor = (void *)(uintptr_t)AT(9000000);
    const struct ls_cudnn_item *item;
    int64_t uid = 41;
    ls_cudnn_created(0, LS_CUDNN_BACKEND_TENSOR_DESCRIPTOR, &tensor);
    ls_cudnn_set(0, tensor, LS_CUDNN_ATTR_TENSOR_UNIQUE_ID, LS_CUDNN_TYPE_INT64, 1, &uid);
    ls_cudnn_finalized(0, tensor);
    ls_cudnn_destroyed(2000, tensor, ls_cudnn_destroying(tensor));
    assert_int_equal(ls_cudnn_list(ls_cudnn_list_of(tensor), &item), 1);
    assert_int_equal(item->uid, 41);
    ls_cudnn_set(0, tensor, LS_CUDNN_ATTR_TENSOR_IS_VIRTUAL, LS_CUDNN_TYPE_BOOLEAN, 1, &(char){1});
    assert_int_equal(ls_cudnn_list_of(tensor), 0);
    ls_cudnn_finalized(0, tensor);
    assert_int_equal(ls_cudnn_list(ls_cudnn_list_of(tensor), &item), 1);
    assert_int_equal(item->uid, 0);
    assert_int_equal(item->flags, LS_CUDNN_VIRTUAL);
    ls_cudnn_destroyed(0, tensor, ls_cudnn_destroying(tensor));
    assert_int_equal(ls_cudnn_word(tensor), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_known_of_null),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_lists_are_kept_by_content),
        cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_it_stays_and_starts_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
