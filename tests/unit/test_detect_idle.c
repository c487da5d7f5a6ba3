/*
 * test_detect_idle.c - unused-allocation, early-allocation, late-free: memory that nothing used,
 * and what makes it unknown whether anything did.
 */
#include <string.h>

#include "made_layouts.h"

#define MIB UINT64_C(0x100000)
#define AT(n) (UINT64_C(0x10000000) * (n))
#define STEP 10000000 /* ns */
#define STEPS 8
#define END ((STEPS + 1) * (uint64_t)STEP)

/* Memory 1 is used in each step, 3 makes the peak in the middle, 2 is what is looked at. */
enum { BASE = 1, LOOKED_AT, PEAK };

static void allocated(uint64_t at, int n, uint64_t mib) {
    maker_call_with(&maker, 1, cudaMalloc, at, at + 1, (uint32_t)n, 0, 0, 0, AT((uint64_t)n),
                    mib * MIB);
}

static void freed(uint64_t at, int n) {
    maker_call_with(&maker, 1, cudaFree, at, at + 1, 9, 0, 0, 0, AT((uint64_t)n));
}

static void launched(uint64_t at, uint64_t address) {
    maker_call_operands(&maker, 1, cudaLaunchKernel, at, at + 1, 0, 0, 0, 1,
                        MADE_OPERAND(ARGUMENT, 0, address));
}

static void unread(uint64_t at, unsigned flags) {
    maker_call_with(&maker, 1, cudaLaunchKernel, at, at + 1, 0, flags, 0, 0, 1);
}

static int setup_loop(void **state) {
    made_setup(state);
    for (uint32_t i = BASE; i <= PEAK; i++)
        made_line(i, i);
    made_line(9, 9);
    maker_kernel(&maker, 1, 1, "work");
    allocated(10, BASE, 64);
    for (uint64_t at = STEP; at < END; at += STEP)
        for (uint64_t i = 0; i < 4; i++)
            launched(at + 100 * i, AT(BASE) + 256 * i);
    return 0;
}

/* `kernels`: CUPTI saw them. */
static void detect_with(bool kernels) {
    struct ls_trace trace;
    char sql[200];
    freed(END + 100, BASE);
    if (kernels)
        maker_gpu(&maker, 4, LS_GPU_KERNEL, 0, 0,
                  (struct ls_rec_gpu){.start = MADE_GPU + END,
                                      .end = MADE_GPU + END + 10,
                                      .correlation = 1,
                                      .context = 1,
                                      .value = {1, 0, 0, 0}});
    maker_call_numbered(&maker, 1, cudaLaunchKernel, END + 200, END + 201, 0, 0, 1, 1);
    maker_gpu_clock(&maker, 4, END + 300, 2, END + 300);
    collect();
    assert_int_equal(ls_trace_open(&trace, maker.trace), LS_EXIT_OK);
    sqlite3_exec(trace.db, "DELETE FROM step", NULL, NULL, NULL);
    for (int i = 1; i <= STEPS; i++) {
        snprintf(sql, sizeof sql,
                 "INSERT INTO step(id, loop, source, start_ns, end_ns, launches) VALUES(%d, 1, "
                 "'marked', %d, %d, 4)",
                 i, i * STEP, (i + 1) * STEP);
        assert_int_equal(sqlite3_exec(trace.db, sql, NULL, NULL, NULL), SQLITE_OK);
    }
    assert_int_equal(ls_detect_run(&trace), LS_EXIT_OK);
    ls_trace_close(&trace);
}

/* Kind, severity, line, MiB and what comes off the peak; the made-up peak is between steps 4 and 5.
 */
