/*
 * test_detect_round_trip.c - the `round-trip` detector: which pairs of copies carry the same data,
 * which of them nobody knows about, and that pageable-copy leaves out what was told.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "detect/detect.h"
#include "made_trace.h"

enum {
    H2D = LS_DIRECTION_H2D,
    D2H = LS_DIRECTION_D2H,
    PAGEABLE = LS_SIDE_PAGEABLE,
    PINNED = LS_SIDE_PINNED
};

#define MIB (INT64_C(1) << 20)
#define HOST INT64_C(0x7f0000000000)
#define DEVICE INT64_C(0x7e0000000000)
#define US INT64_C(1000)

static struct ls_trace trace;
static int64_t there, back;

static int open_it(void **state) {
    (void)state;
    made_open(&trace, "exit", 1000 * MS);
    made_call(&trace, "cudaSetDevice", 0);
    there = made_stack(&trace, "a.c:4 step", NULL);
    back = made_stack(&trace, "a.c:9 step", NULL);
    return 0;
}

static int close_it(void **state) {
    (void)state;
    made_close(&trace);
    return 0;
}

/* A copy between host and device at these addresses. */
static void copy(int direction, int side, const char *api, int64_t host, int64_t bytes,
                 int64_t start, int64_t blocked) {
    char sql[256];
    made_copy(&trace, direction, side, api, bytes, start, blocked, direction == D2H ? there : back);
    snprintf(
        sql, sizeof sql,
        "UPDATE copy SET dst = %lld, src = %lld, device = 0 WHERE id = (SELECT MAX(id) FROM copy)",
        (long long)(direction == D2H ? host : DEVICE),
        (long long)(direction == D2H ? DEVICE : host));
    made_sql(&trace, sql);
}

/* A call of the class that is told by its name alone, over at `end`. */
static void sync_until(int64_t end) {
    made_call(&trace, "cudaStreamSynchronize", end - 1000);
    made_sql(&trace, "UPDATE api SET class = 'sync' WHERE name = 'cudaStreamSynchronize'");
}

static void steps(int count, int64_t each) {
    char sql[160];
    for (int i = 0; i < count; i++) {
        snprintf(sql, sizeof sql, "INSERT INTO step(loop, start_ns, end_ns) VALUES(1, %lld, %lld)",
                 (long long)(i * each), (long long)((i + 1) * each));
        made_sql(&trace, sql);
    }
}

/* Ten times 16 MiB: the host would need 168 us to write them. */
static void ten(int64_t between, int64_t shift, int side, const char *api) {
    for (int i = 0; i < 10; i++) {
        int64_t start = i * 95 * MS + MS;
        copy(D2H, side, api, HOST, 16 * MIB, start, 2 * MS);
        copy(H2D, side, api, HOST + shift, 16 * MIB - shift, start + 2 * MS + between, 2 * MS);
    }
}

static void straight_back_is_the_same_data(void **state) {
    (void)state;
    ten(100 * US, 0, PAGEABLE, "cudaMemcpy");
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "round-trip"), 1);
    assert_string_equal(made_finding(&trace, 1, "kind"), "round-trip");
    assert_string_equal(made_finding(&trace, 1, "site"), "a.c:4 step");
    assert_int_equal(made_finding_number(&trace, 1, "count"), 10);
    assert_int_equal(made_finding_number(&trace, 1, "bytes"), 2 * 160 * MIB);
    assert_int_equal(made_finding_number(&trace, 1, "gain_ns"), 40 * MS);
    made_expect_text(&trace, 1, "title", "in 10 round trips");
    made_expect_text(&trace, 1, "evidence", "\"same_data_known\":true");
    made_expect_text(&trace, 1, "evidence", "\"back_site\":\"a.c:9 step\"");
    made_expect_text(&trace, 1, "evidence", "\"longest_between_ns\":100000");
    assert_int_equal(made_count(&trace, "SELECT severity = 'warning' FROM finding"), 1);
    /* And pageable-copy does not tell the same bytes again. */
    assert_int_equal(made_count(&trace, "SELECT COUNT(*) FROM finding"), 1);
}

static void with_time_to_write_nobody_knows(void **state) {
    (void)state;
    steps(11, 95 * MS);
    ten(200 * US, 0, PAGEABLE, "cudaMemcpy");
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "round-trip"), 1);
    assert_int_equal(made_count(&trace, "SELECT COUNT(*) FROM finding WHERE kind = 'round-trip' AND"
                                        " severity = 'info' AND gain_ns = 0 AND title LIKE"
                                        " '%not known%' AND evidence LIKE '%_known\":false%'"),
                     1);
    assert_int_equal(
        made_count(&trace, "SELECT SUM(count) FROM finding WHERE kind = 'pageable-copy'"), 20);
}

static void over_steps_it_is_not_even_noted(void **state) {
    (void)state;
    steps(1000, MS);
    ten(200 * US, 0, PAGEABLE, "cudaMemcpy");
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "round-trip"), 0);
}

/* A file that is mapped where a pageable buffer was would not begin at the same byte. */
static void a_part_is_known_in_page_locked_memory_only(void **state) {
    (void)state;
    ten(100 * US, 4096, PAGEABLE, "cudaMemcpy");
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "round-trip"), 0);
    made_sql(&trace, "UPDATE copy SET src_kind = 2 WHERE direction = 1;"
                     "UPDATE copy SET dst_kind = 2 WHERE direction = 2");
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "round-trip"), 1);
}

