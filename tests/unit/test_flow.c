/*
 * test_flow.c - the way of tensors between calls: who read what a copy wrote, what it was made
 * from, and what cuts the link.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "detect/flow.h"
#include "spool_fixture.h"

#define A UINT64_C(0x100000)
#define B UINT64_C(0x200000)
#define C UINT64_C(0x300000)
#define D UINT64_C(0x400000)

enum { PLAIN = 1, TURNED, HALF, EXPANDED, STEPPED, PART, ROWS };

static struct ls_trace trace;
static struct ls_histories histories;
static struct ls_detect detect;
static const struct ls_flow *flow;

/* Four allocations of a mebibyte, and shapes of 8 x 4. */
static int setup_flow(void **state) {
    setup(state);
    maker_call(&maker, 1, cudaMalloc, 1, 2, A, 1 << 20);
    maker_call(&maker, 1, cudaMalloc, 3, 4, B, 1 << 20);
    maker_call(&maker, 1, cudaMalloc, 5, 6, C, 1 << 20);
    maker_call(&maker, 1, cudaMalloc, 7, 8, D, 1 << 20);
    maker_tensor_shape(&maker, 1, PLAIN, FLOAT32, 2, 8, 4, 4, 1);
    maker_tensor_shape(&maker, 1, TURNED, FLOAT32, 2, 8, 4, 1, 8);
    maker_tensor_shape(&maker, 1, HALF, FLOAT16, 2, 8, 4, 4, 1);
    maker_tensor_shape(&maker, 1, EXPANDED, FLOAT32, 2, 8, 4, 0, 1);
    maker_tensor_shape(&maker, 1, STEPPED, FLOAT32, 1, 32, 2);
    maker_tensor_shape(&maker, 1, PART, FLOAT32, 2, 2, 4, 4, 1);
    maker_tensor_shape(&maker, 1, ROWS, FLOAT32, 1, 32, 1);
    maker_kernel(&maker, 1, 1, "copy");
    return 0;
}

static int teardown_flow(void **state) {
    if (trace.db) {
        ls_flow_free(detect.flow);
        ls_histories_free(&histories);
        ls_trace_close(&trace);
    }
    trace = (struct ls_trace){0};
    return teardown(state);
}

static void copied(uint64_t at, uint32_t dst_shape, uint64_t dst, uint32_t src_shape,
                   uint64_t src) {
    maker_call_operands(&maker, 1, cudaLaunchKernel, at, at + 1, 0, 0, 0, 1,
                        MADE_OPERAND(DST, dst_shape, dst), MADE_OPERAND(SRC, src_shape, src));
}

static void touched(uint64_t at, uint64_t address) {
    maker_call_operands(&maker, 1, cudaLaunchKernel, at, at + 1, 0, 0, 0, 1,
                        MADE_OPERAND(ARGUMENT, 0, address));
}

static void read_by(uint64_t at, unsigned flags, uint32_t shape, uint64_t address) {
    maker_call_operands(&maker, 1, cublasSgemm_v2, at, at + 1, flags, 0, 0, 0x77,
                        MADE_OPERAND(A, shape, address), MADE_OPERAND(C_OUT, PLAIN, D));
}

static void byte_copy(uint64_t at, uint64_t dst, uint64_t src, uint64_t bytes, uint64_t kind) {
    maker_call(&maker, 1, cudaMemcpyAsync, at, at + 1, dst, src, bytes, kind, 0);
}

static void load(const char *sql) {
    collect();
    assert_int_equal(ls_trace_open(&trace, maker.trace), LS_EXIT_OK);
    if (sql)
        assert_int_equal(sqlite3_exec(trace.db, sql, NULL, NULL, NULL), SQLITE_OK);
    histories = (struct ls_histories){.db = trace.db};
    detect = (struct ls_detect){.db = trace.db, .histories = &histories};
    flow = ls_detect_flow(&detect);
    assert_non_null(flow);
    assert_ptr_equal(ls_detect_flow(&detect), flow);
}

/* Of the n-th relayout the call that read it, in ticks; 0: none. */
static int64_t reader(size_t n) {
    char sql[80];
    assert_true(n < flow->count);
    snprintf(sql, sizeof sql, "SELECT start_ns FROM call WHERE id = %lld",
             (long long)flow->relayout[n].reader);
    return flow->relayout[n].reader ? maker_number(&maker, sql) : 0;
}

