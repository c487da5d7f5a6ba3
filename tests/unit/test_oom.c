/*
 * test_oom.c - requests for device memory that fail, and what their threads then do.
 */
#include "oom_courses.h"

/* ---- PyTorch's allocator ---- */

COURSE(gives_up) {
    segment(0x10000000, 100 * MIB); /* 20 */
    segment(0x20000000, 50 * MIB);
    report(C10, 0x20000000, -50 * (int64_t)MIB); /* 50 */
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 202 * MIB);
    CALL(1, cudaDeviceSynchronize, C10, 0, 0);
    flush(C10, 0x20000000, 50 * MIB);
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 202 * MIB);
    CALL(1, cudaMemGetInfo, 0, 0, 70 * MIB, 1000 * MIB); /* 100 */
    give_up(C10, 201 * MIB);
    CALL(1, cudaMemGetInfo, 0, 0, 71 * MIB, 1000 * MIB);
}
TESTS(gives_up, "allocator 201/202 of 100/100 free 70 x2 at 110 flushed 1:50 in 4 waited 4",
      "1:202 3:- 2:50 1:202 4:70 6:201")

COURSE(stalls) {
    segment(0x10000000, 100 * MIB);
    segment(0x20000000, 50 * MIB);
    report(C10, 0x20000000, -50 * (int64_t)MIB);
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 202 * MIB); /* 60 */
    flush(C10, 0x20000000, 50 * MIB);
    segment(0x30000000, 202 * MIB);
    report(C10, 0x30000000, -202 * (int64_t)MIB);
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 400 * MIB); /* 110: another */
    CALL(1, cudaMemset, USER, 0, 0x10000000, 0, 4);
}
TESTS(stalls,
      "driver got 202/202 of 100/150 free - x1 at 60 flushed 1:50 in 4 waited 0; "
      "driver 400/400 of 100/302 free - x1 at 110 flushed 0:0 in 0 waited 0",
      "1:202 2:50 5:202 1:400")

/* What the allocator wanted lies in what became free while it waited. */
COURSE(finds_it) {
    segment(0x10000000, 100 * MIB);
    CALL(1, cudaEventRecord, C10, 0, 0xe0, 0x77);
    report(C10, 0x10000000, -100 * (int64_t)MIB); /* 40 */
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 80 * MIB);
    CALL(1, cudaEventSynchronize, C10, 0, 0xe0);
    report(C10, 0x10000000, 79 * (int64_t)MIB);
}
TESTS(finds_it, "driver got 79/80 of 0/100 free - x1 at 50 flushed 0:0 in 0 waited 4",
      "1:80 3:- 5:79")

/* A block of another call into the allocator is not the wanted one. */
COURSE(finds_another) {
    segment(0x10000000, 100 * MIB);
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 80 * MIB);
    report(C10_ELSEWHERE, 0x11000000, 512);
    CALL(1, cudaMalloc, C10, 0, 0x40000000, 80 * MIB);
}
TESTS(finds_another, "driver 80/80 of 100/100 free - x1 at 30 flushed 0:0 in 0 waited 0", "1:80")

/* A limit that the program set: the driver is not asked, but the cache is given back. */
COURSE(limited) {
    segment(0x10000000, 100 * MIB);
    segment(0x20000000, 50 * MIB);
    report(C10, 0x20000000, -50 * (int64_t)MIB); /* 50 */
    CALL(1, cudaDeviceSynchronize, C10_ELSEWHERE, 0, 0);
    flush(C10, 0x20000000, 50 * MIB);
    CALL(1, cudaMemGetInfo, 0, 0, 800 * MIB, 1000 * MIB);
    give_up(C10, 201 * MIB);
    CALL(1, cudaMemGetInfo, 0, 0, 800 * MIB, 1000 * MIB);
    CALL(1, cudaEventRecord, USER, 0, 0xe0, 0x77);
    give_up(C10, 300 * MIB); /* 120 */
}
TESTS(limited,
      "allocator 201/- of 100/100 free 800 x0 at 90 flushed 1:50 in 4 waited 0; "
      "allocator 300/- of 100/100 free - x0 at 120 flushed 0:0 in 0 waited 0",
      "2:50 4:800 6:201 6:300")

