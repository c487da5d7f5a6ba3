/*
 * test_stacks.c - stacks of two kinds: Python's frames around the native ones, also where a
 * collector was killed in between.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "collect.h"
#include "ingest.h"
#include "spool_fixture.h"

static char why[512];

static void take(void) {
    assert_int_equal(ls_collect_once(maker.spool, maker.trace, 0, why, sizeof why),
                     LS_COLLECTED_LIVE);
}

static void finish(void) {
    maker.header->image++; /* the process runs another program now */
    assert_int_equal(maker_collect(&maker), LS_EXIT_OK);
}

static const char *frames_of(int id) {
    char sql[300];
    snprintf(sql, sizeof sql,
             "SELECT group_concat(kind||' '||function||' '||IFNULL(file,'-')||' '||"
             "IFNULL(line,'-'), '; ') FROM (SELECT * FROM stack_frame WHERE stack_id=%d ORDER BY "
             "depth)",
             id);
    return maker_ask(&maker, sql);
}

static const char *site_of(int id) {
    char sql[80];
    snprintf(sql, sizeof sql, "SELECT site FROM stack_site WHERE id=%d", id);
    return maker_ask(&maker, sql);
}

static void write_python(unsigned thread) {
    maker_code(&maker, thread, 1, "step", "/home/me/train.py");
    maker_code(&maker, thread, 2, "<module>", "/home/me/train.py");
    maker_code(&maker, thread, 3, "forward", "/v/site-packages/torch/nn/modules/linear.py");
    maker_code(&maker, thread, 4, "step", "/home/me/train.py"); /* the same, made anew */
    maker_python(&maker, thread, 1, 3, (const struct ls_python_frame[]){{3, 30}, {1, 12}, {2, 40}});
    maker_python(&maker, thread, 2, 2, (const struct ls_python_frame[]){{1, 12}, {2, 40}});
    maker_python(&maker, thread, 3, 2, (const struct ls_python_frame[]){{4, 12}, {2, 40}});
}

static const uint64_t address[] = {0x7010, 0x7020};

static void test_mixed(void **state) {
    (void)state;
    write_python(1);
    maker_mixed_stack(&maker, 1, 1, 1, 2, address, 1, 0);
    maker_mixed_stack(&maker, 1, 2, 1, 1, address, 2, 0);
    maker_mixed_stack(&maker, 1, 3, 1, 1, address, 3, 0);
    maker_mixed_stack(&maker, 1, 4, 1, 0, address, 2, 0); /* no native frame was taken */
    maker_stack(&maker, 1, 5, 1, 1, address);
    finish();
    assert_string_equal(frames_of(1),
                        "native ?"
                        "? - -; native ?"
                        "? - -; "
                        "python forward /v/site-packages/torch/nn/modules/linear.py 30; "
                        "python step /home/me/train.py 12; python <module> /home/me/train.py 40");
    assert_string_equal(frames_of(4),
                        "python step /home/me/train.py 12; python <module> /home/me/train.py 40");
    assert_string_equal(frames_of(5), "native ?"
                                      "? - -");
    for (int id = 1; id <= 4; id++)
        assert_string_equal(site_of(id), "/home/me/train.py:12 step");
    assert_string_equal(site_of(5), "");
    /* Code that comes again is the same frame, and the same node. */
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM frame WHERE kind=1"), 3);
    assert_int_equal(maker_number(&maker,
                                  "SELECT COUNT(DISTINCT stack) FROM stack_site WHERE id IN "
                                  "(2,3)"),
                     1);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM sqlite_master WHERE name LIKE "
                                          "'raw%'"),
                     0);
}

/* A backward pass: the frames of the forward operation are no callers, but the site. */
static void test_forward(void **state) {
    (void)state;
    write_python(1);
    maker_mixed_stack(&maker, 1, 1, 1, 1, address, 0, 1);
    maker_mixed_stack(&maker, 1, 2, 1, 1, address, 1, 0);
    take();
    take();
    maker_code(&maker, 1, 9, "apply", "/v/site-packages/torch/f.py");
    maker_python(&maker, 1, 9, 1, (const struct ls_python_frame[]){{9, 7}});
    maker_mixed_stack(&maker, 1, 3, 1, 1, address, 0, 1);
    maker_mixed_stack(&maker, 1, 4, 1, 1, address, 9, 2); /* a node that is written in Python */
    finish();
    for (int id = 1; id <= 3; id += 2)
        assert_string_equal(frames_of(id),
                            "native ?"
                            "? - -; "
                            "forward forward /v/site-packages/torch/nn/modules/linear.py 30; "
                            "forward step /home/me/train.py 12; "
                            "forward <module> /home/me/train.py 40");
    assert_string_equal(frames_of(4), "native ?"
                                      "? - -; python apply /v/site-packages/torch/f.py 7; "
                                      "forward step /home/me/train.py 12; "
                                      "forward <module> /home/me/train.py 40");
    for (int id = 1; id <= 4; id++)
        assert_string_equal(site_of(id), "/home/me/train.py:12 step");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM frame WHERE kind=2"), 3);
    assert_int_equal(maker_number(&maker,
                                  "SELECT COUNT(DISTINCT stack) FROM stack_site WHERE id IN "
                                  "(1,3)"),
                     1);
}

