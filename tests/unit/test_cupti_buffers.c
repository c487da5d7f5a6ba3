/*
 * test_cupti_buffers.c - CUPTI's buffers: given out and taken back, by several threads too; those
 * of others; what is lost when there is none left; the pairs of clocks between their records.
 */
#include "cupti_fixture.h"

#include <errno.h>
#include <sched.h>

#define ALL (LS_BUFFERS + LS_SMALL_BUFFERS)

static uint8_t *request_of(size_t wanted) {
    uint8_t *buffer = NULL;
    size_t size = 1, records = 1;
    ls_activity_requested(&buffer, &size, &records);
    assert_int_equal(records, 0);
    assert_int_equal(size, buffer ? wanted : 0);
    assert_int_equal((uintptr_t)buffer % 8, 0);
    return buffer;
}

static uint8_t *request(void) {
    return request_of(LS_BUFFER_SIZE);
}

/* The n-th of all that there are: large ones first. */
static size_t size_of(unsigned n) {
    return n < LS_BUFFERS ? LS_BUFFER_SIZE : LS_SMALL_SIZE;
}

static bool is_zero(const uint8_t *buffer, size_t size) {
    return buffer[0] == 0 && memcmp(buffer, buffer + 1, size - 1) == 0;
}

/* `count` memsets, told apart by their value; returns the valid bytes. */
static size_t fill(uint8_t *at, uint32_t first, uint32_t count) {
    const size_t size = image_types[T_MEMSET].size[V13_0];
    for (uint32_t i = 0; i < count; i++, at += size) {
        begin_image(at, V13_0, T_MEMSET);
        put(at, V13_0, F_MEMSET_value, first + i);
    }
    return count * size;
}

static void complete(uint8_t *buffer, size_t valid) {
    ls_activity_completed(NULL, 0, buffer, LS_BUFFER_SIZE, valid);
}

static void test_records_come_through(void **state) {
    (void)state;
    uint8_t *buffer = request();
    assert_non_null(buffer);
    size_t valid = fill(buffer, 10, 5);
    errno = 77;
    complete(buffer, valid);
    assert_int_equal(errno, 77);
    assert_false(ls_self->busy);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(gpu(i)->value[1], 10 + i);
    assert_null(gpu(5));
    complete(buffer, valid); /* it is not out any more */
    complete(buffer + 8, valid);
    complete(NULL, 0);
    assert_null(gpu(5));
}

/* Every buffer there is; each is used again, and is zeroed then. */
static void test_exhausted(void **state) {
    (void)state;
    enum { EACH_HAS = 10 };
    static uint8_t *buffers[ALL];
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < ALL; i++) {
            buffers[i] = request_of(size_of(i));
            assert_non_null(buffers[i]);
            assert_true(is_zero(buffers[i], size_of(i)));
            for (unsigned k = 0; k < i; k++)
                assert_true(buffers[k] + size_of(k) <= buffers[i] ||
                            buffers[i] + size_of(i) <= buffers[k]);
            fill(buffers[i], i, EACH_HAS);
        }
        assert_null(request());
        assert_null(request());
        assert_int_equal(ls_activity_out(), ALL);
        dropped = round ? 0 : 7; /* CUPTI's own count; where it has none, that of the requests */
        for (unsigned i = 0; i < ALL; i++)
            complete(buffers[i], EACH_HAS * image_types[T_MEMSET].size[V13_0]);
        assert_int_equal(header.lost[LS_LOST_GPU_RECORDS], 7 + 2 * round);
        assert_int_equal(ls_activity_out(), 0);
    }
    assert_non_null(gpu(3 * ALL * EACH_HAS - 1));
    assert_null(gpu(3 * ALL * EACH_HAS));
}

/* CUPTI without a count of what it drops. */
static void test_refused_requests_count(void **state) {
    (void)state;
    static uint8_t *buffers[ALL];
    ls_cupti.cuptiActivityGetNumDroppedRecords = NULL;
    for (unsigned i = 0; i < ALL; i++)
        buffers[i] = request_of(size_of(i));
    for (unsigned i = 0; i < 5; i++)
        assert_null(request());
    for (unsigned i = 0; i < ALL; i++)
        complete(buffers[i], 0);
    assert_int_equal(header.lost[LS_LOST_GPU_RECORDS], 5);
}