/* Piece by piece: 40 of 60 MiB, give back 40, then all of it. Each call to the driver is 10 ns. */
COURSE(expands) {
    CALL(1, cuMemAddressReserve, C10, 0, 0x4000000000, 1024 * MIB);
    pieces(1, 2, 0x4000000000); /* 20 to 50 */
    reserved = 40 * (int64_t)MIB;
    report(C10, 0x4000000000, 40 * (int64_t)MIB);
    report(C10, 0x4000000000, -40 * (int64_t)MIB); /* 70 */
    pieces(10, 2, 0);
    CALL(1, cuMemCreate, C10, NO_MEMORY, 0, 20 * MIB, 0); /* 100 */
    CALL(1, cuMemRelease, C10, 0, 10);
    CALL(1, cuMemRelease, C10, 0, 11);
    CALL(1, cuMemUnmap, C10, 0, 0x4000000000, 40 * MIB);
    CALL(1, cuMemRelease, C10, 0, 1);
    CALL(1, cuMemRelease, C10, 0, 2);
    pieces(20, 1, 0);
    CALL(1, cuMemCreate, C10, NO_MEMORY, 0, 20 * MIB, 0);
    CALL(1, cuMemRelease, C10, 0, 20);
    pieces(30, 3, 0x4000000000);
    reserved = 60 * (int64_t)MIB;
    report(C10, 0x4000000000, 59 * (int64_t)MIB);
    pieces(40, 1, 0);
    CALL(1, cuMemCreate, C10, NO_MEMORY, 0, 20 * MIB, 0); /* 270 */
    give_up(C10, 100 * MIB);
}
TESTS(expands,
      "driver got 59/60 of 0/40 free - x2 at 100 flushed 1:40 in 12 waited 0; "
      "allocator 100/40 of 59/60 free - x1 at 280 flushed 0:0 in 0 waited 0",
      "1:20 2:40 1:20 5:60 1:20 6:100")

/* Neither of these is asked twice: the program has the exception after each. */
COURSE(uncached) {
    CALL(1, cudaMallocAsync, C10, 0, 0x10000000, 10 * MIB, 0);
    CALL(1, cudaMallocAsync, C10, NO_MEMORY, 0, 100 * MIB, 0);
    CALL(1, cudaMemGetInfo, 0, 0, 9 * MIB, 100 * MIB);
    CALL(1, cudaMallocAsync, C10, NO_MEMORY, 0, 100 * MIB, 0); /* 40 */
    CALL(1, cudaFreeAsync, C10, 0, 0x10000000, 0);
    CALL(1, cudaMallocAsync, C10, 0, 0x10000000, 100 * MIB, 0);
    CALL(1, cudaMalloc, C10, 0, 0x90000000, MIB);
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 100 * MIB); /* 80 */
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 100 * MIB);
}
TESTS(uncached,
      "driver 100/100 of 10/- free 9 x1 at 20 flushed 0:0 in 0 waited 0; "
      "driver 100/100 of 10/- free - x1 at 40 flushed 0:0 in 0 waited 0; "
      "driver 100/100 of 101/- free - x1 at 80 flushed 0:0 in 0 waited 0; "
      "driver 100/100 of 101/- free - x1 at 90 flushed 0:0 in 0 waited 0",
      "1:100 4:9 1:100 1:100 1:100")

/* ---- programs of their own ---- */

COURSE(own_retry) {
    CALL(1, cudaMalloc, USER, 0, 0x10000000, 30 * MIB);
    CALL(1, cudaHostAlloc, USER, 0, 0x70000000, MIB, 0);
    CALL(1, cudaMalloc, USER, NO_MEMORY, 0, 50 * MIB); /* 30 */
    CALL(1, cudaHostAlloc, USER, NO_MEMORY, 0, 50 * MIB, 0);
    CALL(1, cudaFreeHost, USER, 0, 0x70000000);
    CALL(2, cudaMemset, USER, 0, 0x10000000, 0, 4); /* another thread */
    CALL(1, cudaEventQuery, 0, 600, 0xe0);
    CALL(1, cudaStreamSynchronize, USER_ELSEWHERE, 0, 0);
    CALL(1, cudaFree, USER_ELSEWHERE, 0, 0x10000000);
    CALL(1, cudaMalloc, USER_ELSEWHERE, 0, 0x10000000, 50 * MIB);
    CALL(1, cudaFree, USER, 0, 0x10000000);
}
TESTS(own_retry, "driver got 50/50 of 30/- free - x1 at 30 flushed 1:30 in 4 waited 4",
      "1:50 3:- 2:30 5:50")

