/*
 * test_merge.c - the order in which records come out of the threads' chunks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "merge.h"
#include "spool_maker.h"

static struct ls_spool *spool;
static struct ls_progress progress[LS_CHUNK_MAX];

static void open_spool(const struct maker *maker) {
    char why[200];
    memset(progress, 0, sizeof progress);
    spool = calloc(1, sizeof *spool);
    assert_non_null(spool);
    assert_int_equal(ls_spool_open(spool, maker->spool, why, sizeof why), LS_SPOOL_OK);
}

static void close_spool(void) {
    ls_spool_close(spool);
    free(spool);
}

/* Drain to `limit` (after MADE_START); calls as their end ticks, other records as their type with
 * a minus sign, joined by blanks. */
static const char *drained(uint64_t limit) {
    static char text[4096];
    char *p = text;
    uint32_t thread;
    const struct ls_record *record;
    struct ls_merge *merge =
        ls_merge_begin(spool, progress, limit == UINT64_MAX ? limit : MADE_START + limit);
    *p = 0;
    while ((record = ls_merge_next(merge, &thread))) {
        const struct ls_rec_call *call = (const struct ls_rec_call *)record;
        if (record->type == LS_REC_CALL)
            p += sprintf(p, "%llu ",
                         (unsigned long long)(call->start + call->duration - MADE_START));
        else
            p += sprintf(p, "-%d ", record->type);
        assert_true(p < text + sizeof text - 32);
    }
    ls_merge_end(merge);
    for (uint32_t i = 0; i < LS_CHUNK_MAX; i++)
        if (progress[i].hand_back) {
            ls_spool_free_chunk(spool, i);
            progress[i].hand_back = false;
        }
    if (p > text)
        p[-1] = 0;
    return text;
}

static void call(struct maker *maker, unsigned thread, uint64_t end) {
    maker_call(maker, thread, cudaDeviceSynchronize, end - 1, end, 0);
}

static void test_by_completion(void **state) {
    (void)state;
    struct maker maker;
    maker_open(&maker, false);
    call(&maker, 1, 10);
    call(&maker, 2, 5);
    call(&maker, 1, 30);
    call(&maker, 2, 20);
    call(&maker, 3, 25);
    open_spool(&maker);
    assert_string_equal(drained(UINT64_MAX), "-4 -4 -4 5 10 20 25 30");
    assert_string_equal(drained(UINT64_MAX), "");
    close_spool();
    maker_close(&maker);
}

/* Calls after the limit wait; other records at the head of a stream do not. */
static void test_limit(void **state) {
    (void)state;
    struct maker maker;
    maker_open(&maker, false);
    call(&maker, 1, 10);
    call(&maker, 1, 40);
    maker_kernel(&maker, 1, 1, "k");
    call(&maker, 2, 35);
    open_spool(&maker);
    assert_string_equal(drained(20), "-4 -4 10");
    assert_string_equal(drained(30), "");
    maker_kernel(&maker, 3, 2, "k");
    assert_string_equal(drained(40), "-4 -5 35 40 -5");
    close_spool();
    maker_close(&maker);
}

/* A thread's chunks in order of sequence, whatever slots they lie in; handed back when done. */
static void test_chunks_of_a_thread(void **state) {
    (void)state;
    struct maker maker;
    maker_open(&maker, false);
    call(&maker, 2, 1);
    call(&maker, 1, 10);
    maker_seal(&maker, 1);
    maker_seal(&maker, 2);
    open_spool(&maker);
    assert_string_equal(drained(15), "-4 -4 1 10");
    assert_int_equal(maker.slot[0].state, LS_CHUNK_FREE);
    assert_int_equal(maker.slot[1].state, LS_CHUNK_FREE);
    call(&maker, 2, 20); /* slot 0 */
    call(&maker, 1, 30); /* slot 1 */
    maker_seal(&maker, 1);
    maker_seal(&maker, 2);
    call(&maker, 2, 21);
    call(&maker, 1, 31);
    assert_string_equal(drained(25), "20 21");
    assert_int_equal(maker.slot[0].state, LS_CHUNK_FREE);
    assert_int_equal(maker.slot[1].state, LS_CHUNK_SEALED);
    call(&maker, 1, 32);
    assert_string_equal(drained(100), "30 31 32");
    close_spool();
    maker_close(&maker);
}

/* The chunk after one that was not sealed in the snapshot waits: the first may have grown. */
static void test_unsealed_predecessor(void **state) {
    (void)state;
    struct maker maker;
    maker_open(&maker, false);
    call(&maker, 1, 10);
    uint32_t first = maker.thread[1].chunk->slot;
    maker_seal(&maker, 1);
    maker_kernel(&maker, 1, 1, "k");
    maker.slot[first].state = LS_CHUNK_ACTIVE;
    open_spool(&maker);
    assert_string_equal(drained(50), "-4 10");
    maker.slot[first].state = LS_CHUNK_SEALED;
    assert_string_equal(drained(50), "-5");
    close_spool();
    maker_close(&maker);
}

static void test_many_threads(void **state) {
    (void)state;
    struct maker maker;
    unsigned seed = 3;
    uint64_t now[MADE_THREADS] = {0}, last = 0;
    uint32_t thread;
    const struct ls_record *record;
    int calls = 0;
    maker_open(&maker, false);
    for (int i = 0; i < 60000; i++) {
        unsigned t = 1 + (unsigned)rand_r(&seed) % (MADE_THREADS - 1);
        now[t] += 1 + (unsigned)rand_r(&seed) % 1000;
        call(&maker, t, now[t]);
    }
    open_spool(&maker);
    struct ls_merge *merge = ls_merge_begin(spool, progress, UINT64_MAX);
    while ((record = ls_merge_next(merge, &thread))) {
        const struct ls_rec_call *c = (const struct ls_rec_call *)record;
        if (record->type != LS_REC_CALL)
            continue;
        assert_true(c->start + c->duration >= last);
        last = c->start + c->duration;
        calls++;
    }
    assert_int_equal(calls, 60000);
    assert_int_equal(ls_merge_damage(merge), 0);
    assert_false(ls_merge_checksum_failed(merge));
    ls_merge_end(merge);
    close_spool();
    maker_close(&maker);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_completion),      cmocka_unit_test(test_limit),
        cmocka_unit_test(test_chunks_of_a_thread), cmocka_unit_test(test_unsealed_predecessor),
        cmocka_unit_test(test_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
