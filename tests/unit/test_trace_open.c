/*
 * test_trace_open.c - opening traces: what is refused, and spools that were left behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect.h"
#include "spool_maker.h"
#include "trace.h"

static struct maker maker;

static int setup(void **state) {
    (void)state;
    maker_open(&maker, false);
    maker_call(&maker, 1, cudaMalloc, 1, 2, 0x1000, 64);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    maker_close(&maker);
    return 0;
}

static const char *in_folder(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", maker.dir, name);
    return path;
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void refuses(const char *path) {
    struct ls_trace trace;
    assert_int_equal(ls_trace_open(&trace, path), LS_EXIT_INPUT);
    assert_null(trace.db);
}

static int calls(const char *path) {
    struct ls_trace trace;
    sqlite3_stmt *stmt;
    assert_int_equal(ls_trace_open(&trace, path), LS_EXIT_OK);
    assert_true(trace.writable);
    assert_int_equal(sqlite3_prepare_v2(trace.db, "SELECT COUNT(*) FROM call", -1, &stmt, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int count = sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    ls_trace_close(&trace);
    return count;
}

static void test_refusals(void **state) {
    (void)state;
    refuses(in_folder("missing.db"));
    refuses(maker.dir);
    refuses("/dev/null");
    write_file(in_folder("empty.db"), "");
    refuses(in_folder("empty.db"));
    write_file(in_folder("text.db"),
               "certainly not a database, and longer than its header would be: "
               "one hundred bytes, and then a few more of them");
    refuses(in_folder("text.db"));
    refuses(maker.spool);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(in_folder("other.db"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE t(a)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    refuses(in_folder("other.db"));
}

static void test_newer_version(void **state) {
    (void)state;
    sqlite3 *db;
    assert_int_equal(calls(maker.trace), 1);
    assert_int_equal(sqlite3_open(maker.trace, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version=1000", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    refuses(maker.trace);
}

static void test_left_behind(void **state) {
    (void)state;
    assert_int_equal(calls(maker.trace), 1);
    assert_int_equal(access(maker.spool, F_OK), -1);
    assert_int_equal(calls(maker.trace), 1);
}

static void test_pointer_to_another_disk(void **state) {
    (void)state;
    char text[300], elsewhere[128];
    snprintf(elsewhere, sizeof elsewhere, "%s", in_folder("elsewhere"));
    assert_int_equal(rename(maker.spool, elsewhere), 0);
    snprintf(text, sizeof text, LS_SPOOL_POINTER "%s\n", elsewhere);
    write_file(maker.spool, text);
    assert_int_equal(calls(maker.trace), 1);
    assert_int_equal(access(maker.spool, F_OK), -1);
    assert_int_equal(access(elsewhere, F_OK), -1);
}

/* Trace and spool were moved together: the rows go into the moved one. */
static void test_moved(void **state) {
    (void)state;
    char spool[140];
    snprintf(spool, sizeof spool, "%s", in_folder("moved.db.spool"));
    assert_int_equal(rename(maker.spool, spool), 0);
    assert_int_equal(calls(in_folder("moved.db")), 1);
    assert_int_equal(access(maker.trace, F_OK), -1);
}

/* A damaged spool does not keep the reader from what the trace holds. */
static void test_bad_spool_good_trace(void **state) {
    (void)state;
    assert_int_equal(calls(maker.trace), 1);
    write_file(maker.spool, "rubbish");
    assert_int_equal(calls(maker.trace), 1);
    assert_int_equal(unlink(maker.trace), 0);
    refuses(maker.trace);
}

static void test_running_without_collector(void **state) {
    (void)state;
    struct maker live;
    maker_open(&live, true);
    maker_call(&live, 1, cudaMalloc, 1, 2, 0x1000, 64);
    assert_int_equal(calls(live.trace), 1);
    maker_call(&live, 1, cudaMalloc, 3, 4, 0x2000, 64);
    assert_int_equal(calls(live.trace), 2);
    assert_int_equal(access(live.spool, F_OK), 0);
    maker_close(&live);
}

/* Another reader is at work on a dead program's spool: wait for it to end. */
static void test_waits_for_another_reader(void **state) {
    (void)state;
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(maker.spool, O_RDWR);
        flock(fd, LOCK_EX);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        usleep(300000);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(calls(maker.trace), 1);
    assert_int_equal(access(maker.spool, F_OK), -1);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_refusals),
        TEST(test_newer_version),
        TEST(test_left_behind),
        TEST(test_pointer_to_another_disk),
        TEST(test_moved),
        TEST(test_bad_spool_good_trace),
        TEST(test_running_without_collector),
        TEST(test_waits_for_another_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
