/*
 * test_detect_device_use.c - the detectors that look at how full devices were: `untracked-growth`
 * and `stray-context`.
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

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
#define TOTAL (80 * GIB)
#define CONTEXT (400 * MIB)
#define SECOND (1000 * MS)

static struct ls_trace trace;

static int open_exited(void **state) {
    (void)state;
    made_open(&trace, "exit", 100 * SECOND);
    made_call(&trace, "cudaSetDevice", 0);
    made_call(&trace, "cudaDeviceSynchronize", 99 * SECOND);
    return 0;
}

static int close_it(void **state) {
    (void)state;
    made_close(&trace);
    return 0;
}

static void run(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *sql = sqlite3_vmprintf(format, args);
    va_end(args);
    made_sql(&trace, sql);
    sqlite3_free(sql);
}

/* A complete row; own, others -1: not told. */
static void sample(int device, int64_t ts_ns, int64_t used, int64_t own, int64_t others,
                   int64_t tracked, const char *source) {
    run("INSERT INTO device_use(ts_ns, device, used, total, own_process, other_processes, source,"
        " tracked, context, uncertain) VALUES(%lld, %d, %lld, %lld, NULLIF(%lld, -1),"
        " NULLIF(%lld, -1), %Q, %lld, %lld, 0)",
        (long long)ts_ns, device, (long long)used, (long long)TOTAL, (long long)own,
        (long long)others, source, (long long)tracked, (long long)CONTEXT);
}

static int count(const char *kind) {
    char sql[120];
    snprintf(sql, sizeof sql, "SELECT COUNT(*) FROM finding WHERE kind = '%s'", kind);
    return made_count(&trace, sql);
}

static const char *skipped(const char *kind) {
    static char text[400];
    sqlite3_stmt *stmt;
    char *sql = sqlite3_mprintf("SELECT reason FROM skipped WHERE kind = %Q", kind);
    assert_int_equal(sqlite3_prepare_v2(trace.db, sql, -1, &stmt, NULL), SQLITE_OK);
    bool found = sqlite3_step(stmt) == SQLITE_ROW;
    snprintf(text, sizeof text, "%s", found ? (const char *)sqlite3_column_text(stmt, 0) : "");
    sqlite3_finalize(stmt);
    sqlite3_free(sql);
    return text;
}

static void detect(void) {
    assert_int_equal(ls_detect_run(&trace), LS_EXIT_OK);
}

/* ---- untracked-growth ---- */

/* A sample each second: what is tracked swings, what is beside it is told by `beside`. */
static void each_second(int64_t (*beside)(int second), bool own, int64_t (*others)(int second)) {
    for (int s = 0; s < 100; s++) {
        int64_t tracked = (s % 3) * GIB, mine = CONTEXT + beside(s) + tracked;
        int64_t theirs = others ? others(s) : 0;
        sample(0, s * SECOND, mine + theirs, own ? mine : -1, own ? theirs : -1, tracked, "nvml");
    }
}

static int64_t nothing(int second) {
    (void)second;
    return 0;
}
static int64_t steadily(int second) {
    return second * 64 * MIB;
}
static int64_t by_steps(int second) {
    return second / 10 * 600 * MIB;
}
static int64_t at_first(int second) {
    return (second < 20 ? second : 20) * 128 * MIB; /* modules, plans */
}
static int64_t up_and_down(int second) {
    return second % 7 * GIB;
}
static int64_t slowly(int second) {
    return second * 100000; /* ten MB in all */
}
static int64_t until_full(int second) {
    return (second < 75 ? second : 75) * 64 * MIB;
}
static int64_t late_once(int second) {
    return second < 70 ? 0 : 8 * GIB;
}

static void steady_use_is_no_growth(void **state) {
    (void)state;
    each_second(nothing, true, NULL);
    detect();
    assert_int_equal(count("untracked-growth"), 0);
    assert_string_equal(skipped("untracked-growth"), "");
}

