/*
 * Who held a device's memory: lifetimes from the tables, states at moments, peaks, growth.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "made_trace.h"
#include "memory/growth.h"
#include "memory/history.h"

/* Sites of stacks 1 to 3; times are small numbers of ns, sizes of bytes. */
static void open_with(struct ls_trace *trace, struct ls_history *h, int64_t end, const char *sql) {
    made_open(trace, "exit", end);
    made_sql(trace, "INSERT INTO stack_site(id, site) VALUES(1, 'a.py:1 f'), (2, 'b.py:2 g'),"
                    " (3, 'a.py:1 f')");
    made_sql(trace, sql);
    assert_true(ls_history_load(h, trace->db, 0));
}

static void close_with(struct ls_trace *trace, struct ls_history *h) {
    ls_history_free(h);
    made_close(trace);
}

#define SEGMENTS                                                                                   \
    "INSERT INTO allocation(id, start_ns, end_ns, kind, device, address, size, stack, start_call," \
    " holder) VALUES "
#define BLOCKS                                                                                     \
    "INSERT INTO block(id, start_ns, end_ns, free_ns, device, address, size, stack, free_stack,"   \
    " end_call, thread) VALUES "

/* A native segment of 1000 bytes at 5000, from 10 on; blocks a [0, 100), b [200, 500) that is
 * pending from 40 to 60, c [500, 550) from 50 on in b's stead. */
static const char native[] = SEGMENTS
    "(1, 10, NULL, 1, 0, 5000, 1000, 2, 1, 3), (2, 11, 70, 1, 0, 9000, 64, 2, 2, 1),"
    " (3, 12, NULL, 4, 0, 400, 64, 2, 3, 1), (4, 12, NULL, 1, 1, 5000, 64, 2, 3, 3);" BLOCKS
    "(10, 20, NULL, NULL, 0, 5000, 100, 1, NULL, NULL, 7),"
    "(11, 30, 40, 60, 0, 5200, 300, 2, 3, 15, 7),"
    "(12, 50, NULL, NULL, 0, 5500, 50, 3, NULL, NULL, 7)";

static void test_native_segment(void **state) {
    struct ls_trace trace;
    struct ls_history h;
    struct ls_state s;
    (void)state;
    open_with(&trace, &h, 100, native);
    assert_true(h.framework);
    assert_int_equal(h.end_ns, 100);
    assert_int_equal(h.spans, 3);
    assert_int_equal(h.segments, 1);
    assert_int_equal(h.directs, 1); /* neither pinned memory nor another device's */
    assert_int_equal(h.direct[0].end_ns, 70);
    assert_int_equal(h.span[0].end_ns, LS_NEVER);
    assert_int_equal(h.span[0].free_ns, LS_NEVER);
    assert_int_equal(h.span[1].free_ns, 60);
    assert_int_equal(h.span[1].end_call, 15);
    assert_int_equal(h.span[1].thread, 7);
    assert_int_equal(h.span[1].segment, 0);
    /* one text, one number, whatever the stack */
    assert_int_equal(h.span[0].site, h.span[2].site);
    assert_int_equal(h.span[0].site, h.span[1].free_site);
    assert_string_equal(ls_history_site(&h, h.span[1].site), "b.py:2 g");
    assert_string_equal(ls_history_site(&h, 0), "site unknown");
    assert_int_equal(ls_history_site_count(&h), 3);

    ls_state_at(&h, 55, &s);
    assert_int_equal(s.live, 150);
    assert_int_equal(s.pending, 300);
    assert_int_equal(s.reserved, 1000);
    assert_int_equal(s.cached, 550);
    assert_int_equal(s.direct, 64);
    assert_int_equal(s.hole, 450); /* behind c, at the end */
    assert_int_equal(s.pieces, 1);
    assert_int_equal(s.piece[0].live, 150);
    assert_int_equal(s.piece[0].pending, 300);
    assert_int_equal(s.piece[0].free, 550);
    assert_int_equal(s.piece[0].blocks, 2);
    assert_int_equal(s.piece[0].oldest->id, 10);
    assert_int_equal(s.holders, 1);
    assert_int_equal(s.holder[0].bytes, 150);
    assert_int_equal(s.holder[0].blocks, 2);
    assert_int_equal(s.holder[0].oldest->id, 10);
    assert_int_equal(s.holder[0].largest->id, 10);
    ls_state_free(&s);
    close_with(&trace, &h);
}