/* Less and less from one place is one request; less from another, and more, are others. */
COURSE(others) {
    CALL(1, cudaMalloc, USER, NO_MEMORY, 0, 400 * MIB);
    CALL(1, cudaMalloc, USER, NO_MEMORY, 0, 200 * MIB);
    CALL(1, cudaMalloc, USER_ELSEWHERE, NO_MEMORY, 0, 100 * MIB); /* 30 */
    CALL(1, cudaMalloc, USER_ELSEWHERE, NO_MEMORY, 0, 300 * MIB);
    CALL(1, cudaMalloc, USER_ELSEWHERE, 0, 0x10000000, 100 * MIB);
    CALL(1, cudaMalloc, USER_ELSEWHERE, 0, 0x20000000, 300 * MIB);
    CALL(2, cudaMalloc, USER, NO_MEMORY, 0, 400 * MIB); /* 70 */
    ON(1, 2, cudaMalloc, USER, 0, 0x30000000, 400 * MIB);
}
TESTS(others,
      "driver 400/400 of 0/- free - x2 at 10 flushed 0:0 in 0 waited 0; "
      "driver 100/100 of 0/- free - x1 at 30 flushed 0:0 in 0 waited 0; "
      "driver 300/300 of 0/- free - x1 at 40 flushed 0:0 in 0 waited 0; "
      "driver 400/400 of 400/- free - x1 at 70 flushed 0:0 in 0 waited 0",
      "1:400 1:200 1:100 1:300 1:400")

/* Two threads at once, each with its own; a report belongs to the thread that makes it. */
COURSE(two_threads) {
    segment(0x10000000, 100 * MIB);
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 202 * MIB);
    CALL(2, cudaMalloc, USER, NO_MEMORY, 0, 300 * MIB);
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 202 * MIB);
    CALL(2, cudaFree, USER, 0, 0x66000000);
    give_up(C10, 201 * MIB); /* 70 */
    CALL(2, cudaMalloc, USER, 0, 0x50000000, 300 * MIB);
}
TESTS(two_threads,
      "driver got 300/300 of 100/100 free - x1 at 40 flushed 0:0 in 0 waited 0; "
      "allocator 201/202 of 100/100 free - x2 at 70 flushed 0:0 in 0 waited 0",
      "1:202 1:300 1:202 6:201 5:300")

/* The runtime's inner calls are recorded too; they are one request. */
COURSE(passed_on) {
    now = 100;
    maker_call_flags(&maker, 1, LS_API_cudaMalloc, 102, 104, NO_MEMORY, USER, LS_CALL_NESTED, 0, 0,
                     (const uint64_t[LS_FIELD_MAX]){0, 4 * MIB});
    maker_call_flags(&maker, 1, LS_API_cudaMallocPitch, 100, 106, NO_MEMORY, USER, 0, 0, 0,
                     (const uint64_t[LS_FIELD_MAX]){0, 0, 0, 2 * MIB, 2});
    CALL(1, cudaMallocPitch, USER, NO_MEMORY, 0, 0, 0, 2 * MIB, 2);
}
TESTS(passed_on, "driver 4/4 of 0/- free - x2 at 102 flushed 0:0 in 0 waited 0", "1:4 1:4")

static void test_owner(void **state) {
    (void)state;
    begin(true);
    CALL(1, cudaMalloc, NCCL, NO_MEMORY, 0, 400 * MIB);
    CALL(1, cudaMemset, USER, 0, 0x10000000, 0, 4);
    CALL(1, cudaMalloc, USER, NO_MEMORY, 0, 400 * MIB);
    CALL(1, cudaMemset, USER, 0, 0x10000000, 0, 4);
    CALL(1, cudaMalloc, BEHIND_RUNTIME, NO_MEMORY, 0, 400 * MIB);
    CALL(1, cudaMemset, USER, 0, 0x10000000, 0, 4);
    CALL(1, cudaMalloc, NCCL, NO_MEMORY, 0, 400 * MIB); /* its stack is settled by now */
    CALL(1, cudaMemset, USER, 0, 0x10000000, 0, 4);
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 400 * MIB);
    maker.header->image++;
    assert_int_equal(maker_collect(&maker), LS_EXIT_OK);
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(IFNULL(owner,'-')) FROM "
                                          "(SELECT owner FROM oom ORDER BY id)"),
                        "NCCL,-,NCCL,NCCL,-");
    maker_close(&maker);
}