/* What is not known, and what only a damaged spool can say. */
static void test_unknown(void **state) {
    (void)state;
    maker_code(&maker, 1, 1, "f", "a.py");
    maker_python(&maker, 1, 1, 3, (const struct ls_python_frame[]){{0, 0}, {77, 5}, {1, 0}});
    maker_python(&maker, 1, 2, 0, (const struct ls_python_frame[]){{0, 0}});
    maker_mixed_stack(&maker, 1, 1, 1, 1, address, 1, 0);
    maker_mixed_stack(&maker, 1, 2, 1, 1, address, 2, 0);
    maker_mixed_stack(&maker, 1, 3, 1, 1, address, 99, 0);
    finish();
    assert_string_equal(frames_of(1), "native ?"
                                      "? - -; python ?"
                                      "? - -; python ?"
                                      "? - 5; "
                                      "python f a.py -");
    assert_string_equal(site_of(1), "a.py:0 f");
    assert_string_equal(frames_of(2), "native ?"
                                      "? - -");
    assert_string_equal(frames_of(3), "native ?"
                                      "? - -");
}

/* Another thread told the frames: they come later than the stack that has them. */
static void test_other_thread(void **state) {
    (void)state;
    maker_mixed_stack(&maker, 1, 1, 1, 1, address, 2, 0);
    write_python(2);
    finish();
    assert_string_equal(site_of(1), "/home/me/train.py:12 step");
}

/* One collector, drain by drain. */
static struct ls_spool spool;
static struct ls_ingest ingest;

static void open_drains(void) {
    assert_int_equal(ls_spool_open(&spool, maker.spool, why, sizeof why), LS_SPOOL_OK);
    assert_true(ls_ingest_open(&ingest, &spool, why, sizeof why));
}

static void one_drain(void) {
    assert_true(ls_ingest_drain(&ingest, false, why, sizeof why) >= 0);
}

static void close_drains(void) {
    ls_ingest_close(&ingest);
    ls_spool_close(&spool);
}

/* A drain that looks at chunk after chunk may have a stack and not yet what another thread told
 * before it: the drain after it has. */
static void test_between_chunks(void **state) {
    (void)state;
    open_drains();
    maker_python(&maker, 1, 1, 1, (const struct ls_python_frame[]){{1, 12}});
    maker_mixed_stack(&maker, 1, 1, 1, 1, address, 1, 0);
    maker_mixed_stack(&maker, 1, 2, 1, 1, address, 0, 2);
    one_drain();
    maker_module(&maker, 2, 1, 0x7000, 0x7000, 0x8000, "/lib/x.so", NULL, 0);
    maker_code(&maker, 2, 1, "step", "/home/me/train.py");
    maker_python(&maker, 2, 2, 1, (const struct ls_python_frame[]){{1, 13}});
    one_drain();
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM raw_stack"), 0);
    close_drains();
    finish();
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(module||' '||offset) FROM "
                                          "stack_frame WHERE kind='native'"),
                        "/lib/x.so 16,/lib/x.so 16");
    assert_string_equal(site_of(1), "/home/me/train.py:12 step");
    assert_string_equal(site_of(2), "/home/me/train.py:13 step");
}

/* However late they come, also to other collectors; at the end there is no more to wait for. */
static void test_late_python(void **state) {
    (void)state;
    open_drains();
    maker_mixed_stack(&maker, 1, 1, 1, 1, address, 1, 0);
    maker_mixed_stack(&maker, 1, 2, 1, 1, address, 0, 2);
    maker_mixed_stack(&maker, 1, 3, 1, 1, address, 3, 0);
    for (int i = 0; i < 3; i++)
        one_drain();
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM raw_stack"), 3);
    maker_code(&maker, 2, 1, "step", "/home/me/train.py");
    maker_python(&maker, 2, 1, 1, (const struct ls_python_frame[]){{1, 12}});
    one_drain();
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(id) FROM raw_stack"), "2,3");
    close_drains();
    take();
    maker_python(&maker, 2, 2, 1, (const struct ls_python_frame[]){{1, 13}});
    take();
    assert_string_equal(maker_ask(&maker, "SELECT group_concat(id) FROM raw_stack"), "3");
    finish();
    assert_string_equal(site_of(1), "/home/me/train.py:12 step");
    assert_string_equal(site_of(2), "/home/me/train.py:13 step");
    assert_string_equal(frames_of(3), "native ?"
                                      "? - -");
}