/* Versions that a refusal may end: what lies in the buffer that they get then is lost and counted.
 */
static void test_no_refusal_before_12_9(void **state) {
    static uint8_t *buffers[ALL];
    cupti_version = 26;
    forget(state);
    for (unsigned i = 0; i < ALL; i++)
        buffers[i] = request_of(size_of(i));
    uint8_t *scrap = request_of(LS_SMALL_SIZE);
    assert_non_null(scrap);
    assert_ptr_equal(request_of(LS_SMALL_SIZE), scrap);
    complete(scrap, fill(scrap, 0, 12));
    memset(scrap, 0xee, LS_SMALL_SIZE); /* another thread's, over it */
    complete(scrap, LS_SMALL_SIZE + 4096);
    complete(scrap, 0);
    assert_int_equal(header.lost[LS_LOST_GPU_RECORDS], 13);
    assert_null(gpu(0));
    assert_int_equal(ls_activity_out(), ALL);
    for (unsigned i = 0; i < ALL; i++)
        complete(buffers[i], 0);
    cupti_version = 28;
    forget(state);
}

static uint8_t *foreign_buffer;
static unsigned foreign_calls;

static void foreign_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                              size_t valid) {
    assert_ptr_equal(context, &foreign_calls);
    assert_int_equal(stream, 3);
    assert_ptr_equal(buffer, foreign_buffer);
    assert_int_equal(size, 4096);
    assert_int_equal(valid, 88);
    foreign_calls++;
}

static void test_foreign_buffers_go_home(void **state) {
    (void)state;
    foreign_buffer = malloc(4096);
    fill(foreign_buffer, 1, 1);
    ls_activity_completed(&foreign_calls, 3, foreign_buffer, 4096, 88); /* nobody wants it */
    ls_activity_foreign(foreign_completed);
    ls_activity_completed(&foreign_calls, 3, foreign_buffer, 4096, 88);
    assert_int_equal(foreign_calls, 1);
    assert_int_equal(ls_activity_out(), 0); /* these never counted as ours */
    uint8_t *ours = request();
    assert_int_equal(ls_activity_out(), 1);
    complete(ours, fill(ours, 9, 1));
    assert_int_equal(ls_activity_out(), 0);
    assert_int_equal(foreign_calls, 1);
    assert_int_equal(gpu(0)->value[1], 9);
    assert_null(gpu(1));
    free(foreign_buffer);
}

/* The thread cannot write now: what is lost is counted, where there is a recording. */
static void test_nobody_to_write(void **state) {
    (void)state;
    nobody = true;
    uint8_t *buffer = request();
    complete(buffer, fill(buffer, 0, 20));
    assert_int_equal(header.lost[LS_LOST_GPU_RECORDS], 20);
    nobody = false;
    ls_self->busy = true;
    buffer = request();
    complete(buffer, fill(buffer, 0, 3));
    assert_true(ls_self->busy);
    assert_int_equal(header.lost[LS_LOST_GPU_RECORDS], 23);
    live_page.epoch = LS_EPOCH_OFF;
    buffer = request();
    complete(buffer, fill(buffer, 0, 4));
    assert_int_equal(header.lost[LS_LOST_GPU_RECORDS], 23);
    live_page.epoch = 1000;
    assert_null(gpu(0));
}

static void test_reclaimed(void **state) {
    (void)state;
    static uint8_t *buffers[ALL];
    for (unsigned i = 0; i < ALL; i++)
        fill(request_of(size_of(i)), i, 100);
    assert_null(request());
    ls_activity_reclaim();
    for (unsigned i = 0; i < ALL; i++) {
        buffers[i] = request_of(size_of(i));
        assert_non_null(buffers[i]);
        assert_true(is_zero(buffers[i], size_of(i)));
    }
    for (unsigned i = 0; i < ALL; i++)
        complete(buffers[i], 0);
    assert_null(gpu(0));
}

static void test_ignored_kinds_are_told(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        uint8_t *buffer = request();
        begin_image(buffer, V13_0, T_API);
        complete(buffer, image_types[T_API].size[V13_0]);
    }
    assert_int_equal(coverage, 1);
    live_page.epoch++; /* another recording */
    uint8_t *buffer = request();
    complete(buffer, fill(buffer, 0, 1));
    assert_int_equal(coverage, 1);
    buffer = request();
    begin_image(buffer, V13_0, T_API);
    complete(buffer, image_types[T_API].size[V13_0]);
    assert_int_equal(coverage, 2);
    assert_null(gpu(1));
    assert_int_equal(header.lost[LS_LOST_GPU_RECORDS], 0);
}