static void what_rises_beside_the_tracked_is_told(void **state) {
    (void)state;
    each_second(steadily, true, NULL);
    detect();
    assert_int_equal(count("untracked-growth"), 1);
    assert_string_equal(made_finding(&trace, 1, "severity"), "problem");
    assert_string_equal(made_finding(&trace, 1, "site"), "site unknown");
    /* From the end of the first quarter on. */
    assert_int_equal(made_finding_number(&trace, 1, "bytes"), (99 - 25) * 64 * MIB);
    assert_int_equal(made_finding_number(&trace, 1, "json_extract(evidence, '$.bytes_per_second')"),
                     64 * MIB);
    assert_string_equal(made_finding(&trace, 1, "json_extract(evidence, '$.shape')"), "goes on");
    assert_string_equal(made_finding(&trace, 1, "json_extract(evidence, '$.confidence')"), "seen");
}

static void steps_of_growth_are_named(void **state) {
    (void)state;
    each_second(by_steps, true, NULL);
    for (int s = 0; s < 100; s++)
        run("INSERT INTO step(loop, source, start_ns, end_ns) VALUES(1, 'marked', %lld, %lld)",
            (long long)(s * SECOND), (long long)(s * SECOND + SECOND));
    made_call(&trace, "cudnnCreate", 29 * SECOND + 500 * MS);
    made_call(&trace, "cudaMemsetAsync", 29 * SECOND + 600 * MS);
    made_call(&trace, "cudaMemsetAsync", 98 * SECOND);
    detect();
    assert_int_equal(count("untracked-growth"), 1);
    assert_int_equal(made_finding_number(&trace, 1, "count"), 9);
    /* The last step that ended is the one that the last sample lies at the begin of. */
    assert_int_equal(made_finding_number(&trace, 1, "json_extract(evidence, '$.bytes_per_step')"),
                     9 * 600 * MIB / 97);
    assert_int_equal(made_count(&trace, "SELECT json_array_length(evidence, '$.jumps') FROM finding"
                                        " WHERE kind = 'untracked-growth'"),
                     5);
}

static void a_process_that_is_going_tells_nothing(void **state) {
    (void)state;
    each_second(steadily, true, NULL);
    made_sql(&trace, "UPDATE device_use SET own_process = 0, used = 0 WHERE ts_ns = 99000000000");
    made_sql(&trace, "UPDATE device_use SET own_process = 4096 WHERE ts_ns = 98000000000;"
                     "UPDATE meta SET value = '97500000000' WHERE key = 'end_ns'");
    detect();
    assert_int_equal(count("untracked-growth"), 1);
    assert_int_equal(made_finding_number(&trace, 1, "bytes"), (97 - 25) * 64 * MIB);
}

static void what_came_at_first_is_not_told(void **state) {
    (void)state;
    each_second(at_first, true, NULL);
    detect();
    assert_int_equal(count("untracked-growth"), 0);
}

static void what_is_given_back_is_no_growth(void **state) {
    (void)state;
    each_second(up_and_down, true, NULL);
    detect();
    assert_int_equal(count("untracked-growth"), 0);
}

static void little_is_not_told(void **state) {
    (void)state;
    each_second(slowly, true, NULL);
    detect();
    assert_int_equal(count("untracked-growth"), 0);
}

static void growth_that_stops_is_a_note(void **state) {
    (void)state;
    each_second(until_full, true, NULL);
    detect();
    assert_int_equal(count("untracked-growth"), 1);
    assert_string_equal(made_finding(&trace, 1, "severity"), "info");
    assert_string_equal(made_finding(&trace, 1, "json_extract(evidence, '$.shape')"),
                        "grew and stopped");
}

static void one_large_jump_is_a_note(void **state) {
    (void)state;
    each_second(late_once, true, NULL);
    detect();
    assert_int_equal(count("untracked-growth"), 1);
    assert_int_equal(made_count(&trace, "SELECT COUNT(*) FROM finding WHERE severity = 'info' AND"
                                        " bytes = 8589934592"),
                     1);
    assert_int_equal(count("stray-context"), 0); /* so much is no context */
}

static void another_process_explains_it(void **state) {
    (void)state;
    each_second(nothing, true, steadily);
    detect();
    assert_int_equal(count("untracked-growth"), 0);
}

static void where_processes_are_not_told_apart_it_is_less_sure(void **state) {
    (void)state;
    each_second(steadily, false, NULL);
    detect();
    assert_int_equal(count("untracked-growth"), 1);
    assert_string_equal(made_finding(&trace, 1, "severity"), "warning");
    assert_string_equal(made_finding(&trace, 1, "json_extract(evidence, '$.confidence')"),
                        "linked");
    assert_non_null(strstr(made_finding(&trace, 1, "advice"), "nvidia-smi"));
}

