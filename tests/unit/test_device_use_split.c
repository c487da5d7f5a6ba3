/*
 * test_device_use_split.c - what device_use_split.c makes of samples and lifetimes, and where there
 * is no memory to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device_use.h"
#include "live.h"
#include "made_trace.h"
#include "trace_db.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
#define TOTAL (80 * GIB)
#define SECOND (1000 * MS)

static struct ls_trace trace;
static int left = -1; /* allocations that succeed; -1: all */

/* The linker has the analyzer's go here. */
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static bool is_refused(void) {
    if (left > 0)
        left--;
    else if (left == 0)
        return true;
    return false;
}

void *__wrap_calloc(size_t count, size_t size) {
    return is_refused() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size) {
    return is_refused() ? NULL : __real_realloc(memory, size);
}

static int open_exited(void **state) {
    (void)state;
    made_open(&trace, "exit", 100 * SECOND);
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

static bool split(char *note, size_t size) {
    struct ls_trace_db db = {.db = trace.db};
    *note = '\0';
    bool done = ls_device_use_split(&db, note, size);
    assert_true(ls_db_commit(&db));
    for (int i = 0; i < LS_PUT_COUNT; i++)
        sqlite3_finalize(db.put[i]);
    return done;
}

static void told(int device, int64_t ts_ns, int64_t used, int64_t own) {
    run("INSERT INTO device_use(ts_ns, device, used, total, own_process, other_processes, source)"
        " VALUES(%lld, %d, %lld, %lld, NULLIF(%lld, -1), 0, 'nvml')",
        (long long)ts_ns, device, (long long)used, (long long)TOTAL, (long long)own);
}

static void lifetime(int kind, int64_t size, int64_t start_ns, int64_t end_ns) {
    run("INSERT INTO allocation(start_ns, end_ns, kind, device, size) VALUES(%lld,"
        " NULLIF(%lld, -1), %d, 0, %lld)",
        (long long)start_ns, (long long)end_ns, kind, (long long)size);
}

static int64_t at(const char *column, int64_t ts_ns) {
    char sql[160];
    snprintf(sql, sizeof sql, "SELECT %s / 1048576 FROM device_memory WHERE ts_ns = %lld", column,
             (long long)ts_ns);
    return made_count(&trace, sql);
}

static void what_is_live_is_tracked(void **state) {
    char note[200];
    (void)state;
    lifetime(LS_MEMORY_DEVICE, 100 * MIB, 1 * SECOND, 3 * SECOND);
    lifetime(LS_MEMORY_ARRAY, 10 * MIB, 1 * SECOND, -1);
    lifetime(LS_MEMORY_PINNED, 1000 * MIB, 1 * SECOND, -1);
    lifetime(LS_MEMORY_IPC, 1000 * MIB, 1 * SECOND, -1);
    lifetime(LS_MEMORY_MANAGED, 7 * MIB, 1 * SECOND, 3 * SECOND);
    lifetime(LS_MEMORY_VMM, 40 * MIB, 1 * SECOND, -1);
    run("INSERT INTO vmm_range(start_ns, kind, device, size) VALUES(%lld, 2, 0, %lld)",
        (long long)SECOND, (long long)(60 * MIB));
    told(0, 0, 0, 0);
    told(0, 2 * SECOND, 600 * MIB, 600 * MIB);
    told(0, 4 * SECOND, 600 * MIB, 600 * MIB);
    assert_true(split(note, sizeof note));
    assert_int_equal(at("tracked", 0), 0);
    assert_int_equal(at("tracked", 2 * SECOND), 170);
    assert_int_equal(at("context", 2 * SECOND), 430);
    assert_int_equal(at("unknown", 2 * SECOND), 0);
    assert_int_equal(at("uncertain", 2 * SECOND), 7);
    assert_int_equal(at("tracked", 4 * SECOND), 70);
    assert_int_equal(at("unknown", 4 * SECOND), 100);
    assert_int_equal(at("context", 0), 0);
    assert_string_equal(note, ""); /* NVML knows the process */
    made_sql(&trace, "UPDATE device_use SET own_process = NULL");
    assert_true(split(note, sizeof note));
    assert_non_null(strstr(note, "never told the size"));
}

static void pools_may_keep_their_peak(void **state) {
    char note[200];
    (void)state;
    lifetime(LS_MEMORY_ASYNC, 100 * MIB, 1 * SECOND, 2 * SECOND);
    lifetime(LS_MEMORY_ASYNC, 100 * MIB, 2 * SECOND, 3 * SECOND);
    lifetime(LS_MEMORY_ASYNC, 30 * MIB, 2 * SECOND, -1);
    told(0, 4 * SECOND, 600 * MIB, 600 * MIB);
    assert_true(split(note, sizeof note));
    assert_int_equal(at("tracked", 4 * SECOND), 30);
    assert_int_equal(at("uncertain", 4 * SECOND), 100);
}

static void another_device_is_left_out(void **state) {
    char note[200];
    (void)state;
    run("INSERT INTO memory(ts_ns, device, device_free, device_total) VALUES(1, 0, %lld, %lld)",
        (long long)(20 * GIB), (long long)(24 * GIB));
    told(0, 2 * SECOND, 600 * MIB, -1);
    assert_true(split(note, sizeof note));
    assert_int_equal(made_count(&trace, "SELECT COUNT(*) FROM device_use WHERE source = 'nvml'"),
                     0);
    assert_int_equal(made_count(&trace, "SELECT used / 1048576 FROM device_memory"), 4096);
    assert_non_null(strstr(note, "left out"));
    assert_true(split(note, sizeof note)); /* it can be done twice */
    assert_int_equal(made_count(&trace, "SELECT COUNT(*) FROM device_use"), 1);
}

static void a_process_that_has_less_than_it_allocated_is_another(void **state) {
    char note[200];
    (void)state;
    lifetime(LS_MEMORY_DEVICE, GIB, 1 * SECOND, -1);
    for (int s = 2; s < 6; s++)
        told(0, s * SECOND, 40 * GIB, 400 * MIB);
    assert_true(split(note, sizeof note));
    assert_int_equal(made_count(&trace, "SELECT COUNT(*) FROM device_use"), 0);
    assert_non_null(strstr(note, "less on device 0"));
}

/* At whatever allocation: the samples stay as they were told, and the caller hears of it. */
static void without_memory_it_goes_on(void **state) {
    char note[200];
    int failed = 0;
    (void)state;
    lifetime(LS_MEMORY_DEVICE, 100 * MIB, 1 * SECOND, -1);
    lifetime(LS_MEMORY_ASYNC, 100 * MIB, 1 * SECOND, -1);
    told(0, 2 * SECOND, 600 * MIB, 600 * MIB);
    for (;; failed++) {
        left = failed;
        bool done = split(note, sizeof note);
        left = -1;
        if (done)
            break;
        assert_int_equal(made_count(&trace, "SELECT COUNT(*) FROM device_use"), 1);
        assert_int_equal(made_count(&trace, "SELECT COUNT(*) FROM device_memory"), 0);
    }
    assert_in_range(failed, 5, 30);
    assert_int_equal(at("tracked", 2 * SECOND), 200);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_exited, close_it)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_is_live_is_tracked),
        TEST(pools_may_keep_their_peak),
        TEST(another_device_is_left_out),
        TEST(a_process_that_has_less_than_it_allocated_is_another),
        TEST(without_memory_it_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