static const char *told(void) {
    allocated(4 * STEP + 1000, PEAK, 256);
    launched(4 * STEP + 1001, AT(PEAK));
    launched(5 * STEP - 1000, AT(PEAK));
    freed(5 * STEP - 100, PEAK);
    detect_with(true);
    return maker_ask(&maker,
                     "SELECT COALESCE(group_concat(kind||' '||severity||' '||replace(site,"
                     "'/home/me/','')||' '||(bytes>>20)||' '||(gain_bytes>>20), ', '), 'nothing')"
                     " FROM (SELECT * FROM finding WHERE kind IN ('unused-allocation',"
                     " 'early-allocation', 'late-free') ORDER BY id)");
}

static const char *skipped(void) {
    return maker_ask(&maker, "SELECT COALESCE((SELECT reason FROM skipped WHERE kind = "
                             "'unused-allocation'), 'ran')");
}

#define UNUSED "unused-allocation warning train.py:2 f 128 128"

static void looked_at(void) {
    allocated(STEP / 2, LOOKED_AT, 128);
    freed(END + 10, LOOKED_AT);
}

static void test_unused(void **state) {
    (void)state;
    looked_at();
    assert_string_equal(told(), UNUSED);
    assert_string_equal(made_evidence("unused-allocation", "steps"), "8");
    assert_string_equal(skipped(), "ran");
}

static void test_each_use(void **state) {
    static const int ways[] = {0, 1, 2, 3, 4};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (i) {
            teardown(state);
            setup_loop(state);
        }
        uint64_t inside = AT(LOOKED_AT) + 5 * MIB, at = 3 * STEP + 1000;
        looked_at();
        if (ways[i] == 0)
            launched(at, inside);
        if (ways[i] == 1)
            maker_call(&maker, 1, cudaMemcpyAsync, at, at + 1, 0x7000, inside, 64, 2, 0);
        if (ways[i] == 2)
            maker_call(&maker, 1, cudaMemcpyAsync, at, at + 1, inside, 0x7000, 68, 1, 0);
        if (ways[i] == 3)
            maker_call(&maker, 1, cudaMemset, at, at + 1, inside, 0, 64);
        if (ways[i] == 4)
            maker_call_operands(&maker, 1, ncclAllReduce, at, at + 1, 0, 0, 0, 0x77,
                                MADE_OPERAND(SEND, 0, inside), MADE_OPERAND(RECV, 0, inside));
        /* The peak is after that: so it is held too long, and not unused. */
        assert_string_equal(told(), "late-free warning train.py:2 f 128 128");
    }
}

static void test_early(void **state) {
    (void)state;
    looked_at();
    launched(7 * STEP, AT(LOOKED_AT));
    launched(END - 1, AT(LOOKED_AT));
    assert_string_equal(told(), "early-allocation warning train.py:2 f 128 128");
    assert_string_equal(made_evidence("early-allocation", "first_use.kernel"), "work");
    assert_string_equal(made_evidence("early-allocation", "steps"), "6");
}

static void test_late(void **state) {
    (void)state;
    allocated(STEP / 2, LOOKED_AT, 128);
    launched(STEP, AT(LOOKED_AT));
    launched(2 * STEP + 500, AT(LOOKED_AT));
    freed(7 * STEP + 500, LOOKED_AT);
    assert_string_equal(told(), "late-free warning train.py:2 f 128 128");
    assert_string_equal(made_evidence("late-free", "free_site"), "/home/me/train.py:9 f");
    assert_string_equal(made_evidence("late-free", "steps"), "4");
}

/* One step's part is held until the next one's is made. */
static void test_each_step(void **state) {
    (void)state;
    for (uint64_t at = STEP; at < END; at += STEP) {
        allocated(at + 1, LOOKED_AT, 128);
        launched(at + 2, AT(LOOKED_AT));
        freed(at + STEP - 1, LOOKED_AT);
    }
    assert_string_equal(told(), "nothing");
}

/* Whatever is not known may be a use of all that is there: then only the rest of its life counts.
 */
static void unknown_then(const char *wanted) {
    looked_at();
    assert_string_equal(told(), wanted);
}