static void the_programs_own_questions_will_do(void **state) {
    (void)state;
    for (int s = 0; s < 60; s++)
        sample(0, s * SECOND, CONTEXT + s * 64 * MIB / 10, -1, -1, 0, "program");
    detect();
    assert_int_equal(count("untracked-growth"), 1);
    assert_string_equal(made_finding(&trace, 1, "json_extract(evidence, '$.source')"), "program");
}

static void what_pools_may_keep_is_no_growth(void **state) {
    (void)state;
    each_second(steadily, true, NULL);
    made_sql(&trace, "UPDATE device_use SET uncertain = own_process");
    detect();
    assert_int_equal(count("untracked-growth"), 0);
}

static void without_samples_it_is_skipped(void **state) {
    (void)state;
    detect();
    assert_non_null(strstr(skipped("untracked-growth"), "how full a device was"));
    for (int s = 0; s < 3; s++)
        sample(0, s * SECOND, CONTEXT, CONTEXT, 0, 0, "nvml");
    detect();
    assert_non_null(strstr(skipped("untracked-growth"), "3 moments only"));
}

/* ---- stray-context ---- */

/* Work on a device: an allocation of 1 GiB, launches. */
static void work_on(int device, int64_t start_ns) {
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", GIB, start_ns, MADE_LIVE, 0);
    run("UPDATE allocation SET device = %d WHERE id = last_insert_rowid()", device);
    for (int i = 0; i < 5; i++) {
        made_call(&trace, "cudaLaunchKernel", start_ns + i * SECOND);
        run("UPDATE call SET device = %d WHERE id = last_insert_rowid()", device);
    }
    made_sql(&trace, "UPDATE api SET class = 'launch' WHERE name = 'cudaLaunchKernel'");
    made_sql(&trace, "UPDATE api SET class = 'device_alloc' WHERE name = 'cudaMalloc'");
}

static void own_on(int device, int64_t own, int64_t tracked) {
    for (int s = 1; s < 20; s++)
        sample(device, s * SECOND, own, own, 0, tracked, "nvml");
}

static void a_context_without_any_work_is_stray(void **state) {
    (void)state;
    work_on(1, SECOND);
    own_on(0, 871 * MIB, 0);
    own_on(1, GIB + CONTEXT, GIB);
    detect();
    assert_int_equal(count("stray-context"), 1);
    assert_string_equal(made_finding(&trace, 1, "kind"), "stray-context");
    assert_string_equal(made_finding(&trace, 1, "severity"), "warning");
    assert_string_equal(made_finding(&trace, 1, "site"), "site unknown");
    assert_int_equal(made_finding_number(&trace, 1, "bytes"), 871 * MIB);
    assert_int_equal(made_finding_number(&trace, 1, "json_extract(evidence, '$.device')"), 0);
    assert_int_equal(made_finding_number(&trace, 1, "json_extract(evidence, '$.works_on')"), 1);
}

static void who_pinned_memory_made_it(void **state) {
    (void)state;
    int64_t stack = made_stack(&trace, "loader.c:7 pin", NULL);
    work_on(1, SECOND);
    made_call(&trace, "cudaHostAlloc", 2 * SECOND);
    run("UPDATE call SET device = 0, stack = %lld, thread = 2 WHERE id = last_insert_rowid()",
        (long long)stack);
    made_sql(&trace, "UPDATE api SET class = 'pinned_alloc' WHERE name = 'cudaHostAlloc';"
                     "INSERT INTO thread VALUES(2, 4711, 'pin')");
    detect();
    assert_int_equal(count("stray-context"), 1);
    assert_string_equal(made_finding(&trace, 1, "site"), "loader.c:7 pin");
    assert_string_equal(made_finding(&trace, 1, "json_extract(evidence, '$.made_by')"),
                        "cudaHostAlloc");
    assert_string_equal(made_finding(&trace, 1, "json_extract(evidence, '$.thread')"), "pin");
    assert_string_equal(made_finding(&trace, 1, "json_extract(evidence, '$.confidence')"),
                        "estimated");
    assert_int_equal(made_finding_number(&trace, 1, "bytes"), 0); /* nobody measured */
}

