/*
 * test_restart.c - collectors that are killed, and their successors: every record exactly once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect.h"
#include "spool_fixture.h"

static enum ls_collected once(void) {
    char why[512];
    return ls_collect_once(maker.spool, maker.trace, 0, why, sizeof why);
}

/* The process runs another program now, so that the spool's is dead. */
static void die(void) {
    maker.header->image++;
}

static void check_whole(uint64_t calls) {
    assert_string_equal(maker_ask(&maker, "PRAGMA integrity_check"), "ok");
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM call"), calls);
    assert_int_equal(maker_number(&maker, "SELECT MAX(id) FROM call"), calls);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(DISTINCT f0) FROM call"), calls / 2);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM allocation"), calls / 2);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM live_allocation"), 0);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM allocation AS a JOIN call AS b ON "
                                          "b.id=a.start_call JOIN call AS e ON e.id=a.end_call "
                                          "WHERE b.f0<>e.f0 OR b.f0<>a.address"),
                     0);
    assert_int_equal(maker_number(&maker, "SELECT IFNULL(SUM(count),0) FROM lost"), 0);
}

/* A COMMIT that was not followed by handing the chunks back. */
static void test_killed_before_hand_back(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 10; i++) {
        maker_call(&maker, 1, cudaMalloc, 10 * i, 10 * i + 1, 0x1000 * (i + 1), 8);
        maker_call(&maker, 1, cudaFree, 10 * i + 2, 10 * i + 3, 0x1000 * (i + 1));
        maker_seal(&maker, 1);
        uint32_t before[16];
        for (uint32_t s = 0; s < maker.header->slots; s++)
            before[s] = maker.slot[s].state;
        assert_int_equal(once(), LS_COLLECTED_LIVE);
        for (uint32_t s = 0; s < maker.header->slots; s++) {
            assert_int_equal(maker.slot[s].state, LS_CHUNK_FREE);
            maker.slot[s].state = before[s];
        }
        assert_int_equal(once(), LS_COLLECTED_LIVE);
    }
    die();
    assert_int_equal(maker_collect(&maker), LS_EXIT_OK);
    check_whole(20);
}

/* Lifetimes that are begun under one collector and ended under another; two at one address. */
static void test_live_set_is_taken_up(void **state) {
    (void)state;
    maker_call(&maker, 1, cudaMalloc, 1, 2, 0x1000, 8);
    maker_call(&maker, 2, cudaMalloc, 11, 12, 0x1000,
               9); /* thread 1's free is in flight: 10 to 30 */
    maker_call(&maker, 2, cudaMallocArray, 13, 14, 0x9000, 4, 4, 0, 0x20, 0);
    assert_int_equal(once(), LS_COLLECTED_LIVE);
    maker_call(&maker, 1, cudaFree, 10, 30, 0x1000);
    assert_int_equal(once(), LS_COLLECTED_LIVE);
    maker_call(&maker, 1, cudaFree, 40, 41, 0x1000);
    maker_call(&maker, 2, cudaMemcpy3D, 50, 51, 0, 0x77, 0x9000, 0, 2, 0, 0, 1);
    maker_call(&maker, 2, cudaFreeArray, 60, 61, 0x9000);
    die();
    assert_int_equal(once(), LS_COLLECTED);
    assert_string_equal(maker_ask(&maker,
                                  "SELECT group_concat(size||':'||start_ns||'-'||end_ns) FROM "
                                  "(SELECT * FROM allocation ORDER BY id)"),
                        "8:1-10,9:11-40,64:13-60");
    assert_int_equal(maker_number(&maker, "SELECT bytes FROM copy"), 8);
}

/* Ticks of now: what a reader may take depends on when a call completed. */
static uint64_t now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec - MADE_START;
}

static void write_pairs(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; i++) {
        unsigned a = 1 + (unsigned)(i % 4), b = 1 + (unsigned)(i / 4 % 4); /* freed elsewhere */
        uint64_t start = now(), end = now();
        maker_call(&maker, a, cudaMalloc, start, end, 0x1000 * (i + 1), 8);
        start = now(), end = now();
        maker_call(&maker, b, cudaFree, start, end, 0x1000 * (i + 1));
    }
}

/* Collectors are killed at random moments while records come in. */
static void test_killed_at_random(void **state) {
    (void)state;
    unsigned seed = 11;
    uint64_t written = 0;
    for (int round = 0; round < 30; round++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(ls_collect_follow(maker.spool, (int)maker.header->pid));
        assert_true(pid > 0);
        int parts = rand_r(&seed) % 20;
        for (int part = 0; part < parts; part++) {
            uint64_t more = (unsigned)rand_r(&seed) % 400;
            write_pairs(written, written + more);
            written += more;
            usleep((unsigned)rand_r(&seed) % 3000);
        }
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    die();
    assert_int_equal(maker_collect(&maker), LS_EXIT_OK);
    check_whole(2 * written);
    assert_int_equal(access(maker.spool, F_OK), -1);
}

/* Killed between finishing the trace and removing the spool. */
static void test_killed_after_the_end(void **state) {
    (void)state;
    write_pairs(0, 10);
    maker.header->lost[LS_LOST_CAP] = 3;
    char spare[160], command[400];
    snprintf(spare, sizeof spare, "%s.spare", maker.spool);
    snprintf(command, sizeof command, "cp %s %s", maker.spool, spare);
    die();
    assert_int_equal(system(command), 0);
    assert_int_equal(once(), LS_COLLECTED);
    assert_int_equal(rename(spare, maker.spool), 0);
    assert_int_equal(once(), LS_COLLECTED);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM call"), 20);
    assert_int_equal(maker_number(&maker, "SELECT SUM(count) FROM lost"), 3);
    assert_int_equal(access(maker.spool, F_OK), -1);
}

/* Only one reads at a time; a live target's collector answers a request for a drain. */
static void test_second_reader_asks_the_first(void **state) {
    (void)state;
    write_pairs(0, 5);
    pid_t pid = fork();
    if (pid == 0)
        _exit(ls_collect_follow(maker.spool, (int)maker.header->pid));
    while (access(maker.trace, F_OK) != 0 || maker.header->collector_pid != (uint32_t)pid)
        usleep(1000);
    usleep(100000);
    write_pairs(5, 10);
    assert_int_equal(once(), LS_COLLECTED_LIVE);
    assert_int_equal(maker_number(&maker, "SELECT COUNT(*) FROM call"), 20);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_alive, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_killed_before_hand_back),
        TEST(test_live_set_is_taken_up),
        TEST(test_killed_at_random),
        TEST(test_killed_after_the_end),
        TEST(test_second_reader_asks_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