/* What happened at exactly the moment has happened. */
static void test_edges(void **state) {
    struct ls_trace trace;
    struct ls_history h;
    (void)state;
    static const struct {
        int64_t ts_ns;
        uint64_t live, pending, reserved, hole, direct;
    } expected[] = {
        {9, 0, 0, 0, 0, 0},
        {10, 0, 0, 1000, 1000, 0},
        {19, 0, 0, 1000, 1000, 64},
        {20, 100, 0, 1000, 900, 64},
        {30, 400, 0, 1000, 500, 64},
        {39, 400, 0, 1000, 500, 64},
        {40, 100, 300, 1000, 500, 64},
        {59, 150, 300, 1000, 450, 64},
        {60, 150, 0, 1000, 450, 64},
        {69, 150, 0, 1000, 450, 64},
        {70, 150, 0, 1000, 450, 0},
    };
    open_with(&trace, &h, 100, native);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct ls_state s;
        ls_state_at(&h, expected[i].ts_ns, &s);
        assert_int_equal(s.live, expected[i].live);
        assert_int_equal(s.pending, expected[i].pending);
        assert_int_equal(s.reserved, expected[i].reserved);
        assert_int_equal(s.hole, expected[i].hole);
        assert_int_equal(s.direct, expected[i].direct);
        ls_state_free(&s);
    }
    close_with(&trace, &h);
}

/* Given back, and not known to be free: pending until the end. */
static void test_pending_for_good(void **state) {
    struct ls_trace trace;
    struct ls_history h;
    struct ls_state s;
    (void)state;
    open_with(&trace, &h, 100,
              SEGMENTS "(1, 10, NULL, 1, 0, 5000, 1000, 2, 1, 3);" BLOCKS
                       "(10, 20, 30, NULL, 0, 5000, 1000, 1, 1, 11, 1)");
    assert_int_equal(h.span[0].free_ns, LS_NEVER);
    ls_state_at(&h, 100, &s);
    assert_int_equal(s.live, 0);
    assert_int_equal(s.pending, 1000);
    assert_int_equal(s.cached, 0);
    assert_int_equal(s.hole, 0);
    assert_null(s.piece[0].oldest);
    assert_int_equal(s.piece[0].blocks, 0);
    ls_state_free(&s);
    close_with(&trace, &h);
}

/* Mappings of 100 bytes in a range of 1000 at 10000: runs of those that touch are one piece. */
static void test_expandable(void **state) {
    struct ls_trace trace;
    struct ls_history h;
    struct ls_state s;
    (void)state;
    open_with(
        &trace, &h, 100,
        "INSERT INTO vmm_range(id, start_ns, end_ns, kind, device, address, size) VALUES"
        "(1, 1, NULL, 1, 0, 10000, 1000), (2, 1, NULL, 1, 0, 11000, 1000),"
        "(3, 1, NULL, 2, 0, 77, 100);" SEGMENTS
        "(11, 10, NULL, 6, 0, 10000, 100, 1, 1, 3), (12, 11, NULL, 6, 0, 10100, 100, 1, 1, 3),"
        "(13, 12, 50, 6, 0, 10200, 100, 1, 1, 3), (14, 13, NULL, 6, 0, 10300, 100, 1, 1, 3),"
        "(15, 14, NULL, 6, 0, 10900, 100, 1, 1, 3), (16, 15, NULL, 6, 0, 11000, 100, 1, 1, 3);" BLOCKS
        "(20, 20, NULL, NULL, 0, 10050, 100, 2, NULL, NULL, 1),"
        "(21, 21, 45, 45, 0, 10150, 200, 1, 1, 22, 1)");
    assert_int_equal(h.segments, 6);
    assert_true(h.segment[0].expandable);
    assert_int_equal(h.segment[3].reservation, 10000);
    assert_int_equal(h.segment[5].reservation, 11000);
    assert_int_equal(h.span[0].segment, 0);
    assert_int_equal(h.span[1].segment, 1);

    ls_state_at(&h, 30, &s);
    assert_int_equal(s.reserved, 600);
    assert_int_equal(s.pieces, 3); /* 10000..10400, 10900.., and 11000.., another range's */
    assert_int_equal(s.piece[0].address, 10000);
    assert_int_equal(s.piece[0].size, 400);
    assert_int_equal(s.piece[0].live, 300);
    assert_int_equal(s.piece[0].hole, 50);
    assert_int_equal(s.hole, 100);
    ls_state_free(&s);

    ls_state_at(&h, 60, &s);
    assert_int_equal(s.reserved, 500);
    assert_int_equal(s.pieces, 4);
    assert_int_equal(s.piece[0].size, 200);
    assert_int_equal(s.piece[0].free, 100);
    assert_int_equal(s.piece[0].hole, 50);
    assert_int_equal(s.hole, 100);
    ls_state_free(&s);
    close_with(&trace, &h);
}