/* ---- clocks ---- */

static void test_clock_pairs(void **state) {
    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        uint8_t *buffer = request();
        complete(buffer, fill(buffer, i, 1));
    }
    const struct ls_rec_gpu_clock *pair = written(LS_REC_GPU_CLOCK, 0);
    assert_non_null(pair);
    assert_true((const char *)pair < (const char *)gpu(0));
    assert_true(pair->ticks <= ls_ticks() && pair->ticks + 60000000000ull > ls_ticks());
    assert_in_range(pair->gpu_ns, 1, gpu_now);
    struct timespec wait = {.tv_nsec = 11000000};
    nanosleep(&wait, NULL);
    unsigned pairs = 0;
    while (written(LS_REC_GPU_CLOCK, pairs))
        pairs++;
    uint8_t *buffer = request();
    complete(buffer, fill(buffer, 0, 1));
    pair = written(LS_REC_GPU_CLOCK, pairs);
    assert_non_null(pair);
    assert_true((const char *)pair < (const char *)gpu(100));
    ls_self->busy = true;
    ls_gpu_clock(ls_self); /* at once */
    assert_non_null(written(LS_REC_GPU_CLOCK, pairs + 1));
    ls_cupti.cuptiGetTimestamp = NULL;
    ls_gpu_clock(ls_self);
    assert_null(written(LS_REC_GPU_CLOCK, pairs + 2));
}

/* ---- several threads ---- */

#define THREADS 6
#define ROUNDS 400
#define EACH 20

static _Atomic unsigned refusals;
static _Atomic uint64_t sum, count;

static void *ask_and_complete(void *number) {
    uint32_t first = (uint32_t)(uintptr_t)number * ROUNDS * EACH;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint8_t *buffers[3];
        for (unsigned i = 0; i < 3; i++) {
            buffers[i] = request();
            refusals += buffers[i] == NULL;
        }
        if (buffers[0] && *(uint32_t *)(void *)buffers[0] == 0)
            complete(buffers[0], fill(buffers[0], first + round * EACH, EACH));
        if (round % 8 == 0)
            sched_yield();
        for (unsigned i = 1; i < 3; i++)
            complete(buffers[i], 0);
    }
    for (unsigned i = 0; gpu(i) && i < EACH; i++)
        assert_int_equal(gpu(i)->value[1], first + i);
    const char *chunk = (const char *)ls_self->chunk;
    for (uint32_t at = sizeof(struct ls_chunk); at < ls_self->position;) {
        const struct ls_rec_gpu *record = (const void *)(chunk + at);
        at += record->head.size;
        if (record->head.type == LS_REC_GPU) {
            sum += record->value[1];
            count++;
        }
    }
    let_go(NULL);
    return NULL;
}

static void test_several_threads(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_and_complete, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    const uint64_t n = THREADS * ROUNDS * EACH;
    assert_int_equal(refusals, 0);
    assert_int_equal(count, n);
    assert_int_equal(sum, n * (n - 1) / 2);
    assert_int_equal(header.lost[LS_LOST_GPU_RECORDS], 0);
}

static int start(void **state) {
    next_version = V13_0;
    ls_clock_init();
    ls_activity_reclaim();
    return forget(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_records_come_through, start),
        cmocka_unit_test_setup(test_exhausted, start),
        cmocka_unit_test_setup(test_refused_requests_count, start),
        cmocka_unit_test_setup(test_no_refusal_before_12_9, start),
        cmocka_unit_test_setup(test_foreign_buffers_go_home, start),
        cmocka_unit_test_setup(test_nobody_to_write, start),
        cmocka_unit_test_setup(test_reclaimed, start),
        cmocka_unit_test_setup(test_ignored_kinds_are_told, start),
        cmocka_unit_test_setup(test_clock_pairs, start),
        cmocka_unit_test_setup(test_several_threads, start),
    };
    return cmocka_run_group_tests(tests, NULL, let_go);
}