static void test_a_copy_and_its_reader(void **state) {
    (void)state;
    copied(10, PLAIN, B, TURNED, A);
    read_by(20, 0, PLAIN, B);
    read_by(30, 0, PLAIN, B);
    copied(40, HALF, C, PLAIN, A);
    copied(50, PLAIN, D, EXPANDED, A);
    copied(60, ROWS, C, STEPPED, A);
    load(NULL);
    assert_int_equal(flow->count, 4);
    assert_int_equal(flow->operand_calls, 6);
    const struct ls_relayout *r = flow->relayout;
    assert_int_equal(reader(0), 20);
    assert_int_equal(r[0].readers, 2);
    assert_int_equal(r[0].reader_shape->elements, 32);
    assert_true(r[0].turned && !r[0].cast && r[0].repeated == 1 && !r[0].reader_adds);
    assert_true(!r[1].turned && r[1].cast && !r[1].reader);
    assert_true(r[2].turned && r[2].repeated == 8);
    assert_true(r[3].turned && r[3].repeated == 1);
    assert_ptr_equal(ls_flow_relayout_of(flow, r[2].call), &r[2]);
    assert_null(ls_flow_relayout_of(flow, r[3].call + 1));
}

/* One inside of the other, either way, and what lies beside. */
static void test_parts(void **state) {
    (void)state;
    copied(10, PLAIN, B, TURNED, A);
    read_by(20, 0, PART, B + 64); /* rows 4 and 5 of what was written */
    copied(30, PART, C + 32, PART, A);
    copied(31, PART, C + 64, PART, A);
    copied(32, PART, C + 256, PART, A);
    read_by(40, 0, PLAIN, C);
    load(NULL);
    assert_int_equal(reader(0), 20);
    assert_int_equal(reader(1), 40);
    assert_int_equal(reader(2), 40);
    assert_int_equal(reader(3), 0);
}

static void test_what_cuts_the_link(void **state) {
    (void)state;
    copied(10, PLAIN, B, TURNED, A);
    byte_copy(11, B + 64, 0x7000, 4, 1); /* from the host, into the middle */
    read_by(12, 0, PLAIN, B);
    copied(20, PLAIN, B, TURNED, A);
    copied(21, PLAIN, B, TURNED, A); /* written again */
    read_by(22, 0, PLAIN, B);
    copied(30, PLAIN, B, TURNED, A);
    maker_call(&maker, 1, cudaFree, 31, 32, B);
    maker_call(&maker, 1, cudaMalloc, 33, 34, B, 1 << 20);
    read_by(35, 0, PLAIN, B);
    copied(40, PLAIN, D, TURNED, A);
    read_by(41, 0, PLAIN, A); /* writes D */
    read_by(42, 0, PLAIN, D);
    copied(50, PLAIN, C, TURNED, A);
    maker_failed(&maker, 1, cudaFree, 51, 52, 1, C);
    read_by(53, 0, PLAIN, C);
    load(NULL);
    static const int64_t expected[] = {0, 0, 22, 0, 0, 53};
    assert_int_equal(flow->count, 6);
    for (size_t i = 0; i < flow->count; i++)
        assert_int_equal(reader(i), expected[i]);
}

static void test_copies_of_bytes_hand_on(void **state) {
    (void)state;
    copied(10, PLAIN, B, TURNED, A);
    byte_copy(20, C + 512, B, 128, 3);
    read_by(30, 0, PLAIN, C + 512);
    copied(40, PLAIN, B, TURNED, A);
    byte_copy(41, D, B, 64, 3); /* half of it alone */
    read_by(42, 0, PLAIN, D);
    load(NULL);
    assert_int_equal(reader(0), 30);
    assert_int_equal(reader(1), 0);
}

static void test_chains(void **state) {
    (void)state;
    copied(10, PLAIN, B, TURNED, A);
    touched(11, B);
    copied(12, TURNED, C, PLAIN, B);
    touched(13, C + 4);
    read_by(14, 0, PLAIN, C);
    touched(15, C);
    copied(20, PLAIN, D, PLAIN, C);
    load(NULL);
    const struct ls_relayout *r = flow->relayout;
    assert_int_equal(r[0].from, LS_NO_RELAYOUT);
    assert_int_equal(r[1].from, 0);
    assert_int_equal(r[2].from, 1);
    assert_true(r[0].touched && r[0].reread && !r[0].reader);
    assert_true(r[1].touched && r[1].reread && r[1].reader);
    assert_false(r[2].touched || r[2].reread);
}