/* The same addresses again, in a larger segment that begins lower. */
static void test_addresses_over_time(void **state) {
    struct ls_trace trace;
    struct ls_history h;
    (void)state;
    open_with(&trace, &h, 100,
              SEGMENTS
              "(1, 10, 20, 1, 0, 5000, 100, 1, 1, 3), (2, 30, 40, 1, 0, 4000, 5000, 1, 1, 3),"
              "(3, 50, NULL, 1, 0, 5000, 100, 1, 1, 3);" BLOCKS
              "(10, 11, 12, 12, 0, 5000, 50, 1, 1, 1, 1),"
              "(11, 31, 32, 32, 0, 5050, 50, 1, 1, 1, 1),"
              "(12, 51, NULL, NULL, 0, 5050, 50, 1, 1, 1, 1),"
              "(13, 52, NULL, NULL, 0, 7000, 50, 1, 1, 1, 1)");
    assert_int_equal(h.segment[h.span[0].segment].id, 1);
    assert_int_equal(h.segment[h.span[1].segment].id, 2);
    assert_int_equal(h.segment[h.span[2].segment].id, 3);
    assert_int_equal(h.span[3].segment, LS_NO_SEGMENT);
    close_with(&trace, &h);
}

/* A free of one thread may be recorded after another one has the address: bytes count once. */
static void test_overlapping_blocks(void **state) {
    struct ls_trace trace;
    struct ls_history h;
    struct ls_state s;
    (void)state;
    open_with(&trace, &h, 100,
              SEGMENTS "(1, 10, NULL, 1, 0, 5000, 100, 1, 1, 3);" BLOCKS
                       "(10, 11, 52, 52, 0, 5000, 60, 1, 1, 1, 1),"
                       "(11, 50, NULL, NULL, 0, 5000, 40, 1, 1, 1, 1),"
                       "(12, 50, NULL, NULL, 0, 5090, 40, 1, 1, 1, 1)");
    ls_state_at(&h, 51, &s);
    assert_int_equal(s.live, 140); /* as the allocator would say */
    assert_int_equal(s.piece[0].live + s.piece[0].pending + s.piece[0].free, 100);
    assert_int_equal(s.piece[0].live, 70);
    assert_int_equal(s.piece[0].hole, 30);
    ls_state_free(&s);
    close_with(&trace, &h);
}

/* Without a framework: what the program asked for itself. */
static void test_plain_program(void **state) {
    struct ls_trace trace;
    struct ls_history h;
    struct ls_state s;
    uint64_t bytes;
    (void)state;
    open_with(&trace, &h, 100,
              SEGMENTS
              "(1, 10, 20, 1, 0, 5000, 100, 1, 1, 1), (2, 12, NULL, 3, 0, 6000, 50, 2, 2, 1),"
              "(3, 13, NULL, 8, 0, 7000, 50, 2, 3, 1), (4, 20, NULL, 2, 0, 8000, 60, 1, 4, 0);"
              "INSERT INTO call(id, thread) VALUES(1, 5)");
    assert_false(h.framework);
    assert_int_equal(h.spans, 3); /* memory that another process opened up is not this one's */
    assert_int_equal(h.segments, 0);
    assert_int_equal(h.span[0].thread, 5);
    assert_int_equal(h.span[0].start_call, 1);
    assert_int_equal(h.span[0].free_ns, 20);
    ls_state_at(&h, 15, &s);
    assert_int_equal(s.live, 150);
    assert_int_equal(s.reserved, 150);
    assert_int_equal(s.cached, 0);
    assert_int_equal(s.pieces, 0);
    assert_int_equal(s.holders, 2);
    assert_int_equal(s.holder[0].bytes, 100);
    ls_state_free(&s);
    assert_int_equal(ls_peak_live_ns(&h, &bytes), 12);
    assert_int_equal(bytes, 150); /* at 20 one went as another came */
    assert_int_equal(ls_peak_reserved_ns(&h, &bytes), 12);
    close_with(&trace, &h);
}

