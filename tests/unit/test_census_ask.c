/*
 * test_census_ask.c - finding the recording of a process, and asking it for a census. The process
 * is this one: its spool is mapped here, and a thread of it answers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "census_ask.h"
#include "spool_maker.h"
#include "trace.h"

#define ASKED LS_CENSUS_ASKED

static struct maker maker;
static atomic_bool over;

static int setup(void **state) {
    (void)state;
    maker_open(&maker, true);
    atomic_store(&over, false);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    maker_close(&maker);
    return 0;
}

static void sleep_ms(int ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* What the target does at its next call, a while after it was asked. */
static void *answer(void *late) {
    static const char *const paths[] = {"x", NULL};
    while (!atomic_load(&over) && atomic_load(&maker.header->census_wanted) == 0)
        sleep_ms(1);
    maker_census(&maker, 1, 3, LS_CENSUS_BEGINS, ASKED, 100, 0, "");
    maker_storage(&maker, 1, 3, 1, 0x1000, 512, 0);
    sleep_ms(late ? 120 : 0);
    maker_tensor(&maker, 1, 3, 1, 512, LS_TENSOR_CONTIGUOUS, paths);
    maker_census(&maker, 1, 3, LS_CENSUS_COMPLETE, ASKED, 200, 0, "");
    return NULL;
}

static void ask_and_check(bool late) {
    struct ls_recorded recorded;
    pthread_t thread;
    int64_t id = 0;
    /* One of before, which is no answer. */
    maker_census(&maker, 1, 2, LS_CENSUS_FAILED, ASKED, 10, 0, "no Python");
    assert_int_equal(ls_recorded_find(&recorded, getpid()), LS_EXIT_OK);
    assert_string_equal(recorded.spool, maker.spool);
    assert_string_equal(recorded.trace, maker.trace);
    assert_int_equal(pthread_create(&thread, NULL, answer, late ? &maker : NULL), 0);
    assert_int_equal(ls_census_ask(&recorded, 5000, &id), LS_EXIT_OK);
    pthread_join(thread, NULL);
    assert_int_equal(id, 3);
    assert_int_equal(atomic_load(&maker.header->census_wanted), 1);
    assert_string_equal(maker_ask(&maker, "SELECT state||' '||(SELECT COUNT(*) FROM census_tensor)"
                                          " FROM census WHERE id = 3"),
                        "2 1");
}

static void test_answered(void **state) {
    (void)state;
    ask_and_check(false);
}

static void test_waits_for_the_end(void **state) {
    (void)state;
    ask_and_check(true);
}

static void test_no_answer(void **state) {
    (void)state;
    struct ls_recorded recorded;
    int64_t id;
    assert_int_equal(ls_recorded_find(&recorded, getpid()), LS_EXIT_OK);
    assert_int_equal(ls_census_ask(&recorded, 150, &id), LS_EXIT_INPUT);
}

static void test_ends_before_it_answers(void **state) {
    (void)state;
    struct ls_recorded recorded;
    int64_t id;
    assert_int_equal(ls_recorded_find(&recorded, getpid()), LS_EXIT_OK);
    maker.header->image++; /* it runs another program: dead, for its collector */
    assert_int_equal(ls_census_ask(&recorded, 5000, &id), LS_EXIT_INPUT);
}

/* A fork child has its parent's spool mapped, which is not its own. */
static void test_forked(void **state) {
    (void)state;
    struct ls_recorded recorded;
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    assert_int_equal(ls_recorded_find(&recorded, child), LS_EXIT_INPUT);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void test_removed(void **state) {
    (void)state;
    struct ls_recorded recorded;
    unlink(maker.spool);
    assert_int_equal(ls_recorded_find(&recorded, getpid()), LS_EXIT_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_waits_for_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ends_before_it_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forked, setup, teardown),
        cmocka_unit_test_setup_teardown(test_removed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