static void cut_python(uint32_t id) {
    struct {
        struct ls_rec_python head;
        struct ls_python_frame frame;
    } record = {{.head = {.type = LS_REC_PYTHON, .size = sizeof record},
                 .id = id,
                 .depth = 1,
                 .truncated = 1},
                {1, 12}};
    maker_raw(&maker, 1, &record, sizeof record);
}

static void cut_stack(uint32_t id, uint32_t python, uint32_t forward) {
    struct {
        struct ls_rec_stack head;
        uint64_t address;
    } record = {{.head = {.type = LS_REC_STACK, .size = sizeof record},
                 .id = id,
                 .modules = 1,
                 .depth = 1,
                 .truncated = 1,
                 .python = python,
                 .forward = forward},
                address[0]};
    maker_raw(&maker, 1, &record, sizeof record);
}

static const char *cut_kinds(int id) {
    char sql[120];
    snprintf(sql, sizeof sql,
             "SELECT group_concat(kind||' '||truncated) FROM (SELECT * FROM stack_frame WHERE "
             "stack_id=%d ORDER BY depth)",
             id);
    return maker_ask(&maker, sql);
}

/* A stack that the recording cut is told from a whole one, also by a later collector. */
static void test_truncated(void **state) {
    (void)state;
    write_python(1);
    cut_python(9);
    cut_stack(1, 2, 9);
    open_drains();
    one_drain();
    close_drains(); /* raw */
    cut_stack(2, 9, 0);
    maker_mixed_stack(&maker, 1, 3, 1, 1, address, 9, 0);
    maker_mixed_stack(&maker, 1, 4, 1, 1, address, 2, 0);
    finish();
    assert_string_equal(cut_kinds(1), "native 1,python 0,python 0,forward 1");
    assert_string_equal(cut_kinds(2), "native 1,python 1");
    assert_string_equal(cut_kinds(3), "native 0,python 1");
    assert_string_equal(cut_kinds(4), "native 0,python 0,python 0");
    assert_string_equal(
        maker_ask(&maker, "SELECT group_concat(truncated) FROM (SELECT truncated FROM stack_site "
                          "ORDER BY id)"),
        "5,3,2,0");
}

/* Collectors end after each part; their successors know the numbers, and make nothing twice. */
static void test_restart(void **state) {
    (void)state;
    write_python(1);
    take();
    maker_mixed_stack(&maker, 1, 1, 1, 2, address, 1, 0);
    take();
    take();
    maker_mixed_stack(&maker, 1, 2, 1, 1, address, 3, 0);
    maker_code(&maker, 1, 9, "late", "/home/me/train.py");
    maker_python(&maker, 1, 9, 1, (const struct ls_python_frame[]){{9, 7}});
    maker_mixed_stack(&maker, 1, 3, 1, 1, address, 9, 0);
    take();
    maker_mixed_stack(&maker, 1, 4, 1, 1, address, 2, 0);
    finish();
    assert_string_equal(site_of(1), "/home/me/train.py:12 step");
    assert_string_equal(site_of(2), "/home/me/train.py:12 step");
    assert_string_equal(site_of(3), "/home/me/train.py:7 late");
    assert_string_equal(frames_of(4), "native ?"
                                      "? - -; python step /home/me/train.py 12; "
                                      "python <module> /home/me/train.py 40");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM frame WHERE kind=1"), 4);
    assert_int_equal(maker_number(&maker,
                                  "SELECT COUNT(DISTINCT stack) FROM stack_site WHERE id IN "
                                  "(2,4)"),
                     1);
}

/* The largest stack that records can hold. */
static void test_deep(void **state) {
    (void)state;
    static uint64_t native[256];
    static struct ls_python_frame python[1000];
    for (uint32_t i = 0; i < 256; i++)
        native[i] = 0x1000 + i;
    for (uint32_t i = 0; i < 1000; i++)
        python[i] = (struct ls_python_frame){1, i + 1};
    maker_code(&maker, 1, 1, "f", "/v/site-packages/torch/a.py");
    maker_code(&maker, 1, 2, "main", "main.py");
    python[999] = (struct ls_python_frame){2, 3};
    maker_python(&maker, 1, 1, 1000, python);
    maker_mixed_stack(&maker, 1, 1, 1, 256, native, 1, 0);
    take();
    take();
    finish();
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM stack_frame WHERE stack_id=1"),
                     1256);
    assert_string_equal(site_of(1), "main.py:3 main");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_alive, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_mixed),          TEST(test_unknown),     TEST(test_forward),
        TEST(test_other_thread),   TEST(test_restart),     TEST(test_deep),
        TEST(test_between_chunks), TEST(test_late_python), TEST(test_truncated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