static void test_peaks(void **state) {
    struct ls_trace trace;
    struct ls_history h;
    uint64_t bytes;
    (void)state;
    open_with(
        &trace, &h, 100,
        SEGMENTS
        "(1, 5, 90, 1, 0, 5000, 1000, 1, 1, 3), (2, 60, NULL, 1, 0, 9000, 500, 1, 1, 3);" BLOCKS
        "(10, 10, 20, 20, 0, 5000, 400, 1, 1, 1, 1),"
        "(11, 20, 40, 40, 0, 5000, 300, 1, 1, 1, 1),"
        "(12, 30, 50, 50, 0, 5300, 101, 1, 1, 1, 1),"
        "(13, 55, 55, 55, 0, 5300, 700, 1, 1, 1, 1),"
        "(14, 60, NULL, NULL, 0, 5300, 401, 1, 1, 1, 1)");
    assert_int_equal(ls_peak_live_ns(&h, &bytes), 30); /* the first of two */
    assert_int_equal(bytes, 401);
    assert_int_equal(ls_peak_reserved_ns(&h, &bytes), 60);
    assert_int_equal(bytes, 1500);
    close_with(&trace, &h);
}

static void test_nothing(void **state) {
    struct ls_trace trace;
    struct ls_history h;
    struct ls_state s;
    struct ls_growth g;
    uint64_t bytes;
    int device[4];
    (void)state;
    open_with(&trace, &h, 100, "SELECT 1");
    assert_int_equal(ls_history_devices(trace.db, device, 4), 0);
    assert_int_equal(ls_peak_live_ns(&h, &bytes), -1);
    assert_int_equal(bytes, 0);
    ls_state_at(&h, 50, &s);
    assert_int_equal(s.holders, 0);
    ls_state_free(&s);
    ls_growth_load(&h, &g);
    assert_int_equal(g.samples, 0);
    ls_growth_free(&g);
    close_with(&trace, &h);
}

static void test_devices(void **state) {
    struct ls_trace trace;
    struct ls_history h;
    int device[4] = {0};
    (void)state;
    open_with(&trace, &h, 100,
              SEGMENTS
              "(1, 5, 90, 1, 3, 5000, 1000, 1, 1, 1), (2, 5, 90, 4, 2, 5000, 10, 1, 1, 1);" BLOCKS
              "(10, 10, 20, 20, 1, 5000, 400, 1, 1, 1, 1);"
              "INSERT INTO memory(id, ts_ns, device, device_total) VALUES(1, 1, 0, 4000)");
    assert_int_equal(ls_history_devices(trace.db, device, 4), 2);
    assert_int_equal(device[0], 1);
    assert_int_equal(device[1], 3);
    assert_int_equal(ls_history_devices(trace.db, device, 1), 1);
    assert_int_equal(h.capacity, 4000);
    assert_int_equal(h.spans, 0);
    close_with(&trace, &h);
}

/* Steps at 10, 20, .. 60 of loop 2; site 1 keeps one block of 100 more each time, site 2 has one of
 * 40 within each step, and one that lasts from 15 to 40. */
static void test_growth(void **state) {
    struct ls_trace trace;
    struct ls_history h;
    struct ls_growth g;
    (void)state;
    open_with(
        &trace, &h, 100,
        "INSERT INTO step(id, loop, start_ns, end_ns) VALUES(1, 1, 5, 6), (2, 2, 10, 20),"
        "(3, 2, 20, 30), (4, 2, 30, 40), (5, 2, 40, 50), (6, 2, 50, 60), (7, 2, 60, 70);" BLOCKS
        "(1, 11, NULL, NULL, 0, 1, 100, 1, 1, 1, 1), (2, 21, NULL, NULL, 0, 1, 100, 3, 1, 1, 1),"
        "(3, 31, NULL, NULL, 0, 1, 100, 1, 1, 1, 1), (4, 41, NULL, NULL, 0, 1, 100, 3, 1, 1, 1),"
        "(5, 51, NULL, NULL, 0, 1, 100, 1, 1, 1, 1), (6, 61, NULL, NULL, 0, 1, 100, 3, 1, 1, 1),"
        "(7, 12, 19, 19, 0, 1, 40, 2, 1, 1, 1), (8, 15, 40, 40, 0, 1, 40, 2, 1, 1, 1)");
    ls_growth_load(&h, &g);
    assert_true(g.by_step);
    assert_int_equal(g.samples, 6);
    assert_int_equal(g.stride, 1);
    assert_int_equal(g.ts_ns[0], 10);
    static const uint64_t first[] = {0, 100, 200, 300, 400, 500}, second[] = {0, 40, 40, 0, 0, 0};
    uint32_t a = h.span[0].site, b = 3 - a;
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(g.live[a * g.samples + i], first[i]);
        assert_int_equal(g.live[b * g.samples + i], second[i]);
        assert_int_equal(g.total[i], first[i] + second[i]);
    }
    assert_true(ls_growth_slope(g.live + a * g.samples, g.samples) == 100);
    assert_true(ls_growth_slope(g.live + b * g.samples, g.samples) == 0);
    ls_growth_free(&g);
    close_with(&trace, &h);
}