/* As PyTorch does after each copy to pageable memory. */
static void the_thread_waits_at_once(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        int64_t start = i * 95 * MS + MS;
        copy(D2H, PAGEABLE, "cudaMemcpyAsync", HOST, 16 * MIB, start, 2 * MS);
        sync_until(start + 4 * MS);
        copy(H2D, PAGEABLE, "cudaMemcpyAsync", HOST, 16 * MIB, start + 4 * MS + 9 * US, 2 * MS);
    }
    made_sql(&trace, "UPDATE call SET thread = 1");
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "round-trip"), 1);
    made_expect_text(&trace, 1, "evidence", "\"longest_between_ns\":9000");
}

/* From asynchronous copies time runs once somebody has waited. */
static void page_locked_and_asynchronous(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        int64_t start = i * 95 * MS + MS;
        copy(D2H, PINNED, "cudaMemcpyAsync", HOST, 16 * MIB, start, 5 * US);
        sync_until(start + 900 * US);
        copy(H2D, PINNED, "cudaMemcpyAsync", HOST, 16 * MIB, start + 950 * US, 5 * US);
    }
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "round-trip"), 1);
    made_expect_text(&trace, 1, "evidence", "\"pinned\":true");
    /* By the bus's speed: 16 MiB at 22 bytes a ns, twice. */
    assert_in_range(made_finding_number(&trace, 1, "gain_ns"), 15 * MS, 16 * MS);
    made_sql(&trace, "UPDATE call SET start_ns = start_ns - 200000 WHERE api ="
                     " (SELECT id FROM api WHERE name = 'cudaStreamSynchronize')");
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "round-trip"), 0);
}

static void a_function_of_the_host_in_the_streams_order(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        int64_t start = i * 95 * MS + MS;
        copy(D2H, PINNED, "cudaMemcpyAsync", HOST, 16 * MIB, start, 5 * US);
        made_call(&trace, "cudaLaunchHostFunc", start + 6 * US);
        copy(H2D, PINNED, "cudaMemcpyAsync", HOST, 16 * MIB, start + 8 * US, 5 * US);
    }
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "round-trip"), 0);
}

static void what_was_written_over_does_not_come_back(void **state) {
    (void)state;
    copy(D2H, PAGEABLE, "cudaMemcpy", HOST, 16 * MIB, 900 * MS, 2 * MS);
    made_sql(&trace, "INSERT INTO copy(id, start_ns, direction, src_kind, dst_kind, bytes, api,"
                     " blocked_ns, status, dst, src) SELECT MAX(id) + 1, 902000000, 4, 1, 1, 8192,"
                     " 1, 10, 0, 139637976727552 + 65536, 64 FROM copy;"
                     "INSERT INTO call(id, start_ns, duration_ns, api, status, flags) SELECT"
                     " MAX(id) + 1, 902000000, 10, 1, 0, 0 FROM call");
    copy(H2D, PAGEABLE, "cudaMemcpy", HOST, 16 * MIB, 902 * MS + 50 * US, 2 * MS);
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "round-trip"), 0);
}

/* Sent again later, and read again: not the same trip. */
static void once_back_it_is_over(void **state) {
    (void)state;
    copy(D2H, PAGEABLE, "cudaMemcpy", HOST, 16 * MIB, 900 * MS, 2 * MS);
    for (int i = 0; i < 4; i++)
        copy(H2D, PAGEABLE, "cudaMemcpy", HOST, 16 * MIB, 902 * MS + 10 * US + i, 1);
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "round-trip"), 1);
    assert_int_equal(made_count(&trace, "SELECT count FROM finding WHERE kind = 'round-trip'"), 1);
}

static void to_another_device(void **state) {
    (void)state;
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 16 * MIB, 1, MADE_LIVE, 0);
    made_sql(&trace, "UPDATE allocation SET address = 138538465099776, device = 1;"
                     "INSERT INTO call(start_ns, duration_ns, api, status, flags, device)"
                     " VALUES(5, 5, 1, 0, 0, 1), (6, 5, 1, 0, 0, 0)");
    copy(D2H, PAGEABLE, "cudaMemcpy", HOST, 16 * MIB, 900 * MS, 2 * MS);
    made_sql(&trace, "UPDATE copy SET src = 64"); /* of no recorded memory: the thread's device */
    copy(H2D, PAGEABLE, "cudaMemcpy", HOST, 16 * MIB, 902 * MS + 10 * US, 2 * MS);
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "round-trip"), 1);
    made_expect_text(&trace, 1, "title", "straight back to another device");
    made_expect_text(&trace, 1, "advice", "cudaMemcpyPeerAsync");
}

static void a_buffer_that_a_loader_fills_again(void **state) {
    (void)state;
    steps(95, 10 * MS);
    for (int i = 0; i < 90; i++) {
        copy(D2H, PAGEABLE, "cudaMemcpy", HOST, 64, i * 10 * MS, 20 * US);
        copy(H2D, PAGEABLE, "cudaMemcpy", HOST, 16 * MIB, i * 10 * MS + 5 * MS, 2 * MS);
    }
    assert_int_equal(made_detect_kind(&trace, 999 * MS, "round-trip"), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_it, close_it)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(straight_back_is_the_same_data),
        TEST(with_time_to_write_nobody_knows),
        TEST(over_steps_it_is_not_even_noted),
        TEST(a_part_is_known_in_page_locked_memory_only),
        TEST(the_thread_waits_at_once),
        TEST(page_locked_and_asynchronous),
        TEST(a_function_of_the_host_in_the_streams_order),
        TEST(what_was_written_over_does_not_come_back),
        TEST(once_back_it_is_over),
        TEST(to_another_device),
        TEST(a_buffer_that_a_loader_fills_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
