/*
 * test_moments.c - what moments.c does where there is no memory: the recording is ended all the
 * same, and the trace says what it lacks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h> /* what the stack held is leaked, by intent */
#else
#define __lsan_disable() (void)0
#define __lsan_enable() (void)0
#endif

#include "made_trace.h"
#include "moments.h"
#include "trace_db.h"

static int left = -1; /* allocations that succeed; -1: all */

/* The linker has the analyzer's go here. */
void *__real_calloc(size_t count, size_t size);
void *__real_malloc(size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
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

void *__wrap_malloc(size_t size) {
    return is_refused() ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *memory, size_t size) {
    return is_refused() ? NULL : __real_realloc(memory, size);
}

static void fill(struct ls_trace *trace) {
    made_open(trace, "exit", 1000 * MS);
    made_sql(trace, "INSERT INTO stack_site(id, site) VALUES(1, 'a.py:1 f'), (2, 'b.py:2 g')");
    for (int i = 0; i < 100; i++)
        made_allocation(trace, 1, "cudaMalloc", 1 << 20, i * MS, i % 3 ? 1 : MADE_LIVE, 1 + i % 2);
    made_sql(trace,
             "INSERT INTO block(id, start_ns, end_ns, free_ns, device, address, size, stack)"
             " VALUES(1, 10, 5000, 5000, 0, 4096, 512, 1), (2, 20, NULL, NULL, 0, 8192, 512, 2)");
}

/* Moments, with so many allocations; are they whole? */
static bool build(struct ls_trace *trace, int allocations) {
    struct ls_trace_db db = {.db = trace->db};
    left = allocations;
    ls_moments_build(&db);
    left = -1;
    assert_true(ls_db_commit(&db));
    for (int i = 0; i < LS_PUT_COUNT; i++)
        sqlite3_finalize(db.put[i]);
    assert_null(sqlite3_next_stmt(trace->db, NULL)); /* none is left open */
    return made_count(trace, "SELECT COUNT(*) FROM coverage WHERE layer = 'moments'") == 0;
}

static void without_memory_it_says_so(void **state) {
    (void)state;
    struct ls_trace trace;
    fill(&trace);
    assert_true(build(&trace, -1));
    int whole = made_count(&trace, "SELECT COUNT(*) FROM moment"), failed = 0;
    assert_true(whole > 0);
    made_close(&trace);
    for (bool done = false; !done; failed++) {
        fill(&trace);
        __lsan_disable();
        done = build(&trace, failed);
        __lsan_enable();
        int there = made_count(&trace, "SELECT COUNT(*) FROM moment");
        assert_true(done ? there == whole : there <= whole);
        made_close(&trace);
    }
    assert_true(failed > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_memory_it_says_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