/* What there was of pending and cached memory, and the moments with their largest holes. */
static void test_moments(void **state) {
    (void)state;
    begin(false);
    segment(0x10000000, 100 * MIB);
    segment(0x20000000, 50 * MIB);
    CALL(1, cudaEventRecord, C10, 0, 0xe0, 0x77);
    report(C10, 0x10000000, -100 * (int64_t)MIB);
    report(C10, 0x10000000 + 60 * MIB, 10 * (int64_t)MIB); /* the event is not over: damage */
    report(C10, 0x20000000, -50 * (int64_t)MIB);
    CALL(1, cudaMalloc, C10, NO_MEMORY, 0, 202 * MIB); /* 90 */
    give_up(C10, 201 * MIB);
    maker.header->image++;
    assert_int_equal(maker_collect(&maker), LS_EXIT_OK);
    assert_string_equal(maker_ask(&maker, "SELECT (allocated>>20)||' '||(pending>>20)||' '||"
                                          "(cached>>20)||' '||(largest_hole>>20) FROM oom"),
                        "10 100 40 50");
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(kind||' at '||ts_ns||': '||"
                                          "(allocated>>20)||' '||(reserved>>20)) FROM moment"),
                        "1 at 40: 150 150,2 at 30: 100 150,3 at 100: 10 150,4 at 104: 10 150");
    maker_close(&maker);
}

/* Only what changes; the block that was lent; the stream that the handle had. */
static void test_handles(void **state) {
    (void)state;
    for (int after_each = 0; after_each < 2; after_each++) {
        begin(after_each);
        segment(0x10000000, 8 * MIB); /* calls 1 and 2 */
        CALL(1, cublasCreate_v2, USER, 0, 0xc0);
        CALL(1, cublasSetStream_v2, USER, 0, 0xc0, 0x11);
        CALL(1, cublasSetWorkspace_v2, USER, 0, 0xc0, 0x10000000, 8 * MIB);
        CALL(1, cublasSetStream_v2, USER, 0, 0xc0, 0x11);
        CALL(1, cublasSetWorkspace_v2, USER, 0, 0xc0, 0x10000000, 8 * MIB);
        CALL(1, cublasSetStream_v2, USER, 0, 0xc0, 0x12);
        CALL(1, cublasSetWorkspace_v2, USER, 1, 0xc0, 0x30000000, 1);
        CALL(1, cublasSetWorkspace_v2, USER, 0, 0xc0, 0x10000200, MIB); /* in the middle */
        CALL(1, cublasDestroy_v2, USER, 0, 0xc0);
        CALL(1, cublasCreate_v2, USER, 0, 0xc0);
        CALL(1, cublasSetStream_v2, USER, 0, 0xc0, 0x12);
        maker.header->image++;
        assert_int_equal(maker_collect(&maker), LS_EXIT_OK);
        assert_string_equal(
            maker_ask(&maker, "SELECT group_concat(id||' '||library||' '||kind||' '||"
                              "IFNULL(stream,'-')||' '||IFNULL(size>>20,'-')||' '||"
                              "IFNULL(block,'-'),'; ') FROM library_handle"),
            "3 cublas 1 - - -; 4 cublas 3 17 - -; 5 cublas 4 17 8 2; 8 cublas 3 18 - -; "
            "10 cublas 4 18 1 -; 11 cublas 2 18 - -; 12 cublas 1 - - -; 13 cublas 3 18 - -");
        maker_close(&maker);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gives_up),  cmocka_unit_test(test_stalls),
        cmocka_unit_test(test_finds_it),  cmocka_unit_test(test_finds_another),
        cmocka_unit_test(test_limited),   cmocka_unit_test(test_expands),
        cmocka_unit_test(test_uncached),  cmocka_unit_test(test_own_retry),
        cmocka_unit_test(test_others),    cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_passed_on), cmocka_unit_test(test_owner),
        cmocka_unit_test(test_moments),   cmocka_unit_test(test_handles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
