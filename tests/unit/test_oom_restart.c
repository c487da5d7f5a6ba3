/*
 * test_oom_restart.c - what a collector that takes over must not take for something else: requests
 * for device memory that fail, where what ended them, or not, is in no row of theirs.
 */
#include "oom_courses.h"

/* The allocator found a block: that request is over, the next piece is of another. */
COURSE(block_ends) {
    segment(0x10000000, 100 * MIB);
    CALL(1, cuMemCreate, C10, NO_MEMORY, 0, 20 * MIB, 0); /* 30 */
    CALL(1, cudaEventSynchronize, C10, 0, 0xe0);
    report(C10, 0x11000000, 19 * (int64_t)MIB);
    CALL(1, cuMemCreate, C10, NO_MEMORY, 0, 20 * MIB, 0); /* 60 */
    CALL(1, cudaMemset, USER, 0, 0x10000000, 0, 4);
    CALL(1, cuMemCreate, C10, 0, 9, 20 * MIB, 0);
}
TESTS(block_ends,
      "driver got 19/20 of 100/100 free - x1 at 30 flushed 0:0 in 0 waited 4; "
      "driver 20/20 of 119/100 free - x1 at 60 flushed 0:0 in 0 waited 0",
      "1:20 3:- 5:19 1:20")

/* A free of nothing is no step; the driver's memory that goes with the mapping takes time. */
COURSE(frees_nothing) {
    segment(0x10000000, 100 * MIB);
    CALL(1, cudaDeviceSynchronize, C10, 0, 0);
    CALL(1, cudaFree, C10, 0, 0);
    CALL(1, cudaFree, C10, 0, 0x66000000);
    flush(C10, 0x10000000, 100 * MIB);
    CALL(1, cuMemRelease, C10, 0, 1);
    CALL(1, cudaFree, C10, 0, 0);
    give_up(C10, 201 * MIB); /* 90 */
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 10 * MIB);
    CALL(1, cudaFree, C10, 0, 0);
    CALL(1, cudaMalloc, C10, 0, 0x10000000, 10 * MIB);
}
TESTS(frees_nothing,
      "allocator 201/- of 100/0 free - x0 at 90 flushed 1:100 in 8 waited 4; "
      "driver got 10/10 of 100/0 free - x1 at 100 flushed 0:0 in 0 waited 0",
      "3:- 2:100 6:201 1:10 5:10")

/* The program got the error: what it frees then is its own affair, and reports of later change
 * nothing of that. */
COURSE(final) {
    CALL(1, cudaMalloc, C10, 0, 0x10000000, 10 * MIB);
    CALL(1, cudaMalloc, C10, 0, 0x20000000, 10 * MIB);
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 100 * MIB); /* 30 */
    CALL(1, cudaFree, C10, 0, 0x10000000);
    CALL(1, cudaMalloc, C10, 0, 0x10000000, 100 * MIB);
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 50 * MIB); /* 60 */
    CALL(2, cudaMemset, USER, 0, 0x20000000, 0, 4);
    call(2, REPORT, C10_ELSEWHERE, 0, 0,
         (const uint64_t[LS_FIELD_MAX]){0x20000000, MIB, MIB, 110 * MIB, 0});
    CALL(1, cudaMalloc, C10, 0, 0x30000000, 50 * MIB);
}
TESTS(final,
      "driver 100/100 of 20/- free - x1 at 30 flushed 0:0 in 0 waited 0; "
      "driver 50/50 of 110/- free - x1 at 60 flushed 0:0 in 0 waited 0",
      "1:100 1:50")

/* Not final where what is uncached came after it. */
COURSE(not_final) {
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 100 * MIB); /* 10 */
    CALL(2, cudaMalloc, C10_ELSEWHERE, 0, 0x10000000, 10 * MIB);
    CALL(1, cudaMalloc, C10, 0, 0x20000000, 100 * MIB);
}
TESTS(not_final, "driver got 100/100 of 0/- free - x1 at 10 flushed 0:0 in 0 waited 0",
      "1:100 5:100")