/* The outer call is the reader, and what it begins its result with is no operand that was made. */
static void test_readers(void **state) {
    (void)state;
    copied(10, PLAIN, B, TURNED, A);
    read_by(20, LS_CALL_NESTED, PLAIN, B);
    read_by(19, 0, PLAIN, B);
    copied(30, PLAIN, C, EXPANDED, A);
    maker_call_operands(&maker, 1, cublasSgemm_v2, 31, 32, 0, 0, 0, 0x77, MADE_OPERAND(A, PLAIN, A),
                        MADE_OPERAND(C, PLAIN, C));
    read_by(33, 0, PLAIN, C);
    copied(40, PLAIN, B, TURNED, A);
    read_by(41, LS_CALL_NESTED, PLAIN, B);
    load(NULL);
    assert_int_equal(reader(0), 19);
    assert_int_equal(flow->relayout[0].readers, 1);
    assert_false(flow->relayout[0].reader_nested);
    assert_true(flow->relayout[1].reader_adds);
    assert_int_equal(flow->relayout[1].readers, 1);
    assert_int_equal(reader(2), 41);
    assert_true(flow->relayout[2].reader_nested);
}

/* Kernels that are known to read, or to write, leave nothing open. */
static void test_kernels_that_are_known(void **state) {
    (void)state;
    copied(10, PLAIN, B, TURNED, A);
    maker_call_operands(&maker, 1, cudaLaunchKernel, 11, 12, 0, 0, 0, 1, MADE_OPERAND(INPUT, 0, A),
                        MADE_OPERAND(INPUT, 0, B));
    copied(20, PLAIN, C, TURNED, A);
    maker_call_operands(&maker, 1, cudaLaunchKernel, 21, 22, 0, 0, 0, 1,
                        MADE_OPERAND(BUFFER, 0, A));
    copied(30, PLAIN, D, TURNED, A);
    load(NULL);
    const struct ls_relayout *r = flow->relayout;
    assert_int_equal(flow->count, 3);
    assert_true(r[0].touched && !r[1].touched);
    assert_true(r[1].before == 0 && !r[1].src_rewritten && !r[1].src_touched);
    assert_true(r[2].before == 1 && r[2].src_rewritten && !r[2].src_touched);
}

static void test_steps(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t at = 1000 + 100 * i;
        maker_call(&maker, 1, cudaMalloc, at, at + 1, UINT64_C(0x900000), 4096);
        copied(at + 10, PLAIN, B, TURNED, A);
        copied(at + 11, PLAIN, C, TURNED, UINT64_C(0x900000));
        read_by(at + 20, 0, PLAIN, B);
        if (i == 1)
            byte_copy(at + 30, A, 0x7000, 4, 1);
        if (i == 2)
            touched(at + 30, A);
        maker_call(&maker, 1, cudaFree, at + 40, at + 41, UINT64_C(0x900000));
    }
    read_by(1350, 0, PLAIN, C);
    load("DELETE FROM step;"
         "INSERT INTO step(id, loop, source, start_ns, end_ns, launches) VALUES"
         "(1, 1, 'marked', 1000, 1090, 2), (2, 1, 'marked', 1100, 1190, 2),"
         "(3, 1, 'marked', 1200, 1290, 2), (4, 1, 'marked', 1300, 1390, 2)");
    const struct ls_relayout *r = flow->relayout;
    assert_int_equal(flow->count, 8);
    for (size_t i = 0; i < 8; i += 2) {
        assert_int_equal(r[i].step, i / 2 + 1);
        assert_int_equal(r[i].last_reader_step, i / 2 + 1);
        assert_int_equal(r[i].src_life, r[0].src_life);
        assert_true(r[i].src_is_lasting && !r[i + 1].src_is_lasting);
        assert_int_equal(r[i].before, i ? i - 2 : LS_NO_RELAYOUT);
        assert_int_equal(r[i + 1].before, LS_NO_RELAYOUT); /* memory of another life */
        assert_int_equal(r[i].src_rewritten, i == 4);
        assert_int_equal(r[i].src_touched, i == 6);
    }
    assert_int_not_equal(r[1].src_life, r[3].src_life);
    assert_int_equal(r[7].last_reader_step, 4);
}