static void test_growth_without_steps(void **state) {
    struct ls_trace trace;
    struct ls_history h;
    struct ls_growth g;
    (void)state;
    open_with(&trace, &h, 128000, BLOCKS "(1, 1000, 3000, 3000, 0, 1, 100, 1, 1, 1, 1)");
    ls_growth_load(&h, &g);
    assert_false(g.by_step);
    assert_int_equal(g.samples, LS_GROWTH_SAMPLES);
    assert_int_equal(g.ts_ns[0], 1000);
    assert_int_equal(g.ts_ns[1], 3000);
    assert_int_equal(g.total[0], 100);
    assert_int_equal(g.total[1], 0);
    ls_growth_free(&g);
    close_with(&trace, &h);
}

static void test_many_steps(void **state) {
    struct ls_trace trace;
    struct ls_history h;
    struct ls_growth g;
    (void)state;
    open_with(&trace, &h, 1000000,
              "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)"
              " INSERT INTO step(id, loop, start_ns, end_ns) SELECT i + 1, 1, i * 10, i * 10 + 10"
              " FROM n;"
              "INSERT INTO block(id, start_ns, device, address, size, stack) SELECT id,"
              " start_ns + 1, 0, 1, 8, 1 FROM step");
    ls_growth_load(&h, &g);
    assert_int_equal(g.stride, 3);
    assert_int_equal(g.samples, 3334);
    assert_int_equal(g.total[1], 24);
    assert_true(ls_growth_slope(g.total, g.samples) == 24);
    ls_growth_free(&g);
    close_with(&trace, &h);
}

/* A loop whose steps launch nothing is not the main one; a framework's program has then none. */
static void test_main_loop(void **state) {
    struct ls_trace trace;
    struct ls_history h;
    size_t steps;
    bool inside;
    (void)state;
    static const char loops[] =
        "INSERT INTO step(id, loop, start_ns, end_ns, launches) VALUES(1, 1, 10, 20, 1),"
        "(2, 1, 20, 30, 0), (3, 1, 30, 40, 2), (4, 2, 50, 51, 0), (5, 2, 51, 52, 0),"
        "(6, 2, 52, 53, 0), (7, 2, 53, 54, 1), (8, 3, 60, 61, 0)";
    open_with(&trace, &h, 100, loops);
    assert_int_equal(ls_growth_loop(&h, &steps), 1);
    assert_int_equal(steps, 3);
    assert_int_equal(ls_growth_step(&h, 9, &inside), 0);
    assert_false(inside);
    assert_int_equal(ls_growth_step(&h, 10, &inside), 1);
    assert_true(inside);
    assert_int_equal(ls_growth_step(&h, 40, &inside), 3);
    assert_false(inside);
    close_with(&trace, &h);

    made_open(&trace, "exit", 100);
    made_sql(&trace, loops);
    made_sql(&trace, "DELETE FROM step WHERE loop = 1");
    assert_true(ls_history_load(&h, trace.db, 0));
    assert_int_equal(ls_growth_loop(&h, &steps), 2);
    assert_int_equal(steps, 4);
    ls_history_free(&h);
    made_sql(&trace, BLOCKS "(10, 20, NULL, NULL, 0, 5000, 100, NULL, NULL, NULL, 7)");
    assert_true(ls_history_load(&h, trace.db, 0));
    ls_growth_loop(&h, &steps);
    assert_int_equal(steps, 0);
    assert_int_equal(ls_growth_step(&h, 55, &inside), 0);
    close_with(&trace, &h);
}

/* A few odd steps change nothing. */
static void test_slope(void **state) {
    static const uint64_t odd[] = {0, 10, 20, 5000, 40, 50, 0, 70, 80, 90}, few[] = {1, 2};
    static const uint64_t falling[] = {30, 20, 10};
    (void)state;
    assert_true(ls_growth_slope(odd, 10) == 10);
    assert_true(ls_growth_slope(few, 2) == 0);
    assert_true(ls_growth_slope(falling, 3) == -10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_native_segment),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_pending_for_good),
        cmocka_unit_test(test_expandable),
        cmocka_unit_test(test_addresses_over_time),
        cmocka_unit_test(test_overlapping_blocks),
        cmocka_unit_test(test_plain_program),
        cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_devices),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_growth_without_steps),
        cmocka_unit_test(test_many_steps),
        cmocka_unit_test(test_main_loop),
        cmocka_unit_test(test_slope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