/* The driver gave and memory was freed since: the next piece is of another request. */
COURSE(freed_after) {
    CALL(1, cudaMalloc, USER, 0, 0x10000000, 10 * MIB);
    CALL(1, cuMemCreate, USER, NO_MEMORY, 0, 20 * MIB, 0); /* 20 */
    CALL(1, cuMemCreate, USER, 0, 1, 20 * MIB, 0);
    CALL(1, cudaFree, USER, 0, 0x10000000);
    CALL(1, cuMemCreate, USER, NO_MEMORY, 0, 20 * MIB, 0); /* 50 */
}
TESTS(freed_after,
      "driver got 20/20 of 10/- free - x1 at 20 flushed 0:0 in 0 waited 0; "
      "driver 20/20 of 0/- free - x1 at 50 flushed 0:0 in 0 waited 0",
      "1:20 5:20 1:20")

/* What it got of the request counts to what it asked for. */
COURSE(asks_in_pieces) {
    pieces(1, 1, 0);
    CALL(1, cuMemCreate, C10, NO_MEMORY, 0, 20 * MIB, 0); /* 20 */
    pieces(2, 2, 0);
    CALL(1, cuMemCreate, C10, NO_MEMORY, 0, 20 * MIB, 0);
}
TESTS(asks_in_pieces, "driver 40/60 of 0/- free - x2 at 20 flushed 0:0 in 0 waited 0", "1:20 1:20")

/* A report of damage, which names another device than that of the memory. */
COURSE(other_device) {
    reserved = 100 * (int64_t)MIB;
    ON(1, 1, cudaMalloc, C10, 0, 0x10000000, 100 * MIB);
    report(C10, 0x10000000, 90 * (int64_t)MIB);
    CALL(1, cudaMalloc, USER, NO_MEMORY, 0, 10 * MIB); /* 30 */
}
TESTS(other_device, "driver 10/10 of 90/100 free - x1 at 30 flushed 0:0 in 0 waited 0", "1:10")

/* A census was tied to the row before the allocator gave up, which gave the row another number. */
static void test_census(void **state) {
    (void)state;
    for (int after_each = 0; after_each < 2; after_each++) {
        begin(after_each);
        CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 202 * MIB);
        maker_census(&maker, 2, 1, LS_CENSUS_BEGINS, LS_CENSUS_OOM, 14, 12, "");
        drain();
        assert_int_equal(maker_number(&maker, "SELECT oom FROM census"), 1);
        give_up(C10, 201 * MIB);
        if (!each)
            drain();
        assert_int_equal(maker_number(&maker, "SELECT id FROM oom"), 2);
        assert_int_equal(maker_number(&maker, "SELECT oom FROM census"), 2);
        maker.header->image++;
        assert_int_equal(maker_collect(&maker), LS_EXIT_OK);
        assert_int_equal(maker_number(&maker, "SELECT oom FROM census"), 2);
        maker_close(&maker);
    }
}

/* Impossible sizes and times of a damaged recording wrap, and do no harm. */
COURSE(impossible) {
    for (uint64_t i = 0; i < 4; i++)
        CALL(1, cudaMalloc, C10, 0, (i + 1) << 60, UINT64_MAX >> 1);
    for (int i = 0; i < 2; i++)
        call(1, REPORT, C10, 0, 0,
             (const uint64_t[LS_FIELD_MAX]){UINT64_C(1) << 60, INT64_MAX, (uint64_t)INT64_MIN + 5,
                                            (uint64_t)INT64_MIN + 5, 0});
    CALL(1, cudaMalloc, USER, NO_MEMORY, 0, UINT64_MAX);
    for (uint64_t i = 0; i < 4; i++)
        CALL(1, cudaFree, C10, 0, (i + 1) << 60);
}

static void test_impossible(void **state) {
    (void)state;
    for (int after_each = 0; after_each < 2; after_each++) {
        begin(after_each);
        impossible();
        maker.header->image++;
        assert_int_equal(maker_collect(&maker), LS_EXIT_OK);
        assert_int_equal(maker_number(&maker, "SELECT flushed_calls FROM oom"), 4);
        assert_int_equal(maker_number(&maker, "SELECT flushed_bytes >> 50 FROM oom"), 4);
        maker_close(&maker);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block_ends),   cmocka_unit_test(test_frees_nothing),
        cmocka_unit_test(test_final),        cmocka_unit_test(test_not_final),
        cmocka_unit_test(test_freed_after),  cmocka_unit_test(test_asks_in_pieces),
        cmocka_unit_test(test_other_device), cmocka_unit_test(test_census),
        cmocka_unit_test(test_impossible),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