static void test_strides_in_the_source(void **state) {
    (void)state;
    maker_tensor_shape(&maker, 1, 20, FLOAT32, 3, 4, 6, 10, 60, 10, 1);
    maker_tensor_shape(&maker, 1, 21, FLOAT32, 3, 4, 6, 10, 10, 40, 1);
    copied(10, 20, B, 21, A);
    load(NULL);
    const struct ls_relayout *r = flow->relayout;
    assert_int_equal(ls_relayout_source_stride(r, 1, 10), 1);
    assert_int_equal(ls_relayout_source_stride(r, 2, 5), 2);
    assert_int_equal(ls_relayout_source_stride(r, 10, 6), 40);
    assert_int_equal(ls_relayout_source_stride(r, 20, 3), 80);
    assert_int_equal(ls_relayout_source_stride(r, 60, 4), 10);
    assert_int_equal(ls_relayout_source_stride(r, 10, 24), -1); /* two dimensions of the source */
    assert_int_equal(ls_relayout_source_stride(r, 7, 2), 7);
    assert_int_equal(ls_relayout_source_stride(r, 7, 9), -1);
}

static void test_nothing_told(void **state) {
    (void)state;
    maker_call_numbered(&maker, 1, cudaLaunchKernel, 10, 11, 0, 0, 1, 1, 2, 5, 6, 0);
    load(NULL);
    assert_int_equal(flow->count, 0);
    assert_int_equal(flow->operand_calls, 0);
}

/* A million operands in a second, the shapes and lives of a training run. */
static void test_a_million(void **state) {
    (void)state;
    for (uint64_t i = 0, at = 100; i < 400; i++, at += 10)
        copied(at, PLAIN, B + 128 * (i % 1000), TURNED, A);
    load(NULL);
    assert_int_equal(
        sqlite3_exec(
            trace.db,
            "BEGIN; WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < 249999)"
            " INSERT INTO call(id, start_ns, duration_ns, thread, api, status, flags, device, f0)"
            " SELECT 100000 + i, 10000 + i, 1, 1, (SELECT id FROM api WHERE name = CASE i % 2 WHEN 0"
            " THEN 'cudaLaunchKernel' ELSE 'cublasSgemm_v2' END), 0, 0, 0, 1 FROM n;"
            "INSERT INTO operand(call, position, role, shape, address, flags) SELECT call.id, p.p,"
            " (SELECT id FROM role WHERE name = CASE WHEN call.id % 2 = 0 THEN CASE p.p WHEN 0 THEN"
            " 'dst' WHEN 1 THEN 'src' ELSE 'argument' END ELSE CASE p.p WHEN 3 THEN 'd' ELSE 'a' END"
            " END), 1 + p.p % 2, CASE WHEN p.p = 0 THEN 0x200000 + 128 * (call.id / 2 % 8000)"
            " WHEN p.p = 3 THEN 0x400000 ELSE 0x100000 END, 0"
            " FROM call, (SELECT 0 AS p UNION SELECT 1 UNION SELECT 2 UNION SELECT 3) AS p"
            " WHERE call.id >= 100000; COMMIT",
            NULL, NULL, NULL),
        SQLITE_OK);
    ls_flow_free(detect.flow);
    detect.flow = NULL;
    clock_t before = clock();
    flow = ls_detect_flow(&detect);
    int took = (int)((clock() - before) / (CLOCKS_PER_SEC / 1000));
    print_message("a million operands: %d ms of the CPU\n", took);
    assert_int_equal(flow->operand_calls, 250400);
    assert_true(took < 5000); /* sanitized, too */
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_flow, teardown_flow)
    const struct CMUnitTest tests[] = {
        TEST(test_a_copy_and_its_reader),
        TEST(test_parts),
        TEST(test_what_cuts_the_link),
        TEST(test_copies_of_bytes_hand_on),
        TEST(test_chains),
        TEST(test_readers),
        TEST(test_kernels_that_are_known),
        TEST(test_steps),
        TEST(test_strides_in_the_source),
        TEST(test_nothing_told),
        TEST(test_a_million),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