static void test_launch_without_arguments(void **state) {
    (void)state;
    unread(5 * STEP + 5, 0);
    unknown_then("nothing");
}

static void test_more_than_are_told(void **state) {
    struct ls_operand many[8];
    (void)state;
    for (uint64_t i = 0; i < 8; i++)
        many[i] = (struct ls_operand)MADE_OPERAND(ARGUMENT, 0, AT(BASE) + i);
    maker_operands(&maker, 1, LS_API_cudaLaunchKernel, 5 * STEP + 5, 5 * STEP + 6, 0, 0, 0,
                   (const uint64_t[LS_FIELD_MAX]){1}, 8, many);
    unknown_then("nothing");
}

static void test_graph(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaGraphLaunch, 4 * STEP + 2000, 4 * STEP + 2001, 0x88, 0);
    unknown_then("nothing");
    assert_non_null(strstr(skipped(), "1 launches of graphs"));
}

static void test_gap(void **state) {
    (void)state;
    maker_gpu_state(&maker, 4, 1, LS_GPU_STATE_ON, "");
    maker_gpu_state(&maker, 4, 5 * STEP + 5, LS_GPU_STATE_OFF, "another client");
    maker_gpu_state(&maker, 4, 5 * STEP + 6, LS_GPU_STATE_ON, "");
    unknown_then("nothing");
}

static void test_shared(void **state) {
    (void)state;
    looked_at();
    maker_call(&maker, 1, cudaIpcGetMemHandle, STEP, STEP + 1, AT(LOOKED_AT), 0x99);
    assert_string_equal(told(), "nothing");
}

static void test_array_of_addresses(void **state) {
    (void)state;
    maker_call_operands(&maker, 1, cublasSgemmBatched, 5 * STEP + 5, 5 * STEP + 50, 0, 0, 0, 0x77,
                        {.what = LS_OPERAND(LS_ROLE_A, LS_OPERAND_ARRAY, 0), .address = AT(BASE)});
    unread(5 * STEP + 10, LS_CALL_NESTED);
    unknown_then("nothing");
}

/* A kernel may find the address where the host has put it. */
static void test_table(void **state) {
    (void)state;
    looked_at();
    launched(STEP, AT(LOOKED_AT));
    maker_call(&maker, 1, cudaMemcpy, 2 * STEP + 5, 2 * STEP + 6, AT(BASE), 0x7000, 64, 1);
    assert_string_equal(told(), "nothing");
}

/* What a library launches for a call whose operands are known is no secret. */
static void test_part_of_a_call(void **state) {
    (void)state;
    maker_call_operands(&maker, 1, cublasSgemm_v2, 5 * STEP + 5, 5 * STEP + 50, 0, 0, 0, 0x77,
                        MADE_OPERAND(A, 0, AT(BASE)), MADE_OPERAND(C_OUT, 0, AT(BASE)));
    unread(5 * STEP + 10, LS_CALL_NESTED);
    unknown_then(UNUSED);
}

static void test_lost(void **state) {
    (void)state;
    maker_lost(&maker, 1, LS_LOST_CAP, 1, 5 * STEP, 5 * STEP + 1);
    unknown_then("nothing");
    assert_non_null(strstr(skipped(), "is missing"));
}

static void test_without_cupti(void **state) {
    (void)state;
    looked_at();
    detect_with(false);
    assert_non_null(strstr(skipped(), "CUPTI"));
}

#define LOOP(test) cmocka_unit_test_setup_teardown(test, setup_loop, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        LOOP(test_unused),        LOOP(test_each_use),
        LOOP(test_early),         LOOP(test_late),
        LOOP(test_each_step),     LOOP(test_launch_without_arguments),
        LOOP(test_graph),         LOOP(test_more_than_are_told),
        LOOP(test_gap),           LOOP(test_shared),
        LOOP(test_lost),          LOOP(test_array_of_addresses),
        LOOP(test_table),         LOOP(test_part_of_a_call),
        LOOP(test_without_cupti),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