static void tensors_that_were_loaded_there_are_told_apart(void **state) {
    (void)state;
    made_allocation(&trace, LS_MEMORY_DEVICE, "cudaMalloc", 64 * MIB, 1 * SECOND, MADE_LIVE,
                    made_stack(&trace, "train.py:9 load", NULL));
    made_sql(&trace, "UPDATE allocation SET device = 0");
    made_sql(&trace, "UPDATE call SET device = 0, stack = 1 WHERE id = last_insert_rowid()");
    work_on(1, 2 * SECOND);
    own_on(0, 500 * MIB, 64 * MIB);
    detect();
    assert_int_equal(count("stray-context"), 1);
    assert_int_equal(made_count(&trace, "SELECT bytes FROM finding WHERE kind = 'stray-context'"),
                     (500 - 64) * MIB);
    assert_int_equal(made_count(&trace,
                                "SELECT COUNT(*) FROM finding WHERE kind = 'stray-context' AND"
                                " json_extract(evidence, '$.shape') = 'context and tensors' AND"
                                " advice LIKE '%map_location%'"),
                     1);
}

static void two_devices_at_work_are_none(void **state) {
    (void)state;
    work_on(0, SECOND);
    work_on(1, SECOND);
    own_on(0, GIB + CONTEXT, GIB);
    own_on(1, GIB + CONTEXT, GIB);
    detect();
    assert_int_equal(count("stray-context"), 0);
    assert_string_equal(skipped("stray-context"), "");
}

static void one_device_is_none(void **state) {
    (void)state;
    work_on(0, SECOND);
    own_on(0, GIB + CONTEXT, GIB);
    own_on(1, 0, 0);
    detect();
    assert_int_equal(count("stray-context"), 0);
}

static void without_anything_to_tell_by_it_is_skipped(void **state) {
    (void)state;
    work_on(0, SECOND);
    detect();
    assert_int_equal(count("stray-context"), 0);
    assert_non_null(strstr(skipped("stray-context"), "neither NVML"));
}

static void a_call_that_makes_contexts_is_named(void **state) {
    (void)state;
    int64_t stack = made_stack(&trace, "train.py:3 main", NULL);
    work_on(1, SECOND);
    made_call(&trace, "cuDevicePrimaryCtxRetain", 500 * MS);
    run("UPDATE call SET device = 1, f1 = 0, stack = %lld WHERE id = last_insert_rowid()",
        (long long)stack);
    made_sql(&trace, "UPDATE api SET class = 'context', fields = '[{\"name\":\"context\",\"type\":"
                     "\"handle\"},{\"name\":\"device\",\"type\":\"device\"}]'"
                     " WHERE name = 'cuDevicePrimaryCtxRetain'");
    detect();
    assert_int_equal(count("stray-context"), 1);
    assert_string_equal(made_finding(&trace, 1, "site"), "train.py:3 main");
    assert_string_equal(made_finding(&trace, 1, "json_extract(evidence, '$.confidence')"),
                        "linked");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_exited, close_it)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(steady_use_is_no_growth),
        TEST(what_rises_beside_the_tracked_is_told),
        TEST(steps_of_growth_are_named),
        TEST(a_process_that_is_going_tells_nothing),
        TEST(what_came_at_first_is_not_told),
        TEST(what_is_given_back_is_no_growth),
        TEST(little_is_not_told),
        TEST(growth_that_stops_is_a_note),
        TEST(one_large_jump_is_a_note),
        TEST(another_process_explains_it),
        TEST(where_processes_are_not_told_apart_it_is_less_sure),
        TEST(the_programs_own_questions_will_do),
        TEST(what_pools_may_keep_is_no_growth),
        TEST(without_samples_it_is_skipped),
        TEST(a_context_without_any_work_is_stray),
        TEST(who_pinned_memory_made_it),
        TEST(tensors_that_were_loaded_there_are_told_apart),
        TEST(two_devices_at_work_are_none),
        TEST(one_device_is_none),
        TEST(without_anything_to_tell_by_it_is_skipped),
        TEST(a_call_that_makes_contexts_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
